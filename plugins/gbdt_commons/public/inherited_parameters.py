"""Classes whose constructors and docstrings name only the parameters that they add to their parents'.

The constructor of such a class hands on, as keywords, what it does not know::

    @inherits_parameters()
    class Child(Parent):
        def __init__(self, first: int = 1, *, own: int = 2, **others: Any) -> None:
            super().__init__(first, **others)
            self.own = own

`inspect.signature`, from which scikit-learn reads an estimator's parameters, and ``help`` then show those of
the parents, too.  Since Python 3.13 the compiler takes the indentation of docstrings away, so nothing here
depends on it; with ``python -OO`` there are none.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any, TypeVar

C = TypeVar("C", bound=type)

_HEADING = re.compile(r"^(\w[\w ]*)\n-+(?:\n|$)", re.MULTILINE)
_SECTIONS = ("Parameters", "Attributes", "Raises", "See Also", "Notes", "Examples")
"""Sections of a class's docstring, in the order of numpydoc."""


def inherits_parameters(*, before: str | None = None) -> Callable[[C], C]:
    """Decorate a class whose constructor and docstring leave out the parents' parameters.

    The signature of the constructor becomes the parents' with the class's own parameters behind them (or
    before the parents' parameter `before`), and the first parent's ``**keywords`` at the end. The docstring
    gets the parents' sections. Its parameters come in the order of the signature, and its own attributes
    before the parents'. An own entry takes the place of the entries of the same names, and an own section of
    another kind that of the parents'.

    Raises ValueError if a docstring describes a parameter that is missing, or an own entry has some of the
    names, but not all, that a parent describes together.
    """

    def decorate(cls: C) -> C:
        inherited = vars(cls).get("__init__")
        if inherited is None:  # the parents' constructor has their signature
            inherited = _handing_on(cls)
            cls.__init__ = inherited  # type: ignore[misc]
        inherited.__signature__ = signature = _signature(cls, before)
        if cls.__doc__ is not None:
            cls.__doc__ = _docstring(cls, list(signature.parameters))
        return cls

    return decorate


def _handing_on(cls: type) -> Any:
    """A constructor of a class that does what the parents' does."""
    parents: Any = cls.__init__  # type: ignore[misc]

    @functools.wraps(parents)
    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        parents(self, *args, **keywords)

    return __init__


def _constructing(cls: type) -> Iterator[type]:
    """A class and its parents of the same package that have constructors, the first parent first.

    The constructors of other packages' classes, which are parents for `isinstance` alone, are not called.
    """
    package = cls.__module__.partition(".")[0]
    own = (one for one in reversed(cls.__mro__) if one.__module__.partition(".")[0] == package)
    return (one for one in own if isinstance(vars(one).get("__init__"), FunctionType))


def _signature(cls: type, before: str | None) -> inspect.Signature:
    names = list[str]()
    parameters = dict[str, inspect.Parameter]()
    keywords = list[inspect.Parameter]()
    for one in _constructing(cls):
        signature = inspect.signature(vars(one)["__init__"])
        own = list(signature.parameters.values())
        variable = [parameter for parameter in own if parameter.kind is inspect.Parameter.VAR_KEYWORD]
        if not names:
            keywords = variable
        own = [parameter for parameter in own if parameter not in variable]
        parameters.update((parameter.name, parameter) for parameter in own)
        last = [before] if one is cls and before is not None else []
        names = _joined(names, [*(parameter.name for parameter in own), *last])
    return signature.replace(parameters=[*(parameters[name] for name in names), *keywords])


def _joined(names: Sequence[str], own: Sequence[str]) -> list[str]:
    """Names and own ones; a new one stands before the one that follows it among the own, or at the end."""
    joined, follower = list(names), len(names)
    for name in reversed(own):
        if name not in joined:
            joined.insert(follower, name)
        follower = joined.index(name)
    return joined


def _docstring(cls: type, order: Sequence[str]) -> str:
    sections = dict[str, str]()
    entries: dict[str, dict[tuple[str, ...], str]] = {"Parameters": {}, "Attributes": {}}
    for one in _constructing(cls):
        summary, *parts = _HEADING.split(inspect.cleandoc(one.__doc__ or ""))
        own = {heading: text.strip("\n") for heading, text in zip(parts[::2], parts[1::2], strict=True)}
        for heading, known in entries.items():
            if heading in own:
                entries[heading] = _replaced(known, _entries(own.pop(heading)))
        sections.update(own)
    unknown = [name for names in entries["Parameters"] for name in names if name not in order]
    if unknown:
        raise ValueError(f"{cls.__name__} has no parameter {unknown[0]!r}, which a docstring describes")
    entries["Parameters"] = dict(
        sorted(entries["Parameters"].items(), key=lambda item: order.index(item[0][0]))
    )
    sections.update((heading, "\n".join(known.values())) for heading, known in entries.items() if known)
    headings = sorted(sections, key=_SECTIONS.index)
    made = [f"{heading}\n{'-' * len(heading)}\n{sections[heading]}" for heading in headings]
    return "\n\n".join([summary.strip("\n"), *made])


def _entries(section: str) -> dict[tuple[str, ...], str]:
    """Entries of a section by the names that each of them describes."""
    texts = re.split(r"\n(?=\S)", section)
    return {
        tuple(re.split(r",\s*", text.split("\n")[0].split(" : ")[0].replace("*", ""))): text for text in texts
    }


def _replaced(
    known: dict[tuple[str, ...], str], own: dict[tuple[str, ...], str]
) -> dict[tuple[str, ...], str]:
    """Own entries, then the known ones whose names they do not have."""
    names = {name for entry in own for name in entry}
    for entry in known:
        if names.intersection(entry) and not names.issuperset(entry):
            raise ValueError(f"{', '.join(entry)} are described together; own entries have some of them only")
    return {**own, **{entry: text for entry, text in known.items() if not names.intersection(entry)}}
