"""The tables of plan files, from the fields of their sections, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, fields
from typing import Any

from veilboost.plans.declared import Declared
from veilboost.plans.entries import Entry, default_of, is_needed, type_of
from veilboost.plans.plan import ENTRIES, METHODS
from veilboost.plans.sections import PartyAddress, Served, TrainingSection


def table(entries: Iterable[Field[Any]]) -> list[str]:
    """Lines of the table of some entries."""
    rows = [f"| `{f.name}` | `{type_of(f)}` | {_shown_default(f)} | {Entry.of(f).meaning} |" for f in entries]
    return ["| entry | type | default | meaning |", "|---|---|---|---|", *rows, ""]


def _shown_default(f: Field[Any]) -> str:
    if is_needed(f):
        return "needed"
    default = default_of(f)
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return "none" if default is None else "`" + repr(default).replace("'", '"') + "`"


def own_fields(kind: type[Any], base: type[Any] | None = None) -> list[Field[Any]]:
    """The fields of a section that another one does not have."""
    known = {} if base is None else {f.name: f for f in fields(base)}
    return [f for f in fields(kind) if f.name not in known or Entry.of(f) != Entry.of(known[f.name])]


def page() -> str:
    """All tables, each below its heading."""
    lines = ["## Entries of every plan", "", "| entry | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in ENTRIES.items()]
    lines += ["", "## `[[parties]]`", "", *table(fields(PartyAddress))]
    for method, kind in METHODS.items():
        lines += [f'## `[data]` with `method = "{method}"`', "", *table(fields(kind.data))]
    lines += ["## `[training]`", "", *table(fields(TrainingSection))]
    for method, kind in METHODS.items():
        lines += [f'With `method = "{method}"` also:', "", *table(own_fields(kind.training, TrainingSection))]
    lines += ["## Settings of every served party", "", *table(fields(Served))]
    for method, kind in METHODS.items():
        lines += [f"## Settings of `serve {method}`", "", *table(own_fields(kind.served, Served))]
    lines += ["## Declared columns", "", *table(fields(Declared))]
    return "\n".join(lines)
