"""TOML and YAML files of bounded depth, without aliases."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gbdt_commons.quoting import quoted
from veilboost.plans.entries import PlanError, as_table, shown

MAX_DEPTH = 16
"""Tables and lists within each other; no entry of any file needs a quarter of it."""


def parsed(path: Path) -> Mapping[str, Any]:
    """The content of a TOML or YAML file.

    Raises
    ------
    PlanError
        If it cannot be read, is nested more than `MAX_DEPTH` deep, has an integer beyond 64 bits, or is YAML
        with aliases: a few lines of them stand for more values than fit into memory.
    """
    try:
        # Without the mark at the beginning that Windows' editor writes.
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PlanError(
            f"{path} cannot be read: it is not UTF-8, but Latin-1 or UTF-16, for instance; save it as UTF-8"
        ) from None
    if path.suffix == ".toml":
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        read: Callable[[str], Any] = tomllib.loads
        errors: tuple[type[Exception], ...] = (ValueError,)
    elif path.suffix in (".yaml", ".yml"):
        import yaml

        # Dates that there are not, or numbers of too many digits, are a ValueError.
        read, errors = _read_yaml, (yaml.YAMLError, ValueError)
    else:
        raise PlanError(f"{path}: the name must end in .toml or .yaml")
    try:
        content = read(text)
    except errors as error:
        # They quote the file: YAML's errors on several lines.
        raise PlanError(f"{path}: " + "\n".join(map(quoted, str(error).splitlines()))) from None
    except RecursionError:
        raise _too_deep(path) from None
    if _depth(content) > MAX_DEPTH:
        raise _too_deep(path)
    for name, value in _long_integers(content):
        raise PlanError(f"{path}: {name}={shown(value)} must be an integer of 64 bits at most")
    return as_table(content, str(path))


def _read_yaml(text: str) -> Any:
    """The content of a YAML document without aliases, in which no name of a table occurs twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            table = super().construct_mapping(node, deep)
            if len(set(map(str, table))) < len(node.value):
                raise ValueError(f"the table in line {node.start_mark.line + 1} has a name twice")
            return table

    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(
                f"the alias *{quoted(event.anchor)} in line {event.start_mark.line + 1} must be written out; "
                "plans have no aliases"
            )
    return yaml.load(text, Loader)


def _depth(content: Any) -> int:
    """Tables and lists within each other, at most one more than `MAX_DEPTH`; without recursion."""
    level, depth = [content], 0
    while depth <= MAX_DEPTH:
        holders = [value for value in level if isinstance(value, (Mapping, list))]
        if not holders:
            break
        depth += 1
        level = [x for one in holders for x in (one.values() if isinstance(one, Mapping) else one)]
    return depth


def _long_integers(content: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Integers that no number of a machine holds, with their names; some are beyond all of its floats."""
    if isinstance(content, int) and not -(1 << 63) <= content < 1 << 63:
        yield name, content
    items = content.items() if isinstance(content, Mapping) else ()
    for key, value in enumerate(content) if isinstance(content, list) else items:
        yield from _long_integers(value, f"{name}.{quoted(str(key))}".lstrip("."))


def _too_deep(path: Path) -> PlanError:
    return PlanError(f"{path}: tables and lists may be nested {MAX_DEPTH} deep, not deeper")
