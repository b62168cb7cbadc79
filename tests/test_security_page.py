"""The table of what strangers can read names settings that exist, with the defaults that they have."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import lgb_dp
import xgb_fed
from veilboost import command_line
from xgb_fed.boosting.categories import CategoryRules
from xgb_fed.vertical.service import Limits

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
MODES = ("vertical", "exact horizontal", "SimFL", "all without noise", "private, across organisations")
HOMES = {
    "Limits": Limits,
    "CategoryRules": CategoryRules,
    "VerticalXGBClassifier": xgb_fed.VerticalXGBClassifier,
    "HorizontalXGBClassifier": xgb_fed.HorizontalXGBClassifier,
    "DPLGBMClassifier": lgb_dp.DPLGBMClassifier,
}


def rows_of(page):
    """The cells of the table, line by line."""
    lines = [line for line in page.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def settings_of(cell):
    """Settings that a cell names, each with the default that it says, or None if it says none."""
    return re.findall(r"`([^`]+)`(?: \(([^)]*)\))?", cell)


SETTINGS = sorted({setting for *_, cell in rows_of(PAGE) for setting in settings_of(cell)})


def default_of(setting):
    """The default of an option of ``serve``, of a field, or of an argument, as the page writes it."""
    if setting.startswith("--"):
        given = ["serve", "--data", "x.csv", "--tls", "certs", "--allow", "acme"]
        value = vars(command_line._parser().parse_args(given))[setting[2:].replace("-", "_")]
        return "none" if value in (None, []) else str(value)
    home, _, name = setting.partition(".")
    kind = HOMES[home]
    if dataclasses.is_dataclass(kind):
        return str({field.name: field.default for field in dataclasses.fields(kind)}[name])
    return str(inspect.signature(kind).parameters[name].default)


@pytest.mark.parametrize(("setting", "default"), SETTINGS, ids=[setting for setting, _ in SETTINGS])
def test_settings_of_the_table_have_the_defaults_that_it_says(setting, default):
    assert default == default_of(setting)


def test_the_table_covers_every_mode_and_names_limits():
    rows = rows_of(PAGE)
    assert {len(row) for row in rows} == {5}
    assert set(MODES) <= {mode for mode, *_ in rows}
    assert all(figure for *_, figure, _ in rows)
    assert len(SETTINGS) > 15
    assert {"--max-statistics", "--max-thresholds", "--min-node-rows", "--max-rounds"} <= dict(
        SETTINGS
    ).keys()


def test_options_have_the_defaults_of_the_limits():
    """A party that is served from Python has the same limits as one of the command."""
    options = {"questions_per_hour", "sessions_per_hour", "min_rows", "min_node_rows", "max_statistics"}
    for name in (*options, "max_thresholds", "max_bin", "max_depth", "allow_explanations"):
        assert default_of("--" + name.replace("_", "-")) == default_of(f"Limits.{name}")


def test_the_security_policy_links_to_the_table():
    heading = "What strangers can read today"
    assert f"\n## {heading}\n" in PAGE
    assert f"docs/security.md#{heading.lower().replace(' ', '-')}" in (ROOT / "SECURITY.md").read_text()
