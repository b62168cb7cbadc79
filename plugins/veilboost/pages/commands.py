"""The command ``show``: a model's card."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from gbdt_commons.files import write_atomically
from veilboost.parsers import Parser
from veilboost.statement import add_model


def fill_show(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the parser of ``show``."""
    parser.runs(_show, "veilboost show models/model.txt --record acme/record.jsonl --out claims-card.html")
    add_model(parser)
    parser.add_argument("--out", default="card.html", help="page to write (%(default)s)")
    parser.add_argument("--statement", metavar="PAGE", help="page of this model's statement, to link to")


def _show(args: argparse.Namespace) -> None:
    # Here, so that other commands do not wait for LightGBM and XGBoost.
    from veilboost.model_statements import statement_of
    from veilboost.pages.card import card_of, link_to

    statement = statement_of(args.model, args.fill, args.record, args.method)
    out, digest = Path(args.out), statement.model["SHA-256"]
    link = None if args.statement is None else link_to(args.statement, out, digest)
    write_atomically(out, card_of(args.model, statement, link))
    print(out)
