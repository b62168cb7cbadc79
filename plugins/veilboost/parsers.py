"""Options and types that the parsers of all commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gbdt_commons.sealed import read_sealed
from gbdt_parties.errors import InvalidDataError


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int | None], text: str, example: str
) -> Any:
    """Add a command with its help, an example, and the options of all commands; gives its parser."""
    parser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json-logs", action="store_true", help="log JSON lines to stderr")
    parser.set_defaults(command=run)
    return parser


def names(text: str) -> list[str]:
    """The names in ``a,b,c``."""
    return [name.strip() for name in text.split(",") if name.strip()]


def read_json(path: Path) -> dict[str, Any]:
    """Read an object that `write_sealed` wrote; `InvalidDataError` if the file holds anything else."""
    try:
        return read_sealed(path)
    except ValueError:
        raise InvalidDataError(f"{path} is damaged: it does not hold what was written there") from None
