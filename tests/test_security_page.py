"""The tables of who learns and reads what name messages and settings that exist, with their defaults."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import lgb_dp
import lgb_dp.federated
import lgb_dp.vertical
import xgb_fed
from gbdt_parties.messages import Message
from veilboost.plans.entries import default_of as entry_default
from veilboost.plans.entries import is_needed
from veilboost.plans.plan import METHODS as METHODS_OF_PLANS
from xgb_fed.boosting.categories import CategoryRules
from xgb_fed.vertical.passive.service import Limits

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
LEAKAGE = (ROOT / "docs" / "leakage.md").read_text(encoding="utf-8")
METHODS = (
    "Vertical training",
    "Exact horizontal training",
    "SimFL",
    "Models without noise",
    "Private training with columns apart",
)
MODES = {
    "private, one place",
    "columns apart",
    "rows apart, exact",
    "rows apart, SimFL",
    "exact or SimFL",
    "rows apart, private",
    "columns apart, private",
}
HOMES = {
    "Limits": Limits,
    "CategoryRules": CategoryRules,
    "VerticalXGBClassifier": xgb_fed.VerticalXGBClassifier,
    "HorizontalXGBClassifier": xgb_fed.HorizontalXGBClassifier,
    "DPLGBMClassifier": lgb_dp.DPLGBMClassifier,
    "VerticalDPLGBMClassifier": lgb_dp.vertical.VerticalDPLGBMClassifier,
    "Consent": lgb_dp.vertical.Consent,
}


def cells_of(text):
    """The cells of a text's table, line by line, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def tables_of(page):
    """The cells of each method's table, by the heading above it."""
    section = page.partition("\n## What strangers can read today\n")[2].partition("\n## ")[0]
    tables = {}
    for text in section.split("\n### ")[1:]:
        method, _, body = text.partition("\n")
        tables[method] = cells_of(body)
    return tables


def settings_of(cell):
    """Settings that a cell names, each with the default that it says, or None if it says none."""
    return re.findall(r"`([^`]+)`(?: \(([^)]*)\))?", cell)


def messages_of(kind):
    """The names of all kinds of messages that derive from a kind."""
    return {kind.__name__}.union(*map(messages_of, kind.__subclasses__()))


ROWS = [row for rows in tables_of(PAGE).values() for row in rows]
LEAKS = cells_of(LEAKAGE)
SETTINGS = sorted({setting for *_, cell in (*ROWS, *LEAKS) for setting in settings_of(cell)})


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


def test_one_table_has_every_mode_and_party_and_its_messages():
    modes = [row[0].partition(":")[0] for row in LEAKS if row[0] != "the same"]
    assert set(modes) == MODES
    assert {len(row) for row in LEAKS} == {4}
    assert len(LEAKS) == LEAKAGE.count("\n|") - 2 > 20
    named = {name for *_, messages, _ in LEAKS for name in re.findall(r"`(\w+)`", messages)}
    assert len(named) > 15
    assert named <= messages_of(Message)


def test_cells_are_read_at_a_glance():
    assert max(len(cell.split()) for row in (*ROWS, *LEAKS) for cell in row) <= 40
