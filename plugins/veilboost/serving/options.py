"""The options of ``serve KIND``, one for each entry of the kind's settings."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from dataclasses import Field, fields
from typing import Any

from veilboost.parsers import Parser, names
from veilboost.plans.entries import Entry, PlanError, default_of, is_needed, type_of
from veilboost.plans.plan import METHODS, faults_of_served
from veilboost.plans.sections import Served

FORM = ("separator", "decimal", "encoding")
"""Entries that are listed with the limits: errors about files name them."""


def option(name: str) -> str:
    """The option of an entry."""
    return "--" + name.replace("_", "-")


def add_options(parser: Parser, method: str) -> None:
    """Add the options of a kind of training; limits are listed in a few lines, with their defaults."""
    served = METHODS[method].served
    limits = [f for f in fields(served) if Entry.of(f).least is not None or f.name in FORM]
    needed = [f for f in fields(served) if is_needed(f)]
    usage = [parser.prog, *(f"{option(f.name)} {_metavar(f)}" for f in needed), "[options]"]
    parser.usage = _filled(usage, " ").replace("\n", f"\n{' ' * len('usage: ')}")
    for f in (f for f in fields(served) if f not in limits):
        _add(parser, f, _help(f))
    group = parser.add_argument_group("limits and form of CSV files, with their defaults", _listed(limits))
    for f in limits:
        _add(group, f, argparse.SUPPRESS)
    parser.place_of = lambda given: _place_of(given, method)


def settings_of(args: argparse.Namespace, method: str) -> Served:
    """The settings that the options say.

    Raises
    ------
    PlanError
        If a limit admits nothing, or options contradict each other.
    """
    kind = METHODS[method].served
    served: Served = kind(**{f.name: getattr(args, f.name) for f in fields(kind)})
    for fault in faults_of_served(method, served, option):
        raise PlanError(fault)
    return served


def _add(group: Any, f: Field[Any], shown: str) -> None:
    about, kind = Entry.of(f), type_of(f)
    given: dict[str, Any] = {"help": shown, "required": is_needed(f)}
    if not is_needed(f):
        given["default"] = default_of(f)
    if kind == "bool":
        group.add_argument(option(f.name), action="store_true", **given)
        return
    if about.is_repeated:
        given["action"] = "append"
    elif kind == "list[float]":
        given |= {"type": float, "nargs": 2}
    else:
        given["type"] = {"int": int, "float": float, "str": str, "list[str]": names}[kind]
    choices = about.choices or None
    group.add_argument(option(f.name), metavar=_metavar(f), choices=choices, **given)


def _metavar(f: Field[Any]) -> Any:
    return Entry.of(f).metavar or "N"


def _help(f: Field[Any]) -> str:
    """The entry's meaning, and its default if there is any."""
    about = Entry.of(f)
    text = (about.option or about.meaning).replace("`", "")
    default = None if is_needed(f) else default_of(f)
    if default in (None, False, []) or about.choices:
        return text
    return f"{text} ({','.join(default) if isinstance(default, list) else default})"


def _listed(limits: list[Field[Any]]) -> str:
    """Options with their defaults."""
    return _filled([f"{option(f.name)} {_metavar(f)} ({_number(default_of(f))})" for f in limits], "  ")


def _filled(items: list[str], between: str) -> str:
    """As many items in a line as fit into the terminal; no line break within one."""
    width = min(shutil.get_terminal_size().columns, 120) - 8
    text = textwrap.fill(between.join(one.replace(" ", "\0") for one in items), width, break_on_hyphens=False)
    return text.replace("\0", " ")


def _number(default: float | str | None) -> str:
    return "none" if default is None else default if isinstance(default, str) else f"{default:.10g}"


def _place_of(given: str, method: str) -> str:
    """Says which other kinds of training have an option."""
    name = given.partition("=")[0]
    kinds = [
        f"veilboost serve {other}"
        for other, kind in METHODS.items()
        if other != method and name in {option(f.name) for f in fields(kind.served)}
    ]
    return f"; {name} is an option of {' and '.join(kinds)}" if kinds else ""
