"""The options of ``serve --horizontal --party``, and the party of exact training that they describe."""

from __future__ import annotations

import argparse
from typing import Any

from gbdt_parties.identity.certificates import TLS
from veilboost.parsers import names
from veilboost.plans.tables import Table, read_table
from xgb_fed.horizontal.common.rows import MAX_ROWS
from xgb_fed.horizontal.exact.rows.samples import MAX_SAMPLES
from xgb_fed.horizontal.exact.task import MIN_ROWS_PER_NODE
from xgb_fed.horizontal.exact.terms import ExactTerms
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.service import HorizontalLimits, HorizontalService

OPTIONS: dict[str, Any] = {
    "min_rows_per_node": MIN_ROWS_PER_NODE,
    "cuts": ["grid"],
    "valid": None,
    "max_samples": MAX_SAMPLES,
}
"""Options that are for exact training alone, by the names of their values, with their defaults."""


def add_options(group: Any) -> None:
    """Add the options."""
    add = group.add_argument
    add(
        "--min-rows-per-node",
        type=int,
        default=MIN_ROWS_PER_NODE,
        help="rows of all parties that both sides of a split must have, at least (%(default)s)",
    )
    add(
        "--cuts",
        type=names,
        default=["grid"],
        help="how columns may be cut, of grid,exact,given: exact and given cuts tell more (grid)",
    )
    add(
        "--max-samples",
        type=int,
        default=MAX_SAMPLES,
        help="samples of rows that trees are grown on, in all training runs together (%(default)s)",
    )
    add("--valid", metavar="FILE", help="rows that are not trained on; all parties' metrics count them")


def make_service(
    args: argparse.Namespace, table: Table, name: str, tls: TLS, limits: HorizontalLimits
) -> HorizontalService:
    """The service of a party with its rows."""
    held_out = []
    if args.valid is not None:
        valid = read_table(args.valid, label=args.label, keep=args.columns, drop=args.drop)
        held_out = [(valid.columns, valid.label)]
    party = HorizontalParty(
        table.columns,
        table.label,
        name,
        categorical_labels=args.categorical_labels,
        max_rows=MAX_ROWS if args.max_rows is None else args.max_rows,
        max_rounds=args.max_rounds,
        directory=args.models,
        exact=ExactTerms(
            min_rows_per_node=args.min_rows_per_node,
            min_parties=args.min_parties,
            cuts=args.cuts,
            max_bin=args.max_bin,
            held_out=held_out,
            tls=tls,
            allowed=args.party,
            max_samples=args.max_samples,
        ),
    )
    return HorizontalService(party, args.models, limits)
