"""Public names of a package that are loaded when they are first used, each from the module that defines it.

Importing the package then takes no longer than its callers need: a command that reads a
party's ledger does not wait for LightGBM, nor one that aligns rows for compilers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: dict[str, Any], names_of: Mapping[str, Sequence[str]], before: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Parameters
    ----------
    package : dict
        Its ``globals()``; what was loaded is kept there.
    names_of : mapping
        Public names by the module that defines them.
    before : str, optional
        Module that is loaded before any of them, such as one that checks the host library.
    """
    home_of = {name: module for module, names in names_of.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        if before is not None:
            import_module(before)
        value = package[name] = getattr(import_module(home_of[name]), name)
        return value

    def names() -> list[str]:
        loaded = {name for name in package if name.startswith("_")}
        return sorted(loaded | home_of.keys())

    return get, names
