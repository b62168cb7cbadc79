"""A warning for columns of passive parties whose categories have so few rows that splits tell labels.

A split by categories names every category that goes right, and these are the ones of lowest weight: that is
up to one bit about the mean label of each category, and for a category of a few rows about their labels.
Columns split one category against all others tell far less, and so do, with versions of XGBoost that have
them, categories tied at weight 0 because their hessians are below `min_child_weight`.
"""

from __future__ import annotations

import warnings

from xgb_fed.boosting.categories import CategoryRules
from xgb_fed.errors import LabelLeakWarning
from xgb_fed.vertical.growing.bin_sums import AgreedColumns

SMALL_CATEGORY = 20
"""Rows of a category below which it is small."""

MANY = 0.01
"""Fraction of all rows that may be in small categories of a column without a warning."""


def warn_of_small_categories(name: str, columns: AgreedColumns, rules: CategoryRules, n_rows: int) -> None:
    """Warn of columns that a party announces, with a `LabelLeakWarning` for each.

    Parameters
    ----------
    name : str
        The party's.
    columns : AgreedColumns
    rules : CategoryRules
    n_rows : int
    """
    for column, n_small in rows_in_small_categories(columns, rules).items():
        if n_small > MANY * n_rows:
            warnings.warn(
                f"party {name!r}, column {column}: {n_small} rows are in categories of fewer than "
                f"{SMALL_CATEGORY} rows. Each split by category tells the party which of these have low "
                "gradients, and so much about labels. A larger max_cat_to_onehot reveals less",
                LabelLeakWarning,
                stacklevel=2,
            )


def rows_in_small_categories(columns: AgreedColumns, rules: CategoryRules) -> dict[int, int]:
    """Rows in small categories, by column that is split by sets of categories."""
    rows = {}
    for column in sorted(columns.categorical):
        if columns.n_bins[column] >= rules.max_cat_to_onehot:
            counts = columns.counts[columns.offsets[column] : columns.offsets[column + 1] - 1]
            rows[column] = int(counts[counts < SMALL_CATEGORY].sum())
    return rows
