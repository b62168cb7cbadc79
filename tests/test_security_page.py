"""The tables of what each party learns name settings that exist, with the defaults that they have."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import lgb_dp
import lgb_dp.vertical
import xgb_fed
from veilboost.plans.entries import default_of as entry_default
from veilboost.plans.entries import is_needed
from veilboost.plans.plan import METHODS as METHODS_OF_PLANS
from xgb_fed.boosting.categories import CategoryRules
from xgb_fed.vertical.passive.service import Limits

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
METHODS = (
    "Vertical training",
    "Exact horizontal training",
    "SimFL",
    "Models without noise",
    "Private training across organisations",
    "Private training with columns apart",
    "Private training in one place",
)
HOMES = {
    "Limits": Limits,
    "CategoryRules": CategoryRules,
    "VerticalXGBClassifier": xgb_fed.VerticalXGBClassifier,
    "HorizontalXGBClassifier": xgb_fed.HorizontalXGBClassifier,
    "DPLGBMClassifier": lgb_dp.DPLGBMClassifier,
    "VerticalDPLGBMClassifier": lgb_dp.vertical.VerticalDPLGBMClassifier,
    "Consent": lgb_dp.vertical.Consent,
}


def tables_of(page):
    """The cells of each method's table, line by line, by the heading above it."""
    section = page.partition("\n## What strangers can read today\n")[2].partition("\n## ")[0]
    tables = {}
    for text in section.split("\n### ")[1:]:
        method, _, body = text.partition("\n")
        lines = [line for line in body.splitlines() if line.startswith("|")][2:]
        tables[method] = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return tables


def settings_of(cell):
    """Settings that a cell names, each with the default that it says, or None if it says none."""
    return re.findall(r"`([^`]+)`(?: \(([^)]*)\))?", cell)


ROWS = [row for rows in tables_of(PAGE).values() for row in rows]
SETTINGS = sorted({setting for *_, cell in ROWS for setting in settings_of(cell)})


def default_of(setting):
    """The default of an option of ``serve``, of a field, or of an argument, as the page writes it."""
    if setting.startswith("--"):
        name = setting[2:].replace("-", "_")
        found = [f for kind in METHODS_OF_PLANS.values() for f in dataclasses.fields(kind.served)]
        defaults = [None if is_needed(f) else entry_default(f) for f in found if f.name == name]
        (value,) = {
            "none"
            if default in (None, [])
            else f"{default:g}"
            if isinstance(default, float)
            else str(default)
            for default in defaults
        }
        return value
    home, _, name = setting.partition(".")
    kind = HOMES[home]
    if dataclasses.is_dataclass(kind):
        return str({field.name: field.default for field in dataclasses.fields(kind)}[name])
    return str(inspect.signature(kind).parameters[name].default)


@pytest.mark.parametrize(("setting", "default"), SETTINGS, ids=[setting for setting, _ in SETTINGS])
def test_settings_of_the_table_have_the_defaults_that_it_says(setting, default):
    assert default == default_of(setting)


def test_there_is_one_table_for_every_method_which_names_limits():
    assert tuple(tables_of(PAGE)) == METHODS
    assert all(tables_of(PAGE).values())
    assert len(ROWS) == PAGE.count("\n|") - 2 * len(METHODS)
    assert {len(row) for row in ROWS} == {4}
    assert all(figure for *_, figure, _ in ROWS)
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
