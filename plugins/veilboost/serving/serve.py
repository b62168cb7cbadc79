"""The command ``serve``: a party answers the callers that may start training runs with it.

In vertical training it is a passive party, with columns; in private training with columns apart, too.  In
horizontal training it has rows and labels, and trains with a coordinator: exactly, by SimFL or privately.
Certificates, record, allow-list and quotas are the same.  Each kind of training has a module of its name here
that makes the service of its party.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from veilboost.parsers import Parser
from veilboost.plans.plan import METHODS, read_served
from veilboost.plans.sections import Served
from veilboost.serving.options import add_options, settings_of

SUMMARIES = {
    "vertical": "serve columns of rows that others have too",
    "exact": "serve rows and labels, for exact training",
    "private": "serve rows and labels, for differentially private training",
    "private-columns": "serve columns of rows that another party has too, for private training",
    "simfl": "serve rows and labels, for training by SimFL",
}
EXAMPLE = """A file has `method`, and the options of its kind as entries.

example:
  veilboost serve vertical --data bank.csv --id user_id --listen 0.0.0.0:7001 --tls certs/bank --allow acme"""


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the parser of ``serve``: a kind of training comes first, or a file that names one."""
    first = arguments[0] if arguments else ""
    if Path(first).suffix in (".toml", ".yaml", ".yml"):
        parser.add_argument("plan", help="TOML or YAML file: method, and the options of its kind as entries")
        _add_reset(parser)
        parser.runs(lambda args: _serve(*read_served(args.plan), args, args.plan))
        return
    parser.usage = "veilboost serve [-h] KIND … | PLAN.toml"
    if first.startswith("-") and first not in ("-h", "--help"):
        parser.error(f"{first} comes after the kind of training: veilboost serve {{{','.join(METHODS)}}} …")
    parser.add_commands(
        "kinds of training", "KIND", {name: (SUMMARIES[name], partial(_fill_kind, name)) for name in METHODS}
    )
    parser.epilog = EXAMPLE


def _fill_kind(method: str, parser: Parser, arguments: Sequence[str]) -> None:
    add_options(parser, method)
    _add_reset(parser)
    parser.runs(lambda args: _serve(method, settings_of(args, method), args))


def _add_reset(parser: Parser) -> None:
    parser.add_argument(
        "--reset-questions", action="store_true", help="forget the last hour's counts, after a wrong clock"
    )


def _serve(method: str, served: Served, args: argparse.Namespace, file: str | None = None) -> None:
    # Loaded when it is needed, with the libraries of connections.
    from veilboost.serving.server import serve

    serve(method, served, reset_questions=args.reset_questions, file=file)
