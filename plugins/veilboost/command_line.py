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
from pathlib import Path
from typing import Any

from gbdt_commons.errors import VeilboostError
from gbdt_commons.quoting import quoted
from gbdt_parties.errors import (
    AuthenticationError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
    places_of,
)
from gbdt_parties.identity.certificates import AUTHORITY_FILE, make_authority, make_certificate
from gbdt_parties.identity.record import check_chain, read_record
from veilboost import __version__, audit
from veilboost.ledgers import add_ledger
from veilboost.model_folders import add_models
from veilboost.parsers import add_command
from veilboost.running.vertical import run_align, run_predict, run_train
from veilboost.serving.serve import add_serve
from veilboost.statement import add_statement
from veilboost.warming import add_warm

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
  1  a file, an address or an optional package cannot be used
  2  wrong arguments, plan, data or parameters
  3  a party is unavailable; the same command goes on where it stopped
  4  a party refuses, or certificates do not match
  5  a party broke the protocol
  6  an audit found that a claim does not hold
  70 a defect in veilboost
  130 interrupted
"""
LOGGERS = ("veilboost", "gbdt_parties", "xgb_fed", "lgb_dp")
"""Packages whose logs the command shows; there is one line for each request that is refused, for instance."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    parser = _parser()
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="veilboost",
        description="Train XGBoost and LightGBM models across organisations that keep columns or rows to "
        "themselves.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"veilboost {__version__}")
    commands = parser.add_subparsers(title="commands", required=True)
    _add_certs(commands)
    add_serve(commands)
    _add_align(commands)
    _add_train(commands)
    _add_predict(commands)
    _add_inspect(commands)
    _add_audit(commands)
    add_models(commands)
    add_ledger(commands)
    add_statement(commands)
    add_warm(commands)
    return parser


def _add_certs(commands: Any) -> None:
    add = add_command(
        commands,
        "certs",
        _certs,
        "make a test authority and a party's certificate",
        "veilboost certs bank --authority certs/ca --out certs/bank",
    ).add_argument
    add("name", help="the party's name; goes into its certificate")
    add(
        "--authority", default="certs/ca", help="folder of the authority, made if there is none (%(default)s)"
    )
    add("--out", help="the party's folder (certs/NAME)")
    add(
        "--host",
        action="append",
        default=[],
        help="further name or address that the certificate is for; repeatable",
    )
    add("--days", type=int, default=365, help="days until it expires (%(default)s)")


def _certs(args: argparse.Namespace) -> None:
    authority = Path(args.authority)
    if not (authority / AUTHORITY_FILE).exists():
        make_authority(authority)
        print(
            f"authority: {authority} (its ca.key signs certificates that all parties trust: keep it offline)"
        )
    out = Path(args.out or Path("certs") / args.name)
    identity = make_certificate(out, authority, args.name, args.host, args.days)
    print(f"{args.name}: {out}, valid until {identity.expires:%Y-%m-%d}")
    print(f"  allow it by name ({identity.name}) or as sha256:{identity.fingerprint}")


def _add_plan(
    commands: Any, name: str, run: Callable[[argparse.Namespace], None], text: str, example: str
) -> Any:
    parser = add_command(commands, name, run, text, example)
    parser.add_argument("plan", help="TOML or YAML file: method, tls, data, parties, training, parameters")
    return parser.add_argument


def _add_align(commands: Any) -> None:
    _add_plan(
        commands,
        "align",
        run_align,
        "find the rows that all parties have, without showing the other rows",
        "veilboost align plan.toml",
    )


def _add_train(commands: Any) -> None:
    add = _add_plan(
        commands,
        "train",
        run_train,
        "run the active party or the coordinator: train with the parties; resumes after a crash",
        "veilboost train plan.toml",
    )
    add("--overwrite", action="store_true", help="replace the model that the plan's folder holds")


def _add_predict(commands: Any) -> None:
    add = _add_plan(
        commands,
        "predict",
        run_predict,
        "predict rows of a file whose other columns are held by passive parties",
        "veilboost predict plan.toml --data new.csv --out predictions.csv",
    )
    add("--data", help="file of the rows; the plan's, as aligned for training, if not given")
    add("--out", default="-", help="CSV of id and prediction (standard output)")
    add(
        "--contribs",
        action="store_true",
        help="write what each column contributes to the margin (Tree SHAP), if the parties consent",
    )
    add(
        "--hide-paths",
        action="store_true",
        help="ask about all splits, so that parties do not learn which rows reach them, if they consent",
    )
    add("--missing", help="file for the ids that some party does not have (OUT.missing)")


def _add_inspect(commands: Any) -> None:
    add = add_command(
        commands,
        "inspect",
        _inspect,
        "sum up what a party sent and received, from its record",
        "veilboost inspect models/record.jsonl",
    ).add_argument
    add("record", help="record.jsonl of a passive or an active party")


def _add_audit(commands: Any) -> None:
    text = "audit a private trainer: a lower bound of the privacy that it really gives"
    audit.add_arguments(
        add_command(commands, "audit", audit.run, text, "veilboost audit --example --runs 400")
    )


def _inspect(args: argparse.Namespace) -> None:
    sums = read_record(args.record)
    print(sums.traffic)
    for when, receiver, reason in sums.refusals:
        print(f"{when}  refused to {receiver}: {reason}")
    if sums.damaged:
        print(f"{sums.damaged} lines are damaged and not counted")
    for fault in check_chain(args.record):
        print(f"of the earlier files of this record, {fault}")
