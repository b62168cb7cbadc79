"""The command ``veilboost``: what organisations need to train together, from certificates to predictions.

Its exit code says what went wrong: errors that veilboost names have codes of their own, and anything else
that escapes is a defect, of which only the places in the code are shown.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from gbdt_kernels.errors import VeilboostError
from gbdt_parties._files import make_folder, write_atomically
from gbdt_parties._sealed import write_sealed
from gbdt_parties.errors import (
    AuthenticationError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
    places_of,
)
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.certificates import AUTHORITY_FILE, make_authority, make_certificate
from gbdt_parties.identity.record import check_chain, read_record, write_traffic
from gbdt_parties.quoting import quoted
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty
from veilboost import __version__, audit, exact_runs, horizontal_runs, private_runs
from veilboost.connections import connect
from veilboost.ledgers import add_ledger
from veilboost.model_folders import add_models, check_free
from veilboost.parsers import add_command, read_json
from veilboost.plan import ExactPlan, HorizontalPlan, PlanError, PrivatePlan, VerticalPlan, read_plan
from veilboost.predictions import write_contributions, write_predictions
from veilboost.progress import RoundLines
from veilboost.serving import add_serve
from veilboost.tables import Table, log_unseen, read_table
from veilboost.warming import add_warm
from xgb_fed.vertical.checkpoint import Checkpoint
from xgb_fed.vertical.model import MODEL_FILE, VerticalModel
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
LOGGERS = ("veilboost", "gbdt_parties", "xgb_fed", "lgb_dp")
"""Packages whose logs the command shows; there is one line for each request that is refused, for instance."""

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
        _align,
        "find the rows that all parties have, without showing the other rows",
        "veilboost align plan.toml",
    )


def _add_train(commands: Any) -> None:
    add = _add_plan(
        commands,
        "train",
        _train,
        "run the active party or the coordinator: train with the parties; resumes after a crash",
        "veilboost train plan.toml",
    )
    add("--overwrite", action="store_true", help="replace the model that the plan's folder holds")


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


def _active_table(plan: VerticalPlan, file: str, like: Table | None = None) -> Table:
    """Read a file of the active party; with the columns and categories of another one, if given."""
    data = plan.data
    if like is not None and like.used:
        return read_table(
            plan.path(file),
            id_column=data.id,
            label=data.label,
            keep=like.used,
            one_hot=like.categories,
            categorical=like.categorical,
        )
    return read_table(
        plan.path(file),
        id_column=data.id,
        label=data.label,
        drop=data.drop,
        one_hot=data.one_hot,
        categorical=data.categorical,
    )


def _kept_alignment(args: argparse.Namespace, path: Path) -> Alignment:
    """Read the ids that `align` wrote."""
    if not path.exists():
        raise PlanError(f"{path} does not exist; run align first: veilboost align {args.plan}")
    return Alignment.load(path)


def _labelled_rows(
    args: argparse.Namespace, plan: VerticalPlan, table: Table, aligned: str
) -> tuple[ActiveData, list[bytes]]:
    """The rows of a file that all parties hold, and the name of the row set; all rows if there are no ids."""
    assert table.label is not None
    if plan.data.id is None:
        return ActiveData(table.columns, table.label), []
    alignment = _kept_alignment(args, plan.path(aligned))
    positions = alignment.positions(table.ids)
    return ActiveData(table.columns.take(positions), table.label[positions]), [alignment.digest]


def _align(args: argparse.Namespace) -> None:
    plan = read_plan(args.plan)
    if not isinstance(plan, VerticalPlan):
        raise PlanError(f"{args.plan}: rows are not aligned in horizontal training; each party has its own")
    if plan.data.id is None:
        raise PlanError(f"{args.plan}: data.id is missing; rows are aligned by their ids")
    files = [(plan.data.file, plan.data.aligned)]
    if plan.data.valid is not None:
        files.append((plan.data.valid, plan.data.aligned_valid))
    with ExitStack() as stack:
        parties = connect(plan, plan.training.timeout, stack)
        for file, kept in files:
            table = _active_table(plan, file)
            alignment = _aligned(plan, parties, table)
            alignment.save(plan.path(kept))
            print(f"{len(alignment.ids)} of {len(table.ids)} rows are held by all parties: {plan.path(kept)}")


def _aligned(plan: VerticalPlan, parties: Sequence[RemoteParty], table: Table) -> Alignment:
    traffic = Traffic()
    try:
        return align(parties, table.ids, traffic)
    finally:
        write_traffic(plan.path(plan.training.record), traffic)


def _train(args: argparse.Namespace) -> None:
    plan = read_plan(args.plan)
    if isinstance(plan, ExactPlan):
        return exact_runs.train(plan, args.overwrite)
    if isinstance(plan, HorizontalPlan):
        return horizontal_runs.train(plan, args.overwrite)
    if isinstance(plan, PrivatePlan):
        return private_runs.train(plan, args.overwrite)
    directory, training = plan.path(plan.training.model), plan.training
    check_free(directory / MODEL_FILE, args.overwrite)
    table = _active_table(plan, plan.data.file)
    data, row_sets = _labelled_rows(args, plan, table, plan.data.aligned)
    evals = []
    if plan.data.valid is not None:
        valid = _active_table(plan, plan.data.valid, like=table)
        log_unseen(valid, plan.data.valid, logger)
        rows, digests = _labelled_rows(args, plan, valid, plan.data.aligned_valid)
        evals, row_sets = [(rows, "valid")], row_sets + digests
    checkpoint = plan.path(training.checkpoint)
    with ExitStack() as stack:
        model = train(
            {"enable_categorical": True, **plan.parameters} if table.categorical else plan.parameters,
            data,
            connect(plan, training.timeout, stack, row_sets),
            training.rounds,
            evals=evals,
            cipher=training.scheme,
            early_stopping_rounds=training.early_stopping_rounds,
            verbose_eval=False,
            callbacks=[RoundLines(logger, training.rounds)],
            checkpoint=checkpoint,
            patience=training.patience,
        )
    # Once more: somebody else's may be there by now.
    check_free(directory / MODEL_FILE, args.overwrite)
    kept: dict[str, Any] = {"columns": table.used, "categories": table.categories}
    if table.categorical:
        kept["categorical"] = table.categorical
    make_folder(directory)
    # The model comes last: a crash before it leaves no model, and the checkpoint.
    write_sealed(directory / TABLE_FILE, kept)
    model.save(directory)
    write_traffic(plan.path(plan.training.record), model.traffic)
    Checkpoint(checkpoint, "").clear()
    if model.best_iteration is not None:
        logger.info("best round %d, %s", model.best_iteration + 1, f"metric {model.best_score:.5f}")
    print(f"{len(model.trees)} trees on {len(data.label)} rows: {directory}")


def _predict(args: argparse.Namespace) -> None:
    plan = read_plan(args.plan)
    if not isinstance(plan, VerticalPlan) and (args.contribs or args.hide_paths):
        raise PlanError(
            "--contribs and --hide-paths are for models whose splits lie with several parties; a native "
            "model explains itself"
        )
    if isinstance(plan, (ExactPlan, HorizontalPlan)):
        return horizontal_runs.predict(plan, args)
    if isinstance(plan, PrivatePlan):
        return private_runs.predict(plan, args)
    directory = plan.path(plan.training.model)
    model = VerticalModel.load(directory)
    known = read_json(directory / TABLE_FILE)
    file = Path(args.data) if args.data else plan.path(plan.data.file)
    table = read_table(
        file,
        id_column=plan.data.id,
        keep=known["columns"] or None,
        one_hot=known["categories"],
        categorical=known.get("categorical", {}),
    )
    log_unseen(table, file, logger)
    traffic = Traffic()
    with ExitStack() as stack:
        parties = connect(plan, plan.training.timeout, stack)
        positions, ids, row_sets = np.arange(table.columns.n_rows), table.ids, list[bytes]()
        if plan.data.id is not None:
            given = None if args.data else _kept_alignment(args, plan.path(plan.data.aligned))
            alignment = given or _aligned(plan, parties, table)
            positions, ids = alignment.positions(table.ids), list(alignment.ids)
            row_sets = [alignment.digest]
        rows = [party.with_rows(*row_sets) for party in parties]
        try:
            X = table.columns.take(positions)
            if args.contribs:
                explanation = model.explain(X, rows, traffic=traffic)
            else:
                predictions = model.predict(X, rows, hide_paths=args.hide_paths, traffic=traffic)
        finally:
            write_traffic(plan.path(plan.training.record), traffic)
    if args.contribs:
        write_contributions(args.out, ids, explanation)
    else:
        write_predictions(args.out, ids, predictions)
    _report_missing(args, table.ids, ids)


def _report_missing(args: argparse.Namespace, asked: list[str], predicted: list[str]) -> None:
    """Say how many rows of the file were predicted, and write the ids of the others."""
    known = set(predicted)
    missing = [one for one in asked if one not in known]
    text = f"{len(predicted)} of {len(asked)} rows predicted"
    if args.out != "-":
        text += f": {args.out}"
    file = args.missing or (None if args.out == "-" else f"{args.out}.missing")
    if file is not None and (missing or args.missing):
        write_atomically(file, "".join(f"{one}\n" for one in missing))
        text += f"; ids of the others: {file}"
    print(text, file=sys.stderr if args.out == "-" else sys.stdout)


def _inspect(args: argparse.Namespace) -> None:
    sums = read_record(args.record)
    print(sums.traffic)
    for when, receiver, reason in sums.refusals:
        print(f"{when}  refused to {receiver}: {reason}")
    if sums.damaged:
        print(f"{sums.damaged} lines are damaged and not counted")
    for fault in check_chain(args.record):
        print(f"of the earlier files of this record, {fault}")
