"""Parsers of commands, which are filled when they are used, and a type that their options share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, TypeAlias


class Parser(argparse.ArgumentParser):
    """A parser that adds its options when it is first used, so that a command loads its own modules only.

    `filled_by` is called with the parser and its arguments; as ``module:function``, it is loaded then.
    """

    def __init__(self, filled_by: Fill | str | None = None, **settings: Any) -> None:
        super().__init__(formatter_class=_Lines, allow_abbrev=False, **settings)
        self._filled_by = filled_by
        self.place_of: Callable[[str], str] = lambda option: ""
        """Says of an option that is not known here where it belongs."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Add the options, and parse; an argument that is not known is an error of this parser."""
        given = sys.argv[1:] if args is None else list(args)
        fill, self._filled_by = self._filled_by, None
        if fill is not None:
            (resolve_name(fill) if isinstance(fill, str) else fill)(self, given)
        parsed, unknown = super().parse_known_args(given, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self.place_of(unknown[0])}")
        return parsed, unknown

    def runs(self, command: Callable[[argparse.Namespace], int | None], example: str = "") -> None:
        """Set what the command does, and an example of it; add the options of all commands."""
        self.add_argument("--json-logs", action="store_true", help="log JSON lines to stderr")
        self.set_defaults(command=command)
        self.epilog = f"example:\n  {example}" if example else None

    def add_commands(self, title: str, metavar: str, summaries: Mapping[str, tuple[str, Fill | str]]) -> None:
        """Add subcommands: by name, a summary, and what fills their parsers."""
        commands = self.add_subparsers(title=title, metavar=metavar, prog=self.prog, required=True)
        for name, (summary, filled_by) in summaries.items():
            description = f"{summary[0].upper()}{summary[1:]}."
            commands.add_parser(name, filled_by=filled_by, help=summary, description=description)


Fill: TypeAlias = Callable[[Parser, Sequence[str]], None]


class _Lines(argparse.RawDescriptionHelpFormatter):
    """Help of one line for each option whose help is short enough."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)


def names(text: str) -> list[str]:
    """The names in ``a,b,c``."""
    return [name.strip() for name in text.split(",") if name.strip()]
