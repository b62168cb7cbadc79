"""The command ``veilboost``: what organisations need to train together, from certificates to predictions.

Its exit code says what went wrong: errors that veilboost names have codes of their own, and anything else
that escapes is a defect, of which only the places in the code are shown.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from gbdt_kernels.errors import VeilboostError
from gbdt_parties._files import make_folder, write_atomically
from gbdt_parties.errors import (
    AuthenticationError,
    InvalidDataError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
    places_of,
)
from gbdt_parties.identity.alignment import Alignment, align
from gbdt_parties.identity.certificates import AUTHORITY_FILE, TLS, Identity, make_authority, make_certificate
from gbdt_parties.identity.record import read_record, write_traffic
from gbdt_parties.quoting import quoted
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server, raise_descriptor_limit

from veilboost import audit
from veilboost.plan import Plan, PlanError, read_plan
from veilboost.tables import Table, read_table
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.vertical.checkpoint import Checkpoint
from xgb_fed.vertical.model import VerticalModel
from xgb_fed.vertical.service import Limits, PassiveService
from xgb_fed.vertical.task import ActiveData
from xgb_fed.vertical.training import train

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
CATEGORIES_FILE = "categories.json"
"""In a passive party's models folder: values of its one-hot encoded columns."""

TABLE_FILE = "active.table.json"
"""In an active party's model folder: columns of its file, and values of those that were encoded."""


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
    root = logging.getLogger(__name__)
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    root.propagate = False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="veilboost",
        description="Train XGBoost models across organisations that keep their columns to themselves.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", required=True)
    _add_certs(commands)
    _add_serve(commands)
    _add_align(commands)
    _add_train(commands)
    _add_predict(commands)
    _add_inspect(commands)
    _add_audit(commands)
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int | None], text: str, example: str
) -> Any:
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


def _add_certs(commands: Any) -> None:
    add = _command(
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


def _add_serve(commands: Any) -> None:
    add = _command(
        commands,
        "serve",
        _serve,
        "run a passive party: answer the active parties that are allowed to ask",
        "veilboost serve --data bank.csv --id user_id --listen 0.0.0.0:7001 --tls certs/bank --allow acme",
    ).add_argument
    add("--data", required=True, help="CSV, Parquet or LIBSVM file")
    add("--id", help="column of ids; without it, rows are taken in the file's order")
    add("--columns", type=_names, help="the only columns to offer, a,b,c")
    add("--drop", type=_names, default=[], help="columns not to offer, a,b,c")
    add("--one-hot", type=_names, default=[], help="text columns to encode, a,b,c; values are kept for later")
    add("--listen", default="127.0.0.1:7001", help="host:port (%(default)s)")
    add("--tls", required=True, help="folder with ca.pem, party.pem and party.key")
    add(
        "--allow",
        action="append",
        required=True,
        help="active party, by name or sha256:FINGERPRINT; repeatable",
    )
    add("--name", help="this party's name in its record (its certificate's)")
    add("--models", default="models", help="folder for splits of models, aligned rows, record (%(default)s)")
    add("--min-rows", type=int, default=100, help="minimum number of rows to train on (%(default)s)")
    add("--max-rows", type=int, default=50_000_000, help="maximum number of rows to train on (%(default)s)")
    add("--max-features", type=int, help="refuse to start if more columns would be offered")
    add("--questions-per-hour", type=int, default=120, help="alignments and predictions (%(default)s)")
    add("--consent-to-export", action="store_true", help="give splits to export_booster when asked")
    add("--require-consent-for-export", action="store_true", help="do not give splits (the default)")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _serve(args: argparse.Namespace) -> None:
    if args.consent_to_export and args.require_consent_for_export:
        raise InvalidArgumentError("--consent-to-export contradicts --require-consent-for-export")
    tls = TLS.from_directory(args.tls)
    table = _passive_table(args)
    n_features = table.columns.n_features
    if args.max_features is not None and n_features > args.max_features:
        raise InvalidDataError(
            f"{args.data} has {n_features} columns to offer, --max-features {args.max_features}"
        )
    limits = Limits(args.min_rows, args.max_rows, args.questions_per_hour, args.consent_to_export)
    service = PassiveService(table, args.models, args.name or Identity.of(tls.certificate).name, limits)
    raise_descriptor_limit()
    server = Server(service, args.listen, tls, args.allow)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop(grace=5))
    logger.info("%d rows, %d columns; allowed: %s", table.columns.n_rows, n_features, ", ".join(args.allow))
    host = args.listen.rpartition(":")[0]
    print(f"listening at {host}:{server.port}", flush=True)
    server.wait()
    logger.info("stopped")


def _passive_table(args: argparse.Namespace) -> Table:
    """Read the file, one-hot encoded with the values of the first start: models depend on them."""
    kept = Path(args.models) / CATEGORIES_FILE
    known = _read_json(kept) if kept.exists() else {}
    one_hot: Any = (
        {name: known[name] for name in args.one_hot} if set(args.one_hot) <= set(known) else args.one_hot
    )
    table = read_table(args.data, id_column=args.id, keep=args.columns, drop=args.drop, one_hot=one_hot)
    if table.categories and table.categories != known:
        make_folder(kept.parent)
        write_atomically(kept, json.dumps(table.categories))
    return table


def _read_json(path: Path) -> dict[str, Any]:
    """Read an object that this command wrote; `InvalidDataError` if the file holds anything else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise InvalidDataError(f"{path} is damaged: it does not hold a JSON object")
    return content


def _add_plan(
    commands: Any, name: str, run: Callable[[argparse.Namespace], None], text: str, example: str
) -> Any:
    parser = _command(commands, name, run, text, example)
    parser.add_argument("plan", help="TOML or YAML file: tls, data, parties, training, parameters")
    return parser.add_argument


def _add_align(commands: Any) -> None:
    _add_plan(
        commands,
        "align",
        _align,
        "find the rows that all parties have, without showing the other rows",
        "veilboost align plan.toml",
    )


def _add_train(commands: Any) -> None:
    _add_plan(
        commands,
        "train",
        _train,
        "run the active party: train with the passive parties; resumes after a crash",
        "veilboost train plan.toml",
    )


def _add_predict(commands: Any) -> None:
    add = _add_plan(
        commands,
        "predict",
        _predict,
        "predict rows of a file whose other columns are held by passive parties",
        "veilboost predict plan.toml --data new.csv --out predictions.csv",
    )
    add("--data", help="file of the rows; the plan's, as aligned for training, if not given")
    add("--out", default="-", help="CSV of id and prediction (standard output)")


def _add_inspect(commands: Any) -> None:
    add = _command(
        commands,
        "inspect",
        _inspect,
        "sum up what a party sent and received, from its record",
        "veilboost inspect models/record.jsonl",
    ).add_argument
    add("record", help="record.jsonl of a passive or an active party")


def _add_audit(commands: Any) -> None:
    text = "audit a private trainer: a lower bound of the privacy that it really gives"
    audit.add_arguments(_command(commands, "audit", audit.run, text, "veilboost audit --example --runs 400"))


def _active_table(plan: Plan) -> Table:
    data = plan.data
    return read_table(
        plan.path(data.file), id_column=data.id, label=data.label, drop=data.drop, one_hot=data.one_hot
    )


def _parties(plan: Plan, stack: ExitStack, row_sets: Sequence[bytes] = ()) -> list[RemoteParty]:
    parties = []
    for party in plan.parties:
        tls = TLS.from_directory(plan.path(plan.tls), party.server_name)
        remote = RemoteParty(party.address, tls, party.name, plan.training.timeout, row_sets=row_sets)
        stack.callback(remote.close)
        parties.append(remote)
    return parties


def _align(args: argparse.Namespace) -> None:
    plan = read_plan(args.plan)
    if plan.data.id is None:
        raise PlanError(f"{args.plan}: data.id is missing; rows are aligned by their ids")
    table = _active_table(plan)
    with ExitStack() as stack:
        alignment = _aligned(plan, _parties(plan, stack), table)
    alignment.save(plan.path(plan.data.aligned))
    where = plan.path(plan.data.aligned)
    print(f"{len(alignment.ids)} of {len(table.ids)} rows are held by all parties: {where}")


def _aligned(plan: Plan, parties: Sequence[RemoteParty], table: Table) -> Alignment:
    traffic = Traffic()
    try:
        return align(parties, table.ids, traffic)
    finally:
        write_traffic(plan.path(plan.training.record), traffic)


def _train(args: argparse.Namespace) -> None:
    plan = read_plan(args.plan)
    table = _active_table(plan)
    positions, row_sets = np.arange(table.columns.n_rows), list[bytes]()
    if plan.data.id is not None:
        alignment = Alignment.load(plan.path(plan.data.aligned))
        positions, row_sets = alignment.positions(table.ids), [alignment.digest]
    assert table.label is not None
    data = ActiveData(table.columns.take(positions), table.label[positions])
    checkpoint = plan.path(plan.training.checkpoint)
    with ExitStack() as stack:
        model = train(
            plan.parameters,
            data,
            _parties(plan, stack, row_sets),
            plan.training.rounds,
            cipher=plan.training.scheme,
            checkpoint=checkpoint,
            patience=plan.training.patience,
        )
    directory = plan.path(plan.training.model)
    model.save(directory)
    kept = {"columns": table.used, "categories": table.categories}
    write_atomically(directory / TABLE_FILE, json.dumps(kept))
    write_traffic(plan.path(plan.training.record), model.traffic)
    Checkpoint(checkpoint, "").clear()
    print(f"{len(model.trees)} trees on {len(positions)} rows: {directory}")


def _predict(args: argparse.Namespace) -> None:
    plan = read_plan(args.plan)
    directory = plan.path(plan.training.model)
    model = VerticalModel.load(directory)
    known = _read_json(directory / TABLE_FILE)
    file = Path(args.data) if args.data else plan.path(plan.data.file)
    table = read_table(
        file, id_column=plan.data.id, keep=known["columns"] or None, one_hot=known["categories"]
    )
    traffic = Traffic()
    with ExitStack() as stack:
        parties = _parties(plan, stack)
        positions, ids, row_sets = np.arange(table.columns.n_rows), table.ids, list[bytes]()
        if plan.data.id is not None:
            given = None if args.data else Alignment.load(plan.path(plan.data.aligned))
            alignment = given or _aligned(plan, parties, table)
            positions, ids = alignment.positions(table.ids), list(alignment.ids)
            row_sets = [alignment.digest]
        rows = [party.with_rows(*row_sets) for party in parties]
        try:
            predictions = model.predict(table.columns.take(positions), rows, traffic=traffic)
        finally:
            write_traffic(plan.path(plan.training.record), traffic)
    _write_predictions(args.out, ids, predictions)


def _write_predictions(out: str, ids: list[str], predictions: Any) -> None:
    """Write CSV: the id, then the prediction, or one column per class."""
    values = predictions.reshape(len(ids), -1)
    names = ["prediction"] if values.shape[1] == 1 else [f"class_{k}" for k in range(values.shape[1])]
    with ExitStack() as stack:
        file = sys.stdout if out == "-" else stack.enter_context(open(out, "w", newline="", encoding="utf-8"))
        writer = csv.writer(file)
        writer.writerow(["id", *names])
        writer.writerows([one, *row] for one, row in zip(ids, values.tolist(), strict=True))
    if out != "-":
        print(f"{len(ids)} rows predicted: {out}")


def _inspect(args: argparse.Namespace) -> None:
    sums = read_record(args.record)
    print(sums.traffic)
    for when, receiver, reason in sums.refusals:
        print(f"{when}  refused to {receiver}: {reason}")
    if sums.damaged:
        print(f"{sums.damaged} lines are damaged and not counted")
