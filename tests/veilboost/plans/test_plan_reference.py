"""The reference of plan files has each entry that the parser accepts, with type and default, and no other."""

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from veilboost.plans.plan import ENTRIES, EXACT, METHODS, PRIVATE, SECTIONS, SECUREBOOST, SIMFL
from veilboost.plans.sections import (
    DataPlan,
    ExactRowsPlan,
    ExactTrainingPlan,
    OwnRowsPlan,
    PartyPlan,
    PrivateRowsPlan,
    PrivateTrainingPlan,
    RunPlan,
    SimFLPlan,
    TrainingPlan,
)

PAGE = (Path(__file__).parents[3] / "docs" / "plan-file.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.+) \|$", re.M)


def tables():
    """Entries of each table of the page, by the heading or sentence above it."""
    parts = re.split(r"^(?:## (.+)|(With `.+` also:))$", PAGE, flags=re.M)
    named = [
        (heading or sentence, text) for heading, sentence, text in zip(*[iter(parts[1:])] * 3, strict=True)
    ]
    return {name: {row[0]: row[1:] for row in ROW.findall(text)} for name, text in named}


def own(kind, base=None):
    known = {f.name for f in fields(base)} if base else set()
    return {f.name: (str(f.type), default_of(f)) for f in fields(kind) if f.name not in known}


def default_of(f):
    if f.default_factory is not MISSING:
        return repr(f.default_factory())
    if f.default is MISSING:
        return "needed"
    return "none" if f.default is None else repr(f.default).replace("'", '"')


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("`[[parties]]`", own(PartyPlan)),
        ('`[data]` with `method = "secureboost"`', own(DataPlan)),
        ('`[data]` with `method = "exact"`', own(ExactRowsPlan)),
        ('`[data]` with `method = "simfl"`', own(OwnRowsPlan)),
        ('`[data]` with `method = "private"`', own(PrivateRowsPlan)),
        ("`[training]`", own(RunPlan)),
        ('With `method = "secureboost"` also:', own(TrainingPlan, RunPlan)),
        ('With `method = "exact"` also:', own(ExactTrainingPlan, RunPlan)),
        ('With `method = "simfl"` also:', own(SimFLPlan, RunPlan)),
        ('With `method = "private"` also:', own(PrivateTrainingPlan, RunPlan)),
    ],
)
def test_every_entry_is_in_the_reference_and_the_reverse(table, expected):
    shown = tables()[table]
    assert set(shown) == set(expected)
    for name, (kind, default) in expected.items():
        assert shown[name][0] == f"`{kind.removesuffix(' | None')}`", name
        assert shown[name][1].strip("`") == default, name


def test_sections_and_methods_are_in_the_reference():
    assert set(tables()["Entries of every plan"]) == set(ENTRIES)
    assert set(SECTIONS) == set(METHODS) == {SECUREBOOST, EXACT, SIMFL, PRIVATE}
    for sections in SECTIONS.values():
        assert set(sections) == {"data", "parties", "training"}
    for method in METHODS:
        assert f'"{method}"' in tables()["Entries of every plan"]["method"][2]
