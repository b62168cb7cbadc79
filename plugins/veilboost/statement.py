"""The command ``veilboost statement``: a page, JSON and a registry's record about one model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from veilboost.parsers import Parser

METHODS = ("vertical", "exact", "simfl")


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    parser.runs(_statement, 'veilboost statement models/model.txt --out claims --fill name="Claims model"')
    add_model(parser)
    parser.add_argument(
        "--out", default="statement", help="files to write, without their endings (%(default)s)"
    )
    parser.add_argument(
        "--egress",
        action="store_true",
        help="also write OUT.egress.json, for the checkers of a research environment (SACRO-ML)",
    )


def add_model(parser: Parser) -> None:
    """Add the model, and what its file does not say."""
    add = parser.add_argument
    add("model", help="model file, or the folder of a trained model")
    add(
        "--record",
        help="record.jsonl of a party: adds parties and traffic; sizes can tell how many rows took part",
    )
    add(
        "--method",
        choices=METHODS,
        help="how a native XGBoost model was trained, which its file does not say; the record does",
    )
    add(
        "--fill",
        action="append",
        default=[],
        metavar="FIELD=TEXT",
        help="a field of the registry's record that the model does not say; repeatable",
    )


def _statement(args: argparse.Namespace) -> None:
    # Here, so that other commands do not wait for LightGBM and XGBoost.
    from gbdt_commons.statements.egress import save_egress
    from veilboost.model_statements import statement_of

    statement = statement_of(args.model, args.fill, args.record, args.method)
    files = statement.save(args.out)
    if args.egress:
        files.append(save_egress(statement, args.out))
    print(", ".join(map(str, files)))
    if statement.to_fill_in:
        print(f"to be filled in for the registry (--fill): {', '.join(statement.to_fill_in)}")
