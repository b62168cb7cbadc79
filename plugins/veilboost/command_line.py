"""The command ``veilboost``: what organisations need to train together, from certificates to predictions.

Its exit code tells the kind of error: errors that veilboost names have codes of their own, and anything else
that escapes is a defect, shown by its places in the code only.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timezone

from gbdt_commons.errors import VeilboostError
from gbdt_commons.quoting import quoted
from gbdt_parties.errors import (
    AuthenticationError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
    places_of,
)
from veilboost import __version__
from veilboost.parsers import Parser

logger = logging.getLogger(__name__)
OK, FAILED, WRONG_USE, UNAVAILABLE, REFUSED, BROKEN_PROTOCOL, DEFECT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 70, 130
CODES: tuple[tuple[type[Exception], int], ...] = (
    (PartyUnavailableError, UNAVAILABLE),
    (PartyRefusedError, REFUSED),
    (AuthenticationError, REFUSED),
    (ProtocolError, BROKEN_PROTOCOL),
    (VeilboostError, WRONG_USE),
    (OSError, FAILED),
    (ImportError, FAILED),
)
"""Exit codes by kind of error; the first kind that fits counts."""

EXIT_CODES = """exit codes:
  0  done
  1  a file, an address or an optional package cannot be used; doctor or status found something to mend
  2  wrong arguments, plan, data or parameters
  3  a party is unavailable; the same command goes on where it stopped
  4  a party refuses, or certificates do not match
  5  a party broke the protocol
  6  an audit found that a claim does not hold, or a replay that a party sent something else
  70 a defect in veilboost
  130 interrupted
"""
COMMANDS = {
    "certs": ("make a test authority and a party's certificate", "veilboost.certs:fill"),
    "serve": (
        "run a party: answer those who are allowed to start training runs with it",
        "veilboost.serving.serve:fill",
    ),
    "doctor": (
        "check what a run or a server needs: certificates, addresses, clock, file, disk, kernels",
        "veilboost.doctor.command:fill",
    ),
    "status": (
        "look after parties and coordinators in use: certificates, runs, models, limits, budget, disk",
        "veilboost.doctor.status:fill",
    ),
    "align": (
        "find the rows that all parties have, without showing the other rows",
        "veilboost.running.commands:fill_align",
    ),
    "train": (
        "run the active party or the coordinator: train with the parties; resumes after a crash",
        "veilboost.running.commands:fill_train",
    ),
    "predict": (
        "predict rows of a file, with the parties that hold its other columns",
        "veilboost.running.commands:fill_predict",
    ),
    "export": (
        "write the model as one that XGBoost or LightGBM reads alone, if all parties consent",
        "veilboost.running.commands:fill_export",
    ),
    "estimate": ("estimate how long a training run takes over a line", "veilboost.estimates:fill"),
    "inspect": ("sum up what a party sent and received, from its record", "veilboost.inspection:fill"),
    "audit": (
        "audit a private trainer: a lower bound of the privacy that it really gives",
        "veilboost.audit:fill",
    ),
    "replay": (
        "repeat a party's side of a run from its folder and rows, for an auditor: every byte that it sent",
        "veilboost.replay:fill",
    ),
    "models": (
        "list models: those of a plan, and those that a party keeps and who may use them; remove some",
        "veilboost.model_folders:fill",
    ),
    "ledger": (
        "show what a party has answered in private training, and what is left of its budget",
        "veilboost.ledgers:fill",
    ),
    "statement": (
        "write what a model guarantees and what left whom, as a page, JSON, and YAML for OpenDP's registry",
        "veilboost.statement:fill",
    ),
    "show": (
        "draw a model's card: what it is, how private and how good, who sent what to whom; one HTML file",
        "veilboost.pages.commands:fill_show",
    ),
    "page": (
        "show parties and coordinators in use as a page on this machine that renews itself, read-only",
        "veilboost.pages.commands:fill_page",
    ),
    "warm": ("compile the kernels of trainers, so that their first fit need not", "veilboost.warming:fill"),
}
"""Summaries of commands by name, and the functions that fill their parsers, loaded when they are used."""

LOGGERS = ("veilboost", "gbdt_parties", "xgb_fed", "lgb_dp")
"""Packages whose logs the command shows; there is one line for each request that is refused, for instance."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    _log_to_stderr(args.json_logs)
    command: Callable[[argparse.Namespace], int | None] = args.command
    try:
        return command(args) or OK
    except KeyboardInterrupt:
        logger.error("interrupted")
        return INTERRUPTED
    except Exception as error:
        code = next((code for kind, code in CODES if isinstance(error, kind)), DEFECT)
        if code == DEFECT:
            # Without the error's text, which may quote data.
            logger.error("this is a defect in veilboost, please report it: %s", places_of(error))
        else:
            logger.error("%s", error)
        return code


class _PlainLines(logging.Formatter):
    """Time and message; what would move a terminal's cursor, or paint on it, is escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(quoted(line, len(line)) for line in super().format(record).split("\n"))


class _JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "logger": record.name}
        return json.dumps({**line, "message": record.getMessage()})


def _log_to_stderr(as_json: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines() if as_json else _PlainLines("%(asctime)s %(message)s", "%H:%M:%S"))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False


def make_parser() -> Parser:
    """The parser of all subcommands."""
    parser = Parser(
        prog="veilboost",
        description="Train XGBoost and LightGBM models across organisations that keep columns or rows to "
        "themselves.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"veilboost {__version__}")
    parser.add_commands("commands", "COMMAND", COMMANDS)
    return parser
