"""The command ``serve``: a party answers the callers that may start training runs with it.

In vertical training it is a passive party, with columns.  In horizontal training it has rows and labels, and
trains with a coordinator: exactly (``--horizontal --party``), by SimFL (``--horizontal``) or privately
(``--private``).  Certificates, record, allow-list and quotas are the same.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from gbdt_commons.files import locked_folder, make_folder
from gbdt_commons.sealed import write_sealed
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.transport.server import Server, Service, raise_descriptor_limit
from gbdt_parties.transport.service import QUOTA_FILES
from veilboost.parsers import add_command, names, read_json
from veilboost.plans.tables import Table, log_unseen, read_table
from veilboost.serving import exact as exact_serving
from veilboost.serving import private as private_serving
from veilboost.serving import vertical as vertical_serving
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.common.rows import MAX_ROUNDS, MAX_ROWS, MIN_SIMILAR
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.service import HorizontalLimits, HorizontalService
from xgb_fed.vertical.passive.service import Limits, NamedRows, PassiveService

logger = logging.getLogger(__name__)

CATEGORIES_FILE = "categories.json"
"""In a passive party's models folder: values of its one-hot encoded columns."""

SERVER_LOCK = ".server"
"""A folder in the models folder that the server holds the lock of."""

LEAST = {
    "min_similar": 1,
    "known_features": 0,
    "max_rounds": 0,
    "min_parties": 2,
    "min_rows_per_node": 1,
    "max_samples": 0,
    "min_rows": 1,
    "max_rows": 1,
    "min_node_rows": 1,
    "max_statistics": 0.0,
    "max_thresholds": 0.0,
    "max_bin": 2,
    "max_depth": 1,
    "questions_per_hour": 0,
    "sessions_per_hour": 1,
    "max_models": 0,
    "max_memory": 0.001,
}
"""Smallest values of the options that limit something."""


HORIZONTAL = ("label", "categorical_labels", "max_rounds")
SIMFL_ONLY = ("min_similar", "known_features")
SUMS = ("party", "min_parties")
"""Options, by the names of their values, that belong to some kinds of training."""

ONLY_FOR: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...] = (
    (("vertical",), "vertical training", tuple(vertical_serving.OPTIONS)),
    (("exact", "simfl"), "horizontal training", HORIZONTAL),
    (("simfl",), "SimFL (--horizontal without --party)", SIMFL_ONLY),
    (("exact", "private"), "exact training (--horizontal) and private training", SUMS),
    (("exact",), "exact training (--horizontal with --party)", tuple(exact_serving.OPTIONS)),
    (("private",), "private training", tuple(private_serving.OPTIONS)),
)
"""Kinds of training, what they are called, and the options that are for no other kind."""

MAX_ROWS_BY_DEFAULT = {False: Limits.max_rows, True: MAX_ROWS}
"""Without and with ``--horizontal``."""


def add_serve(commands: Any) -> None:
    """Add the command ``serve``."""
    parser = add_command(
        commands,
        "serve",
        _serve,
        "run a party: answer those who are allowed to start training runs with it",
        "veilboost serve --data bank.csv --id user_id --listen 0.0.0.0:7001 --tls certs/bank --allow acme\n"
        "  veilboost serve --horizontal --data north.csv --label ill --categorical-labels --tls certs/north "
        "--allow acme --party sha256:…\n"
        "  veilboost serve --private columns.toml --data north.csv --tls certs/north --allow acme "
        "--party sha256:… --budget 1.0 1e-5 --models north",
    )
    add = parser.add_argument
    add("--data", required=True, help="CSV, Parquet or LIBSVM file")
    add("--columns", type=names, help="the only columns to use, a,b,c")
    add("--drop", type=names, default=[], help="columns not to use, a,b,c")
    add("--listen", default="127.0.0.1:7001", help="host:port (%(default)s)")
    add("--tls", required=True, help="folder with ca.pem, party.pem and party.key")
    add(
        "--allow",
        action="append",
        required=True,
        help="active party or coordinator, by name or sha256:FINGERPRINT; repeatable",
    )
    add("--name", help="this party's name in its record (its certificate's)")
    add(
        "--models",
        default="models",
        help="folder for models, training runs, aligned rows, record (%(default)s)",
    )
    add(
        "--max-rows",
        type=int,
        help="maximum number of rows to train on, of all parties together if they have different ones "
        f"({Limits.max_rows}; horizontal {MAX_ROWS})",
    )
    add("--max-features", type=int, help="refuse to start if more columns would be used")
    add("--max-bin", type=int, default=256, help="maximum number of bins of a column (%(default)s)")
    add("--max-depth", type=int, default=10, help="maximum depth of a tree (%(default)s)")
    add(
        "--questions-per-hour",
        type=int,
        default=120,
        help="alignments, predictions, resumptions (%(default)s)",
    )
    add("--sessions-per-hour", type=int, default=240, help="training runs and predictions (%(default)s)")
    add("--max-models", type=int, default=1000, help="models kept for each caller (%(default)s)")
    add("--max-memory", type=float, default=8.0, help="GiB held for each caller (%(default)s)")
    add(
        "--reset-questions",
        action="store_true",
        help="forget how often callers asked in the last hour, after a clock that was ahead was set right",
    )
    vertical_serving.add_options(parser.add_argument_group("vertical training"))
    _add_horizontal(parser.add_argument_group("horizontal training"))
    _add_sums(parser.add_argument_group("exact and private horizontal training"))
    exact_serving.add_options(parser.add_argument_group("exact horizontal training"))
    private_serving.add_options(parser.add_argument_group("private horizontal training"))


def _add_horizontal(group: Any) -> None:
    add = group.add_argument
    add(
        "--horizontal",
        action="store_true",
        help="train on these rows and labels: exactly with those of --party, by SimFL without",
    )
    add("--label", help="column of labels")
    add(
        "--categorical-labels",
        action="store_true",
        help="declare that labels are classes; their distinct values are then told",
    )
    add(
        "--min-similar",
        type=int,
        default=MIN_SIMILAR,
        help="SimFL: rows whose gradients are sent as one sum, at least (%(default)s)",
    )
    add(
        "--known-features",
        type=int,
        default=0,
        help="SimFL: features of a row that others may know (%(default)s)",
    )
    add(
        "--max-rounds",
        type=int,
        default=MAX_ROUNDS,
        help="rounds in all training runs together (%(default)s)",
    )


def _add_sums(group: Any) -> None:
    add = group.add_argument
    add(
        "--party",
        action="append",
        default=[],
        metavar="sha256:FINGERPRINT",
        help="certificate of another organisation that takes part; repeatable",
    )
    add("--min-parties", type=int, default=2, help="parties that must take part in a sum (%(default)s)")


def kind_of(args: argparse.Namespace) -> str:
    """Which kind of training the options are for."""
    if args.private:
        return "private"
    return ("exact" if args.party else "simfl") if args.horizontal else "vertical"


def _serve(args: argparse.Namespace) -> None:
    check_options(args)
    # Before gRPC is loaded: its core writes a line of its own for every connection that shows no certificate.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    tls = TLS.from_directory(args.tls)
    table = None if args.private else (_horizontal_table if args.horizontal else _passive_table)(args)
    if table is not None and args.max_features is not None and table.columns.n_features > args.max_features:
        raise InvalidDataError(
            f"{args.data} has {table.columns.n_features} columns to use, --max-features {args.max_features}"
        )
    name = args.name or Identity.of(tls.certificate).name
    with _only_server_of(make_folder(args.models)):
        if args.reset_questions:
            for path in Path(args.models).glob("for-*/*.json"):
                if path.name in QUOTA_FILES:
                    path.unlink()
        service: Service
        if table is None:
            service, rows, n_features = private_serving.make_service(args, tls)
        else:
            if kind_of(args) == "exact":
                service = exact_serving.make_service(args, table, name, tls, horizontal_limits_of(args))
            else:
                service = (_simfl_service if args.horizontal else _passive_service)(args, table, name)
            rows, n_features = table.columns.n_rows, table.columns.n_features
        raise_descriptor_limit()
        server = Server(service, args.listen, tls, args.allow)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.stop(grace=5))
        logger.info("%d rows, %d columns; allowed: %s", rows, n_features, ", ".join(args.allow))
        host = args.listen.rpartition(":")[0]
        del table  # with --dask, the workers hold it
        print(f"listening at {host}:{server.port}", flush=True)
        server.wait()
    logger.info("stopped")


@contextmanager
def _only_server_of(models: Path) -> Iterator[None]:
    """Keep other servers out of a folder: quotas are counted in each process, and kept there."""
    path = models / SERVER_LOCK
    path.mkdir(exist_ok=True)
    with locked_folder(path) as is_ours:
        if not is_ours:
            raise InvalidDataError(f"--models {models} is in use by another server; give each one a folder")
        yield


def check_options(args: argparse.Namespace) -> None:
    """Check options for what they have to do with each other.

    Raises
    ------
    InvalidArgumentError
        If an option is for the other kind of training, or a limit admits nothing.
    """
    if args.consent_to_export and args.require_consent_for_export:
        raise InvalidArgumentError(
            "--consent-to-export and --require-consent-for-export are mutually exclusive"
        )
    if args.private and args.horizontal:
        raise InvalidArgumentError("--private and --horizontal are mutually exclusive")
    for kinds, title, options in ONLY_FOR:
        for name in options if kind_of(args) not in kinds else ():
            if getattr(args, name) != _DEFAULTS[name]:
                raise InvalidArgumentError(f"{_option(name)} is for {title}")
    if args.dask is not None and args.categorical:
        raise InvalidArgumentError("--categorical is not supported with --dask; --one-hot is")
    for name in private_serving.UNUSED if args.private else ():
        if getattr(args, name) != private_serving.UNUSED[name]:
            raise InvalidArgumentError(f"{_option(name)} is not for private training")
    if args.private and not args.party:
        raise InvalidArgumentError("--private needs --party, the certificates of the others that take part")
    if args.horizontal and args.label is None:
        raise InvalidArgumentError("--horizontal needs --label, the column of labels")
    for name, least in LEAST.items():
        value = getattr(args, name)
        if value is not None and not value >= least:  # NaN, too
            raise InvalidArgumentError(f"{_option(name)} {value} must be at least {least}")


_DEFAULTS: dict[str, Any] = {
    **vertical_serving.OPTIONS,
    "label": None,
    "categorical_labels": False,
    "min_similar": MIN_SIMILAR,
    "known_features": 0,
    "max_rounds": MAX_ROUNDS,
    "party": [],
    "min_parties": 2,
    **exact_serving.OPTIONS,
    **private_serving.OPTIONS,
}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def limits_of(args: argparse.Namespace) -> Limits:
    """Limits of the passive party, from the options.

    Raises
    ------
    InvalidArgumentError
        If a limit admits nothing.
    """
    check_options(args)
    return Limits(
        min_rows=args.min_rows,
        max_rows=_max_rows(args),
        questions_per_hour=args.questions_per_hour,
        consents_to_export=args.consent_to_export,
        sessions_per_hour=args.sessions_per_hour,
        max_memory=int(args.max_memory * 2**30),
        max_models=args.max_models,
        min_node_rows=args.min_node_rows,
        max_statistics=args.max_statistics,
        max_thresholds=args.max_thresholds,
        allow_explanations=args.allow_explanations,
        max_bin=args.max_bin,
        max_depth=args.max_depth,
    )


def horizontal_limits_of(args: argparse.Namespace) -> HorizontalLimits:
    """Limits of a horizontal party, from the options.

    Raises
    ------
    InvalidArgumentError
        If a limit admits nothing.
    """
    check_options(args)
    return HorizontalLimits(
        questions_per_hour=args.questions_per_hour,
        sessions_per_hour=args.sessions_per_hour,
        max_memory=int(args.max_memory * 2**30),
        max_models=args.max_models,
        max_bin=args.max_bin,
        max_depth=args.max_depth,
    )


def _max_rows(args: argparse.Namespace) -> int:
    return MAX_ROWS_BY_DEFAULT[args.horizontal] if args.max_rows is None else args.max_rows


def _passive_service(args: argparse.Namespace, table: Table, name: str) -> Service:
    rows: NamedRows = table
    if args.dask is not None:
        # Loaded where it is asked for: Dask is optional.
        on_cluster = import_module("veilboost.dask").rows_on_cluster
        rows = on_cluster(args.dask, args.data, table, args.id, args.columns, args.drop)
    return PassiveService(rows, args.models, name, limits_of(args))


def _simfl_service(args: argparse.Namespace, table: Table, name: str) -> Service:
    party = HorizontalParty(
        table.columns,
        table.label,
        name,
        categorical_labels=args.categorical_labels,
        min_similar=args.min_similar,
        known_features=args.known_features,
        max_rows=_max_rows(args),
        max_rounds=args.max_rounds,
        directory=args.models,
    )
    return HorizontalService(party, args.models, horizontal_limits_of(args))


def _horizontal_table(args: argparse.Namespace) -> Table:
    return read_table(args.data, label=args.label, keep=args.columns, drop=args.drop)


def _passive_table(args: argparse.Namespace) -> Table:
    """Read the file, with the values of categories of the first start: models depend on them."""
    kept = Path(args.models) / CATEGORIES_FILE
    known = read_json(kept) if kept.exists() else {}
    one_hot, categorical = (
        {name: known[name] for name in columns} if set(columns) <= set(known) else columns
        for columns in (args.one_hot, args.categorical)
    )
    how = {"keep": args.columns, "drop": args.drop, "one_hot": one_hot, "categorical": categorical}
    table = read_table(args.data, id_column=args.id, **how)
    log_unseen(table, args.data, logger)
    values = {**table.categories, **table.categorical}
    if values and values != known:
        make_folder(kept.parent)
        write_sealed(kept, values)
    return table
