"""Figures with 95% intervals from tables of counts that have Gaussian noise in every cell.

An interval holds every value that a test does not reject (Fieller, 1954; for areas under curves, Newcombe,
Statistics in Medicine 25, 2006): the test's statistic is a sum of counts, of which both the variance of the
noise, which is known, and that of drawing the rows are asked at the value that is tested.  So an interval is
as wide as the whole range where noise hides everything, and no ratio is ever divided by a noisy count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Z = 1.959963984540054
"""Quantile of the normal distribution that leaves 2.5% beyond."""

_DOUBT = 0.25
"""Standard deviations of a cell by which the mean of its rows may be off."""

_GRID = np.linspace(0.0, 1.0, 1001)


_LARGEST = 1e30
"""Of a table's numbers: far more than any noise, and products of four are finite."""


def are_moderate(numbers: NDArray[np.float64], std: float, alike: int) -> bool:
    """Whether figures follow from a table's numbers without overflow."""
    return bool((np.abs(numbers) <= _LARGEST).all()) and 0 <= std <= _LARGEST and 1 <= alike <= _LARGEST


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95% interval, which covers the drawing of rows and the noise."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        numbers = (self.value, self.low, self.high)
        value, low, high = (f"{x:.3g}" if 0 < abs(x) < 1e-3 else f"{x:.4f}" for x in numbers)
        return f"{value} ({low} to {high})"


def mean_estimate(
    counts: NDArray[np.float64],
    values: NDArray[np.float64],
    spread: NDArray[np.float64],
    std: float,
    limits: tuple[float, float],
) -> Estimate:
    """Mean of a number over the rows of a table, each cell's rows taken at that cell's value.

    `counts` are rows with noise, whose deviation is `std` rows; `values` and `spread` are the number's mean
    and deviation in each cell, of shape (n_cells,); the mean has `limits`. With U(m) = Σ t (v - m) over the
    cells, the interval is {m : U(m)² ≤ z² Var U(m)}, a quadratic in m. The variance counts one and a half
    rows more, at the largest value, since few rows may hold most of it. The ends are moved by `_DOUBT` of the
    spread within cells, whose rows may lie otherwise than is assumed.
    """
    n, first = float(counts.sum()), float(counts @ values)
    second = float(counts @ (values**2 + spread**2) + 1.5 * values.max() ** 2)
    value = float(np.clip(first / n, *limits)) if n > 0 else float(np.mean(limits))
    # (first - m n)² - z² [std² Σ (v - m)² + Σ t ((v - m)² + s²)], by powers of m.
    a = n**2 - Z**2 * (std**2 * len(values) + n)
    b = -2 * first * n + 2 * Z**2 * (std**2 * float(values.sum()) + first)
    c = first**2 - Z**2 * (std**2 * float((values**2).sum()) + second)
    root = b**2 - 4 * a * c
    if n <= 0 or a <= 0 or root < 0:
        return Estimate(value, *limits)
    doubt = _DOUBT * float(np.maximum(counts, 0.0) @ spread) / n
    ends = (-b - np.sqrt(root)) / (2 * a) - doubt, (-b + np.sqrt(root)) / (2 * a) + doubt
    low, high = np.clip(ends, *limits)
    return Estimate(value, float(low), float(high))


def auc_estimate(positive: NDArray[np.float64], negative: NDArray[np.float64], std: float) -> Estimate:
    """Area under the ROC curve, ties within a bin counted half.

    `positive` and `negative` are rows of each label with noise, by ascending score, of shape (n_bins,); `std`
    is that of the noise, in rows. With c the share of pairs that are in order, U(a) = Σᵢⱼ pᵢ nⱼ (cᵢⱼ - a) has
    mean 0 at the true area, noise included, since the noises of both labels are independent. The variance of
    drawing rows is Hanley and McNeil's (Radiology 143, 1982) at a, or that of the mirrored curve if it is
    larger, and more by 3 / n where the rarer label has n rows, whose distribution is skewed.
    """
    n_bins, p, n = len(positive), float(positive.sum()), float(negative.sum())
    below = np.cumsum(negative) - negative / 2
    above = p - np.cumsum(positive) + positive / 2
    in_order = float(positive @ below)
    a = _GRID
    # Of the products' noise; plugging noisy counts into it adds the product of both noises twice over.
    squares = (_squares(below, a * n) + _squares(above, a * p)) * std**2
    order = np.tri(n_bins, k=-1) + np.eye(n_bins) / 2
    both = std**4 * ((order**2).sum() - 2 * a * order.sum() + a**2 * n_bins**2)
    noise = np.maximum(squares - both, both)
    rows_p, rows_n = max(p, 1.0), max(n, 1.0)
    q1, q2 = a / (2 - a) - a**2, 2 * a**2 / (1 + a) - a**2
    mirrored = q2[::-1], q1[::-1]
    drawn = np.maximum(
        *(a * (1 - a) + (rows_p - 1) * one + (rows_n - 1) * two for one, two in ((q1, q2), mirrored))
    )
    drawn *= rows_p * rows_n * (1 + 3 / min(rows_p, rows_n))
    accepted = np.flatnonzero((in_order - a * p * n) ** 2 <= Z**2 * (noise + drawn))
    value = float(np.clip(in_order / (p * n), 0.0, 1.0)) if min(p, n) > 0 else 0.5
    # Of very many rows, no point of the grid may be accepted.
    step, ends = _GRID[1], a[accepted] if len(accepted) else np.array([value])
    low, high = max(ends[0] - step, 0.0), min(ends[-1] + step, 1.0)
    return Estimate(value, min(float(low), value), max(float(high), value))


def concordance_estimate(event: NDArray[np.float64], other: NDArray[np.float64], std: float) -> Estimate:
    """Harrell's concordance: the share of pairs in order, where one's event came before the other's time.

    `event` are rows with noise, by ascending score and time, of shape (n_bins, n_times); `other` are those
    without an event, of shape (n_bins, n_times + 1), the last column after all events.  With x all cells, and
    K and P the pairs of cells that are in order (ties of scores half) and comparable, both symmetric,
    U(c) = x'(K - c P) x / 2 has mean 0 at the true c, noise included, since no cell is compared with itself.
    The variance of drawing rows is that of U's projection on one row, more by 3 / n of n events.

    Pairs in one bin of times are in no table.  Events that are as close are in order by a third of what all
    pairs are above one half, and pairs in one bin of scores, a share r, count half, which takes r² of it
    (where chances grow with distance).  The value is moved by both, and each end by `_DOUBT` of that, too.
    """
    n_bins, n_times = event.shape
    x, place, time = np.hstack([event, other]).ravel(), np.arange(n_bins), np.r_[:n_times, : n_times + 1]
    is_before = np.outer(np.arange(len(time)) < n_times, True) & np.less.outer(time, time)
    shares = (1 - np.sign(np.subtract.outer(place, place))) / 2, np.ones((n_bins, n_bins))
    k, p = (one + one.T for one in (np.kron(share, is_before) for share in shares))
    of_k, of_p = k @ x, p @ x
    in_order, n_pairs, a = float(x @ of_k) / 2, float(x @ of_p) / 2, _GRID
    slopes = (of_k[:, None] - a * of_p[:, None]) ** 2
    # Of the noise in the slopes; that of the products is counted twice over.
    own = np.stack([(k * k).sum(1), -2 * (k * p).sum(1), (p * p).sum(1)], 1) @ np.vander(a, 3, True).T
    own *= std**2
    both = std**2 * own.sum(axis=0) / 2
    noise = np.maximum(std**2 * slopes.sum(axis=0) - both, both)
    drawn = np.maximum(x @ (slopes - own), 0.0) * (1 + 3 / max(float(event.sum()), 1.0))
    accepted = a[(in_order - a * n_pairs) ** 2 <= Z**2 * (noise + drawn)]
    value = float(np.clip(in_order / n_pairs, 0.0, 1.0)) if n_pairs > 0 else 0.5
    low, high = (accepted[0], accepted[-1]) if len(accepted) else (value, value)
    n_close = (np.square(event.sum(axis=0)).sum() - std**2 * event.size) / 2
    n_tied = x @ np.kron(np.eye(n_bins), is_before + is_before.T) @ x / 2
    close, tied = np.clip([n_close / max(n_pairs + n_close, 1.0), n_tied / max(n_pairs, 1.0)], 0.0, 0.5)
    less, more = 2 / 3 * float(close), float(tied) ** 2
    doubt = float(_DOUBT * abs(value - 0.5) * (less + more) + _GRID[1])
    factor = (1 - less) / (1 - more)
    value, first, last = (float(np.clip(0.5 + (c - 0.5) * factor, 0.0, 1.0)) for c in (value, low, high))
    low, high = first - doubt if low > 0 else 0.0, last + doubt if high < 1 else 1.0
    return Estimate(value, max(min(low, value), 0.0), min(max(high, value), 1.0))


def _squares(values: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of squared distances of values to each centre, shape (n_centres,)."""
    return np.asarray((values**2).sum() - 2 * centres * values.sum() + len(values) * centres**2)


def share_estimate(part: float, rest: float, n_part: int, n_rest: int, std: float) -> Estimate:
    """Share of some rows in all, where both numbers are sums of `n_part` and `n_rest` cells with noise.

    Wilson's interval (1927) with the noise, of `std` rows in a cell, and one row for the skewness of few, in
    the variance: U(s) = part (1 - s) - rest s.
    """
    counts = np.array([part, rest])
    n = float(counts.sum())
    value = float(np.clip(part / n, 0.0, 1.0)) if n > 0 else 0.5
    # (part - s n)² - z² [std² (n_part (1 - s)² + n_rest s²) + n s (1 - s) + 1], by powers of s.
    a = n**2 - Z**2 * (std**2 * (n_part + n_rest) - n)
    b = -2 * part * n - Z**2 * (n - 2 * std**2 * n_part)
    c = part**2 - Z**2 * (std**2 * n_part + 1.0)
    root = b**2 - 4 * a * c
    if n <= 0 or a <= 0 or root < 0:
        return Estimate(value, 0.0, 1.0)
    ends = np.clip([(-b - np.sqrt(root)) / (2 * a), (-b + np.sqrt(root)) / (2 * a)], 0.0, 1.0)
    return Estimate(value, float(ends[0]), float(ends[1]))


def variance_estimate(counts: NDArray[np.float64], std: float) -> Estimate:
    """Variance of a number over the rows of a table, in bins of equal width from 0 to 1.

    It is the mean squared distance from any centre less the square of how far the mean is from there.
    """
    ends = np.linspace(0.0, 1.0, len(counts) + 1)
    inside = np.linspace(ends[:-1], ends[1:], 5)
    mean = mean_estimate(counts, inside.mean(axis=0), inside.std(axis=0), std, (0.0, 1.0))
    squares = (inside - mean.value) ** 2
    found = mean_estimate(counts, squares.mean(axis=0), squares.std(axis=0), std, (0.0, 1.0))
    off = max(mean.high - mean.value, mean.value - mean.low) ** 2
    return Estimate(found.value, max(found.low - off, 0.0), found.high)


def ratio_estimate(part: Estimate, whole: Estimate) -> Estimate:
    """Ratio of two figures that are not negative, with an interval from both of theirs.

    Distances to the ends of both logarithms add up as independent ones do (Zou and Donner, Statistics in
    Medicine 27, 2008), which is too wide where both rise and fall together.
    """
    if not 0 < part.value < np.inf or whole.value <= 0:
        return Estimate(1.0, 0.0, np.inf)
    down = (
        np.inf if part.low <= 0 else np.hypot(np.log(part.value / part.low), np.log(whole.high / whole.value))
    )
    up = (
        np.inf
        if whole.low <= 0
        else np.hypot(np.log(part.high / part.value), np.log(whole.value / whole.low))
    )
    value = part.value / whole.value
    return Estimate(value, float(value * np.exp(-down)), float(value * np.exp(up)))
