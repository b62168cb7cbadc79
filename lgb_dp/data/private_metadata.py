"""Private bounds and quantiles of columns, for data whose bounds are not publicly known.

Both count rows in cells that are fixed before the data is read, and release the counts of all columns at once
with Gaussian noise.  A row is in one cell of every column, so adding it changes the counts of d columns by a
vector of length √d: noise of standard deviation √d / μ makes the release μ-GDP.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_commons.tables.frames import is_table
from gbdt_kernels.trees.layout import MAX_BINS
from lgb_dp.accounting.budget import Budget, checked_budget
from lgb_dp.accounting.gaussian import gaussian_mu
from lgb_dp.accounting.ledger import Ledger, Release
from lgb_dp.accounting.report import PrivacyReport, report_of
from lgb_dp.accounting.unit import Unit
from lgb_dp.checks import checked_delta, checked_epsilon, checked_max_bin, checked_numbers, delta_note
from lgb_dp.data.bins import Bounds, feature_names, public_bins
from lgb_dp.data.groups import checked_unit, draw_kept_rows
from lgb_dp.data.tables import numeric_matrix
from lgb_dp.errors import InvalidArgumentError, NotPrivateWarning
from lgb_dp.mechanisms.noise import release_gaussian
from lgb_dp.mechanisms.rng import SecureRandom

_EXPONENTS = np.arange(-32, 65)
"""Powers of two that bounds can be; beyond the last, values count as the last."""

_FALSE_CELLS = 1e-3
"""Probability that noise alone makes any cell of any column look occupied."""


def _matrix(data: Any) -> NDArray[np.float64]:
    if scipy.sparse.issparse(data):
        data = data.toarray()
    matrix = numeric_matrix(data) if is_table(data) else checked_numbers("X", data)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidArgumentError(f"X must have rows and features, got shape {matrix.shape}")
    return matrix


def released_counts(counts: NDArray[np.int64], mu: float) -> tuple[NDArray[np.float64], float]:
    """Counts of cells, one column of `counts` per feature, with noise, and its standard deviation."""
    std = float(np.sqrt(counts.shape[1]) / mu)
    return release_gaussian(counts, std, SecureRandom()).astype(np.float64), std


def _per_row(
    matrix: NDArray[np.float64], mu: float, groups: Any, rows_per_group: int | None
) -> tuple[NDArray[np.float64], float, Unit]:
    """The rows to count, μ of one of them, and the unit: a person's k rows cost kμ."""
    unit = checked_unit(groups, rows_per_group, None)
    if unit.rows is None:
        return matrix, mu, unit
    rows, _ = draw_kept_rows(groups, len(matrix), unit.rows)
    return matrix[rows], mu / unit.row_costs, unit


def _paid(what: str, mu: float, delta: float, unit: Unit, budget: Budget | None) -> PrivacyReport:
    """Charge a release, to the budget too if there is one, before the rows are counted."""
    ledger = Ledger(granted_delta=delta, unit=unit)
    ledger.charge(Release(what, "Gaussian", 0.0, 0, 0, mu=mu))
    budget = checked_budget(budget)
    if budget is None:
        return report_of(ledger)
    return report_of(
        ledger, notes=budget.charge(ledger.cost, f"private {what}", unit=ledger.unit), budget=budget.id
    )


def _judged(report: PrivacyReport, noisy: NDArray[np.float64], stacklevel: int = 3) -> PrivacyReport:
    """The report, with a note and a warning if δ is above one over the rows of the fullest column."""
    note = delta_note(report.delta, float(noisy.sum(axis=0).max()))
    if note is None:
        return report
    warnings.warn(note, NotPrivateWarning, stacklevel=stacklevel)
    return replace(report, notes=(*report.notes, note))


def _counts_by_size(matrix: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows by sign and power of two: cells from the largest negative values over zero to the largest."""
    n_cells = len(_EXPONENTS)
    size = np.ceil(np.log2(np.maximum(np.abs(matrix), 2.0 ** _EXPONENTS[0])))
    rank = np.clip(np.nan_to_num(size, nan=0.0, posinf=_EXPONENTS[-1]), _EXPONENTS[0], _EXPONENTS[-1])
    cell = n_cells + np.sign(np.nan_to_num(matrix)).astype(np.int64) * (
        rank.astype(np.int64) - _EXPONENTS[0] + 1
    )
    counts = np.zeros((2 * n_cells + 1, matrix.shape[1]), dtype=np.int64)
    rows, columns = np.nonzero(~np.isnan(matrix))
    np.add.at(counts, (cell[rows, columns], columns), 1)
    return counts


def private_bounds(
    X: Any,
    epsilon: float,
    delta: float,
    *,
    groups: Any = None,
    rows_per_group: int | None = None,
    budget: Budget | None = None,
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], PrivacyReport]:
    """Bounds of every column, powers of two, that leave out only what does not stand out of the noise.

    Values are counted by sign and power of two.  The bounds enclose all cells whose noisy count is above a
    threshold that noise alone exceeds anywhere with a probability of one in a thousand; a column in which no
    cell is gets the bounds (0, 1).  Values outside go to the outermost bins.

    Parameters
    ----------
    X : array-like, table or sparse matrix, shape (n_rows, n_features)
        Numbers or times (in seconds, as for `lgb_dp.Dataset`); NaN means missing and is not counted.
    epsilon, delta : float
        Limit on the cost of this release, under adding or removing one row (one person with `groups`).
    groups, rows_per_group
        The person of each row and the rows used per person, as for `lgb_dp.Dataset`.
    budget : Budget, optional
        Pays for the release.

    Returns
    -------
    bounds : (low, high)
        For `lgb_dp.Dataset`.
    report : PrivacyReport
        Cost of the release: pass it as ``lgb_dp.Dataset(..., paid_for=[report])``.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If X has no rows or no columns, or another argument is not accepted.
    BudgetExceededError
        If `budget` does not suffice.
    """
    matrix, mu = _matrix(X), gaussian_mu(checked_epsilon(epsilon), checked_delta(delta))
    matrix, mu, unit = _per_row(matrix, mu, groups, rows_per_group)
    report = _paid("bounds", mu, delta, unit, budget)
    with silent_arithmetic():
        noisy, std = released_counts(_counts_by_size(matrix), mu)
    occupied = noisy > std * np.sqrt(2 * np.log(noisy.size / _FALSE_CELLS))
    edges = 2.0**_EXPONENTS
    below = np.concatenate([-edges[::-1], [0.0], [0.0], edges[:-1]])
    above = np.concatenate([-edges[:-1][::-1], [0.0], [0.0], edges])
    first = occupied.argmax(axis=0)
    last = len(occupied) - 1 - occupied[::-1].argmax(axis=0)
    found = occupied.any(axis=0)
    low, high = np.where(found, below[first], 0.0), np.where(found, above[last], 1.0)
    return (low, high), _judged(report, noisy)


def private_quantile_edges(
    X: Any,
    bounds: Bounds,
    epsilon: float,
    delta: float,
    *,
    max_bin: int = 64,
    groups: Any = None,
    rows_per_group: int | None = None,
    budget: Budget | None = None,
) -> tuple[dict[int, NDArray[np.float64]], PrivacyReport]:
    """Thresholds between which every column has about equally many rows.

    Rows are counted in a fine public grid (`spacing="mixed"`, `MAX_BINS` cells), halved again and again where
    a count stands out of the noise and taken to be uniform where it does not.

    Parameters
    ----------
    X : array-like, table or sparse matrix, shape (n_rows, n_features)
        Numbers or times (in seconds, as for `lgb_dp.Dataset`); NaN means missing and is not counted.
    bounds : (low, high) or mapping of feature to (low, high)
        Public bounds of every column, or `private_bounds`'.
    epsilon, delta : float
        Limit on the cost of this release, under adding or removing one row (one person with `groups`).
    max_bin : int
        Bins at most, from 2 to 255.
    groups, rows_per_group
        The person of each row and the rows used per person, as for `lgb_dp.Dataset`.
    budget : Budget, optional
        Pays for the release.

    Returns
    -------
    edges : dict of int to ndarray
        For ``lgb_dp.Dataset(..., bin_edges=edges)``.
    report : PrivacyReport
        Cost of the release: pass it as ``lgb_dp.Dataset(..., paid_for=[report])``.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        Naming the argument.
    BudgetExceededError
        If `budget` does not suffice.
    """
    if bounds is None:
        raise InvalidArgumentError(
            "bounds must be public, or those of private_bounds; got None, but reading them from X leaks them"
        )
    matrix, mu = _matrix(X), gaussian_mu(checked_epsilon(epsilon), checked_delta(delta))
    max_bin = checked_max_bin(max_bin)
    names = feature_names(X if is_table(X) else matrix, None)
    bins = public_bins(matrix, names, bounds, MAX_BINS, None, None, "mixed")
    matrix, mu, unit = _per_row(matrix, mu, groups, rows_per_group)
    report = _paid("quantiles", mu, delta, unit, budget)
    with silent_arithmetic():
        counts = np.zeros((MAX_BINS, matrix.shape[1]), dtype=np.int64)
        for f, values in enumerate(bins.values):
            column = matrix[:, f]
            cell = np.searchsorted(values, column[~np.isnan(column)], side="left")
            counts[: len(values) + 1, f] = np.bincount(cell, minlength=len(values) + 1)
        noisy, std = released_counts(counts, mu)
    edges = {}
    for f, (values, limits) in enumerate(zip(bins.values, bins.ranges, strict=True)):
        mass = _halved(noisy[: len(values) + 1, f], std)
        reached = np.cumsum(mass)[:-1] / mass.sum()
        wanted = np.searchsorted(reached, np.arange(1, max_bin) / max_bin)
        if len(values):
            edges[f] = values[np.unique(np.minimum(wanted, len(values) - 1))]
        elif limits is not None:  # the one value of a column whose bounds are equal
            edges[f] = np.array([float(limits[0])])
    return edges, _judged(report, noisy)


def _halved(counts: NDArray[np.float64], std: float) -> NDArray[np.float64]:
    """Non-negative masses: a half gets its share of a whole that stands out of the noise."""
    mass = np.zeros(len(counts))
    pending = [(0, len(counts), max(float(counts.sum()), 1.0))]
    while pending:
        first, stop, whole = pending.pop()
        if stop - first == 1 or counts[first:stop].sum() < 3 * std * np.sqrt(stop - first):
            mass[first:stop] = whole / (stop - first)
            continue
        middle = (first + stop) // 2
        left, right = (max(float(counts[a:b].sum()), 0.0) for a, b in ((first, middle), (middle, stop)))
        pending.append((first, middle, whole * left / (left + right)))
        pending.append((middle, stop, whole * right / (left + right)))
    return mass
