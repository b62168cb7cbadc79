"""Public names of a package that are loaded when they are first used, each from the module that defines it.

Importing the package then takes no longer than its callers need: a command that reads a party's ledger does
not wait for LightGBM, nor one that aligns rows for compilers.  The names are the imports of the package's
stub, ``__init__.pyi``, from which type checkers read them, too.
"""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_names(
    package: dict[str, Any], before: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` (PEP 562) and ``__all__`` of a package with a stub.

    `package` are its ``globals()``, which keep the loaded names; the module `before` is loaded before any of
    them, such as one that checks the host library.
    """
    imports = ast.parse(pkgutil.get_data(package["__name__"], "__init__.pyi") or b"").body
    home_of = {
        one.name: str(line.module)
        for line in imports
        if isinstance(line, ast.ImportFrom)
        for one in line.names
    }
    home_of.pop("__version__", None)

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

    return get, names, sorted(home_of)
