"""The commands ``show``, a model's card, and ``page``, a live page of folders."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from gbdt_commons.files import write_atomically
from gbdt_parties.errors import InvalidDataError
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


def fill_page(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the parser of ``page``."""
    parser.runs(_page, "veilboost page bank.toml /srv/acme")
    parser.add_argument("paths", nargs="*", default=["."], metavar="FOLDER", help="as of status (.)")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; any that is free by default")


def _page(args: argparse.Namespace) -> None:
    from veilboost.pages.served import PageServer, Watched

    if not 0 <= args.port < 1 << 16:
        raise InvalidDataError(f"--port={args.port} must be from 0 to 65535; 0 takes any that is free")
    with PageServer(Watched(args.paths), args.port) as server:
        print(
            f"open {server.address}\nit shows nothing without the token in this address; Ctrl+C ends it",
            flush=True,
        )
        server.serve_forever()
