"""How public bounds suit the rows, for a person who may see the rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_commons.tables.frames import is_table
from lgb_dp.data.arguments import checked_data
from lgb_dp.data.bins import Bounds, Categories, PublicBins, Spacing, feature_names, public_bins
from lgb_dp.data.tables import as_frame, check_declared, is_missing

NO_RELEASE = (
    "These figures were read from the rows. They are not a private release: keep them where the rows are.\n"
    "Bounds that are changed because of them depend on the rows. Take the new ones from public knowledge."
)
FEW_BINS = 3
"""Bins of a column in use up to which the table remarks on it."""

HEAD = ("column", "below", "above", "missing", "bins used", "remark")


def check_bounds(
    X: Any,
    bounds: Bounds | None,
    *,
    categories: Categories | None = None,
    bin_edges: Mapping[Any, Any] | None = None,
    max_bin: Any = 255,
    spacing: Spacing = "mixed",
    feature_name: Any = "auto",
    accept_undeclared: Collection[str] = (),
) -> None:
    """Print how public bounds suit the rows, for a person who may see the rows.

    The table is printed and nothing of it is kept: it is no private release.  It shows, for every column, the
    shares of values below and above the bounds and of missing values, the number of bins that have rows, and
    remarks, such as the share of values that are not among the declared categories.

    Parameters
    ----------
    X : ndarray, table or scipy sparse matrix, shape (n_rows, n_features)
    bounds, categories, bin_edges, feature_name
        As for `lgb_dp.Dataset`.
    max_bin : int or mapping, default 255
        As for `lgb_dp.Dataset`; the default is that of the estimators for `NewtonBoost`.
    spacing : {"mixed", "linear"}, default "mixed"
        As for `lgb_dp.Dataset`.
    accept_undeclared : sequence of str
        Columns that may have any share of values that are not declared.

    Raises
    ------
    InvalidArgumentError
        If a declaration is malformed, or a numeric column has neither bounds nor edges; `bounds` of None are
        not read from the rows, which they would always suit.  Below the table, if a column of categories has
        values in more than 1% of the rows that are not declared.
    """
    data = checked_data(X)
    names = feature_names(data, feature_name)
    bins = public_bins(data, names, {} if bounds is None else bounds, max_bin, categories, bin_edges, spacing)
    columns = [_column(bins, data, f) for f in range(len(names))]
    print(_as_text([_line(bins, f, *column) for f, column in enumerate(columns)]))
    print(NO_RELEASE)
    for f, column in enumerate(columns):
        if bins.is_categorical[f]:
            check_declared(names[f], float(_is_undeclared(bins, f, *column).mean()), accept_undeclared)


def undeclared_shares(X: Any, categories: Categories) -> dict[str, float]:
    """Shares of rows with a value that is not among the declared ones, by column of declared categories.

    For the owner of the rows alone: they were read from them. `categories` are as for `lgb_dp.Dataset`, by
    names of columns.
    """
    data = as_frame(X).select(list(categories)).to_native()
    bins = public_bins(data, names := feature_names(data, "auto"), {}, 255, categories, None, "mixed")
    found = {}
    for f, name in enumerate(names):
        found[name] = float(_is_undeclared(bins, f, *_column(bins, data, f)).mean())
    return found


def _is_undeclared(
    bins: PublicBins, feature: int, column: NDArray[np.float64], missing: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    return np.asarray(~missing & ~np.isin(column, bins.values[feature]))


def _column(bins: PublicBins, data: Any, feature: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """One column as numbers, NaN for missing or undeclared values; and where it is missing."""
    if is_table(data):
        frame, _ = bins.columns.in_order(data, len(bins.names))
        series = frame[:, feature]
        return bins.columns.numbers(series, feature), is_missing(series)
    column = data[:, [feature]].toarray()[:, 0] if scipy.sparse.issparse(data) else data[:, feature]
    column = np.asarray(column, dtype=np.float64)
    return column, np.isnan(column)


def _line(
    bins: PublicBins, feature: int, column: NDArray[np.float64], missing: NDArray[np.bool_]
) -> tuple[str, ...]:
    values, bounds, n_rows = bins.values[feature], bins.ranges[feature], len(column)
    if bounds is None:
        known = np.isin(column, values)
        other = int((~known & ~missing).sum())
        return (
            bins.names[feature],
            "",
            "",
            _share(int(missing.sum()), n_rows),
            f"{len(np.unique(column[known]))} of {len(values)}",
            f"not declared, and counted as missing: {_share(other, n_rows)}" if other else "",
        )
    present = column[~np.isnan(column)]
    used = len(np.unique(np.searchsorted(values, present)))
    low, high = bounds
    return (
        bins.names[feature],
        _share(int((present < low).sum()), n_rows),
        _share(int((present > high).sum()), n_rows),
        _share(n_rows - len(present), n_rows),
        f"{used} of {bins.n_bins[feature]}",
        "; ".join(_remarks(present, low, high, used, int(bins.n_bins[feature]))),
    )


def _remarks(present: NDArray[np.float64], low: float, high: float, used: int, n_bins: int) -> list[str]:
    if not len(present):
        return ["no values"]
    remarks = []
    if low < high and (present.min(), present.max()) == (low, high):
        remarks.append("bounds equal the observed minimum and maximum: are they public knowledge?")
    if used <= FEW_BINS < n_bins and len(np.unique(present)) > used:
        remarks.append("nearly all values share a bin: the bounds are too wide or beside the values")
    return remarks


def _share(count: int, n_rows: int) -> str:
    return f"{count / n_rows:.1%}" if count else "0"


def _as_text(rows: list[tuple[str, ...]]) -> str:
    lines = [HEAD, *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(HEAD))]
    left = {0, len(HEAD) - 1}
    return "\n".join(
        "  ".join(
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
