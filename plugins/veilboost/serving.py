"""The command ``serve``: a passive party answers the active parties that are allowed to ask."""

from __future__ import annotations

import argparse
import json
import logging
import signal
from pathlib import Path
from typing import Any

from gbdt_parties._files import make_folder, write_atomically
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.transport.server import Server, raise_descriptor_limit
from gbdt_parties.transport.service import QUOTA_FILES
from veilboost.parsers import add_command, names, read_json
from veilboost.tables import Table, read_table
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.vertical.service import Limits, PassiveService

logger = logging.getLogger(__name__)

CATEGORIES_FILE = "categories.json"
"""In a passive party's models folder: values of its one-hot encoded columns."""

LEAST = {
    "min_rows": 1,
    "max_rows": 1,
    "min_node_rows": 1,
    "max_bin": 2,
    "max_depth": 1,
    "questions_per_hour": 0,
    "sessions_per_hour": 1,
    "max_models": 0,
    "max_memory": 0.001,
}
"""Smallest values of the options that limit something."""


def add_serve(commands: Any) -> None:
    """Add the command ``serve``."""
    add = add_command(
        commands,
        "serve",
        _serve,
        "run a passive party: answer the active parties that are allowed to ask",
        "veilboost serve --data bank.csv --id user_id --listen 0.0.0.0:7001 --tls certs/bank --allow acme",
    ).add_argument
    add("--data", required=True, help="CSV, Parquet or LIBSVM file")
    add("--id", help="column of ids; without it, rows are taken in the file's order")
    add("--columns", type=names, help="the only columns to offer, a,b,c")
    add("--drop", type=names, default=[], help="columns not to offer, a,b,c")
    add("--one-hot", type=names, default=[], help="text columns to encode, a,b,c; values are kept for later")
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
    add(
        "--min-node-rows",
        type=int,
        default=10,
        help="rows of a node that statistics are given of (%(default)s)",
    )
    add("--max-bin", type=int, default=256, help="maximum number of bins of a column (%(default)s)")
    add("--max-depth", type=int, default=10, help="maximum depth of a tree (%(default)s)")
    add("--questions-per-hour", type=int, default=120, help="alignments and predictions (%(default)s)")
    add("--sessions-per-hour", type=int, default=240, help="training runs and predictions (%(default)s)")
    add("--max-models", type=int, default=1000, help="models kept for each active party (%(default)s)")
    add("--max-memory", type=float, default=8.0, help="GiB held for each active party (%(default)s)")
    add(
        "--reset-questions",
        action="store_true",
        help="forget how often callers asked in the last hour, after a clock that was ahead was set right",
    )
    add("--consent-to-export", action="store_true", help="give splits to export_booster when asked")
    add("--require-consent-for-export", action="store_true", help="do not give splits (the default)")


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
    if args.reset_questions:
        for path in Path(args.models).glob("for-*/*.json"):
            if path.name in QUOTA_FILES:
                path.unlink()
    service = PassiveService(
        table, args.models, args.name or Identity.of(tls.certificate).name, limits_of(args)
    )
    raise_descriptor_limit()
    server = Server(service, args.listen, tls, args.allow)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop(grace=5))
    logger.info("%d rows, %d columns; allowed: %s", table.columns.n_rows, n_features, ", ".join(args.allow))
    host = args.listen.rpartition(":")[0]
    print(f"listening at {host}:{server.port}", flush=True)
    server.wait()
    logger.info("stopped")


def limits_of(args: argparse.Namespace) -> Limits:
    """What the passive party agrees to, by the options.

    Raises
    ------
    InvalidArgumentError
        If a limit admits nothing.
    """
    for name, least in LEAST.items():
        if getattr(args, name) < least:
            option = "--" + name.replace("_", "-")
            raise InvalidArgumentError(f"{option} {getattr(args, name)} must be at least {least}")
    return Limits(
        min_rows=args.min_rows,
        max_rows=args.max_rows,
        questions_per_hour=args.questions_per_hour,
        consents_to_export=args.consent_to_export,
        sessions_per_hour=args.sessions_per_hour,
        max_memory=int(args.max_memory * 2**30),
        max_models=args.max_models,
        min_node_rows=args.min_node_rows,
        max_bin=args.max_bin,
        max_depth=args.max_depth,
    )


def _passive_table(args: argparse.Namespace) -> Table:
    """Read the file, one-hot encoded with the values of the first start: models depend on them."""
    kept = Path(args.models) / CATEGORIES_FILE
    known = read_json(kept) if kept.exists() else {}
    one_hot: Any = (
        {name: known[name] for name in args.one_hot} if set(args.one_hot) <= set(known) else args.one_hot
    )
    table = read_table(args.data, id_column=args.id, keep=args.columns, drop=args.drop, one_hot=one_hot)
    if table.categories and table.categories != known:
        make_folder(kept.parent)
        write_atomically(kept, json.dumps(table.categories))
    return table
