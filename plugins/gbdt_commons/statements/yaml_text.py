"""YAML of plain values, in a form that the parsers of YAML 1.1 and 1.2 read alike; it needs no library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_INDENT = "  "
_WORDS = ("null", "true", "false")


def yaml_text(values: Mapping[str, object]) -> str:
    """A mapping in block style.

    Every text is in double quotes, so that none is taken for a number, a date or a comment, and characters
    that are not printable are escaped.

    Parameters
    ----------
    values : mapping
        Of texts, finite numbers, truth values, None, and mappings and sequences of them.
    """
    return "".join(f"{line}\n" for line in _lines_of_mapping(values))


def _lines_of_mapping(values: Mapping[str, object]) -> list[str]:
    lines = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            lines += [f"{_key(key)}:", *(_INDENT + line for line in _lines_of_mapping(value))]
        elif isinstance(value, Sequence) and not isinstance(value, str) and value:
            lines += [f"{_key(key)}:", *(f"{_INDENT}- {_scalar(one)}" for one in value)]
        else:
            lines.append(f"{_key(key)}: {_scalar(value)}")
    return lines


def _key(name: str) -> str:
    # A bare "yes" or "on" is a truth value of YAML 1.1, and so needs quotes.
    return name if re.fullmatch("[a-z]+_[a-z_]*|[a-z]{4,}", name) and name not in _WORDS else _scalar(name)


def _scalar(value: object) -> str:
    if isinstance(value, (Mapping, list, tuple)):
        return "{}" if isinstance(value, Mapping) else "[]"
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    if isinstance(value, float):
        number = repr(value)
        # YAML 1.1 takes 1e-05 for a text.
        return number.replace("e", ".0e") if "e" in number and "." not in number else number
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"
