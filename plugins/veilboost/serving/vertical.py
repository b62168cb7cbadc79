"""The options of ``serve`` that are for vertical training."""

from __future__ import annotations

from typing import Any

from veilboost.parsers import names
from xgb_fed.vertical.passive.explanations import LEVELS
from xgb_fed.vertical.passive.service import Limits

OPTIONS: dict[str, Any] = {
    "id": None,
    "one_hot": [],
    "categorical": [],
    "dask": None,
    "min_rows": Limits.min_rows,
    "min_node_rows": Limits.min_node_rows,
    "max_statistics": Limits.max_statistics,
    "max_thresholds": Limits.max_thresholds,
    "allow_explanations": Limits.allow_explanations,
    "consent_to_export": False,
    "require_consent_for_export": False,
}
"""Options that are for vertical training alone, by the names of their values, with their defaults."""


def add_options(group: Any) -> None:
    """Add the options."""
    add = group.add_argument
    add("--id", help="column of ids; without it, rows are taken in the file's order")
    add("--one-hot", type=names, default=[], help="text columns to encode, a,b,c; values are kept for later")
    add(
        "--categorical",
        type=names,
        default=[],
        help="text columns to split by category, a,b,c; values are kept for later",
    )
    add(
        "--dask",
        metavar="ADDRESS",
        help="scheduler of a Dask cluster whose workers read the file and hold it",
    )
    add("--min-rows", type=int, default=100, help="minimum number of rows to train on (%(default)s)")
    add(
        "--min-node-rows",
        type=int,
        default=10,
        help="rows of a node that statistics are given of (%(default)s)",
    )
    add(
        "--max-statistics",
        type=float,
        default=Limits.max_statistics,
        help="statistics per row that an active party gets in all its training runs: about one per row tells "
        "it the bins of most values; a few hundred rows need more than the default, inf is no limit "
        "(%(default)s)",
    )
    add(
        "--max-thresholds",
        type=float,
        default=Limits.max_thresholds,
        help="thresholds of a column at which an active party learns the sides of rows, in all its training "
        "runs and predictions; inf is no limit (%(default)s)",
    )
    add(
        "--allow-explanations",
        choices=LEVELS,
        default=Limits.allow_explanations,
        help="tell every row's side at this party's splits, for explanations and predictions that hide "
        "paths, and the splits' columns by position or for their sum only (%(default)s)",
    )
    add("--consent-to-export", action="store_true", help="give splits to export_booster when asked")
    add("--require-consent-for-export", action="store_true", help="do not give splits (the default)")
