"""The reference of plan files has each entry that the parser accepts, with type, default and meaning."""

import re
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from veilboost.plans.declared import Declared
from veilboost.plans.plan import ENTRIES, METHODS
from veilboost.plans.sections import PartyAddress, Served, TrainingSection

DOCS = Path(__file__).parents[3] / "docs"
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.+) \|$", re.M)


@pytest.fixture(scope="module")
def page():
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        import plan_reference
    finally:
        sys.path.pop(0)
    return plan_reference.page()


def tables(page):
    """Entries of each table of the page, by the heading or sentence above it."""
    parts = re.split(r"^(?:## (.+)|(With `.+` also:))$", page, flags=re.M)
    named = [
        (heading or sentence, text) for heading, sentence, text in zip(*[iter(parts[1:])] * 3, strict=True)
    ]
    return {name: {row[0]: row[1:] for row in ROW.findall(text)} for name, text in named}


def own(kind, base=None):
    known = {f.name: f.metadata for f in fields(base)} if base else {}
    # An entry that means something else is listed again.
    return {f.name: (str(f.type), default_of(f)) for f in fields(kind) if known.get(f.name) != f.metadata}


def default_of(f):
    if f.default_factory is not MISSING:
        return repr(f.default_factory()).replace("'", '"')
    if f.default is MISSING:
        return "needed"
    if isinstance(f.default, bool):
        return str(f.default).lower()
    return "none" if f.default is None else repr(f.default).replace("'", '"')


TABLES = [("`[[parties]]`", PartyAddress, None), ("`[training]`", TrainingSection, None)]
TABLES += [("Settings of every served party", Served, None), ("Declared columns", Declared, None)]
for method, kind in METHODS.items():
    TABLES += [(f'`[data]` with `method = "{method}"`', kind.data, None)]
    TABLES += [(f'With `method = "{method}"` also:', kind.training, TrainingSection)]
    TABLES += [(f"Settings of `serve {method}`", kind.served, Served)]


@pytest.mark.parametrize(("table", "kind", "base"), TABLES, ids=[table for table, _, _ in TABLES])
def test_every_entry_is_in_the_reference_and_the_reverse(page, table, kind, base):
    shown, expected = tables(page)[table], own(kind, base)
    assert set(shown) == set(expected)
    for name, (kind_of_value, default) in expected.items():
        assert shown[name][0] == f"`{kind_of_value.removesuffix(' | None')}`", name
        assert shown[name][1].strip("`") == default, name
        assert shown[name][2].strip(), name
        assert "|" not in shown[name][2], name


def test_sections_and_methods_are_in_the_reference(page):
    (listed,) = re.findall(r"^## Entries of every plan\n(.*?)^## ", page, re.M | re.S)
    entries = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", listed, re.M))
    assert entries == ENTRIES
    assert set(tables(page)) == {table for table, _, _ in TABLES} | {"Entries of every plan"}
    assert set(METHODS) == {"vertical", "exact", "private", "private-columns", "simfl"}
    for method in METHODS:
        assert f'"{method}"' in entries["method"]


def test_the_page_includes_the_tables_and_has_none_of_its_own():
    written = (DOCS / "plan-file.md").read_text(encoding="utf-8")
    assert "```{include} generated/plan-file.inc\n```" in written
    assert "\n|" not in written
    assert 'pages["plan-file.inc"]' in (DOCS / "_ext" / "generated_pages.py").read_text(encoding="utf-8")
