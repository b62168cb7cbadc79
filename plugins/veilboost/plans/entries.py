"""Entries of a section: their types, defaults, limits and meanings, from which all is made that shows them.

A section is a frozen dataclass whose fields are made by `entry`.  The readers of files, the options of
``serve`` and the pages that list the entries read the same fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from gbdt_commons.errors import VeilboostError
from gbdt_commons.quoting import quoted


class PlanError(VeilboostError, ValueError):
    """A plan cannot be read, or has unknown entries."""


class Entry(NamedTuple):
    """Description of an entry, in the metadata of its field.

    `meaning` is Markdown, for the reference; `option` is the help of the option of ``serve`` where that is
    too long for a line, and `metavar` that of its value. Numbers are at least `least` or exceed `above`, and
    are at most `most`; texts are among the `choices`, if any. `is_path` marks a file or folder, relative to
    the plan's, and `writes` the kind of the file that is written there (`plans.paths`). `is_repeated` gives
    the option once for each item of a list.
    """

    meaning: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    is_path: bool = False
    writes: str = ""
    option: str = ""
    metavar: str | tuple[str, ...] | None = None
    is_repeated: bool = False

    @classmethod
    def of(cls, given: Field[Any]) -> Entry:
        """The description of a field that `entry` made."""
        found = given.metadata["entry"]
        assert isinstance(found, Entry)
        return found


def entry(meaning: str, default: Any = MISSING, **more: Any) -> Any:
    """A field of a section, with other attributes of `Entry`; without a default, the entry is needed."""
    metadata = {"entry": Entry(meaning, **more)}
    if isinstance(default, (list, dict)):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def is_needed(given: Field[Any]) -> bool:
    """Whether an entry has no default."""
    return given.default is MISSING and given.default_factory is MISSING


def default_of(given: Field[Any]) -> Any:
    """The default of an entry that has one."""
    return given.default if given.default_factory is MISSING else given.default_factory()


_NUMBER = (int, float)
TYPES: dict[str, tuple[tuple[type, ...], tuple[type, ...]]] = {
    "str": ((str,), ()),
    "int": ((int,), ()),
    "float": (_NUMBER, ()),
    "bool": ((bool,), ()),
    "list[str]": ((list,), (str,)),
    "list[float]": ((list,), _NUMBER),
    "Mapping[str, list[float]]": ((Mapping,), ()),
    "Mapping[str, list[Any]]": ((Mapping,), ()),
}
"""Types of entries by their annotations: of the value, and of the items of a list."""


def type_of(given: Field[Any]) -> str:
    """The type of an entry, which may also be missing."""
    return str(given.type).removesuffix(" | None")


def _fits(value: Any, kind: str) -> bool:
    whole, items = TYPES[kind]
    if isinstance(value, bool):
        return whole == (bool,)
    if not isinstance(value, list):
        return isinstance(value, whole)
    return whole == (list,) and all(isinstance(item, items) and not isinstance(item, bool) for item in value)


def read_section(kind: type[Any], given: Any, where: str) -> Any:
    """A section from a table's entries; PlanError names a wrong entry, and the section by `where`."""
    given = as_table(given, where)
    known = {f.name: f for f in fields(kind)}
    check_known(given, known, where)
    for name, f in known.items():
        if name in given:
            if not _fits(given[name], type_of(f)):
                raise PlanError(f"{where}: {name}={shown(given[name])} must be {f.type}")
        elif is_needed(f):
            raise PlanError(f"{where}: {name} is missing")
    return kind(**given)


def beside(section: Any, folder: Path) -> Any:
    """A section whose paths are relative to a folder."""
    given = {f.name: getattr(section, f.name) for f in fields(section) if Entry.of(f).is_path}
    return replace(section, **{name: str(folder / path) for name, path in given.items() if path is not None})


def fault_of(section: Any, called: Callable[[str], str]) -> str | None:
    """The first value that is not accepted, as a sentence with names that `called` gives; None if all are."""
    for f in fields(section):
        value, about = getattr(section, f.name), Entry.of(f)
        if value is None:
            continue
        given = f"{called(f.name)}={shown(value)}"
        if about.choices and value not in about.choices:
            return f"{given} must be one of {sorted(about.choices)}"
        if not isinstance(value, _NUMBER) or _is_within(value, about):
            continue
        if about.above is not None:
            return f"{given} must be above {about.above:g}, up to {about.most:g}"
        if about.most is not None:
            return f"{given} must be {about.least:g} to {about.most:g}"
        return f"{given} must be at least {about.least:g}"
    return None


def _is_within(value: float, about: Entry) -> bool:
    """Whether a number is accepted; NaN is not where there is any limit."""
    return (
        (about.least is None or value >= about.least)
        and (about.above is None or value > about.above)
        and (about.most is None or value <= about.most)
    )


def as_table(value: Any, where: str) -> Mapping[str, Any]:
    """A value that must be a table of a file."""
    if not isinstance(value, Mapping):
        raise PlanError(f"{where} must be a table of names and values")
    return value


def check_known(given: Mapping[Any, Any], known: Iterable[str], where: str) -> None:
    """Refuse entries that a table of a plan does not have."""
    for name in given:
        if name not in known:
            raise PlanError(f"{where}: unknown entry {shown(name)}; known are {sorted(known)}")


def shown(value: Any) -> str:
    """A value as an error quotes it: cut, and without what a terminal would obey."""
    try:
        return quoted(repr(value))
    except ValueError:
        return "a number of thousands of digits"
