"""Agreed moments and hash functions of SimFL, and the number of hashes that keeps Definition 1 of the paper.

Theorem 1 of Li et al. (2020) counts linear equations: L hashes of a row with d unknown features have
infinitely many solutions if L < d.  Here each party also gives away the mean and the variance of its columns,
two equations per column, so that the count is taken for its n rows together: L·n + 2d equations for n·d
unknowns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import ndtri

from gbdt_kernels.similarity.stable_hashing import stable_hashes
from xgb_fed.ciphers.randomness import SecretStream

MIN_ROWS = 3
"""Fewest values whose moments are sent: those of one or two values give the values away."""

PAPER_HASHES = 40
"""L = min(40, d − 1) in the paper's experiments."""

PAPER_WINDOW = 4.0
"""r in the paper's experiments."""

TIE_DRAWS = 16
"""Number of draws among the rows that are equally similar to a row; turns go through them one by one."""

MAX_STD_RATIO = 4.0
"""Largest factor between the std of a column at one party and its std over all parties."""

MAX_MEAN_SHIFT = 4.0
"""Largest distance between a column's means, in stds of the party's own."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Counts, means and sums of squared deviations of columns, without missing values."""

    count: Doubles
    mean: Doubles
    squares: Doubles

    @classmethod
    def of(cls, X: Any) -> Moments:
        """Compute the moments of a matrix, in which entries that a sparse matrix does not store are zeros.

        Columns with fewer than `MIN_ROWS` values are left out: their count is 0.
        """
        if scipy.sparse.issparse(X):
            n_rows, n_features = X.shape
            there = ~np.isnan(X.data)
            columns, values = X.indices[there], X.data[there].astype(np.float64)
            missing = np.bincount(X.indices[~there], minlength=n_features)
            count = (n_rows - missing).astype(np.float64)
            mean = np.bincount(columns, values, n_features) / np.maximum(count, 1)
            unstored = count - np.bincount(columns, minlength=n_features)
            squares = np.bincount(columns, (values - mean[columns]) ** 2, n_features) + unstored * mean**2
        else:
            count = np.zeros(X.shape[1])
            mean, squares = count.copy(), count.copy()
            for f in range(X.shape[1]):
                values = X[:, f].astype(np.float64)
                values = values[~np.isnan(values)]
                count[f] = len(values)
                if len(values):
                    mean[f] = values.mean()
                    squares[f] = ((values - mean[f]) ** 2).sum()
        told = count >= MIN_ROWS
        return cls(count * told, mean * told, squares * told)

    @classmethod
    def pooled(cls, parts: Sequence[Moments]) -> Moments:
        """Moments of all rows (Chan, Golub and LeVeque, 1979)."""
        count = np.sum([part.count for part in parts], axis=0)
        mean = np.sum([part.count * part.mean for part in parts], axis=0) / np.maximum(count, 1)
        squares = np.sum([part.squares + part.count * (part.mean - mean) ** 2 for part in parts], axis=0)
        return cls(count, mean, squares)

    @property
    def std(self) -> Doubles:
        """Standard deviation of each column; 0 for columns without values."""
        return np.asarray(np.sqrt(self.squares / np.maximum(self.count, 1)))

    def accepts(self, mean: Doubles, std: Doubles) -> NDArray[np.bool_]:
        """Whether other moments of each column may be those of rows like these; not of constant columns.

        A column's std may differ from the own one by a factor of up to `MAX_STD_RATIO`, and its mean by up to
        `MAX_MEAN_SHIFT` own stds.  A std far below the own one would make hashes read the column out; one far
        above would remove the column from the hashes while it still counts as an unknown.
        """
        own = self.std
        fits = (std >= own / MAX_STD_RATIO) & (std <= own * MAX_STD_RATIO)
        return fits & (np.abs(mean - self.mean) <= MAX_MEAN_SHIFT * own) & (own > 0)


def typical_distance(std: Doubles) -> float:
    """Root mean square distance of two independent standardised rows: √(2d) for d columns that vary.

    Standardised values have variance 1, so the difference of two has variance 2.  With this window, the
    fraction of hashes in which two such rows agree is the same for every d (it depends on distance / r alone;
    Datar et al., 2004), so that there are many ties and slabs are wide.  The paper's fixed r = 4 is the same
    at d = 8.  Columns of all parties' rows with a standard deviation of 0 do not count.
    """
    return float(np.sqrt(2 * max(1, int(np.count_nonzero(std)))))


def raw_scale(n_features: int) -> tuple[Doubles, Doubles]:
    """Mean and std by which the window of `typical_distance` is the paper's r = 4 on rows as they are."""
    ones = np.ones(n_features)
    return 0 * ones, ones * PAPER_WINDOW / typical_distance(ones)


def max_hashes(n_rows: int, n_unknown: int) -> int:
    """Compute how many hashes of each row Definition 1 allows; 0 or less means none.

    For n rows of d unknown features, which are hashed and meant to stay secret, the conditions are L < d
    (Theorem 1) and L·n + 2d < n·d.  Hashes and moments are then fewer equations than unknowns, so that they
    have infinitely many solutions.
    """
    return min(n_unknown - 1, (n_unknown * (n_rows - 2) - 1) // n_rows)


def hash_rows(
    X: Any, mean: Doubles, std: Doubles, seed: bytes, n_hashes: int, window: float, n_threads: int = 0
) -> NDArray[np.int32]:
    """Hash standardised rows by functions drawn from a seed of 32 bytes, the same for every party.

    Gives int32 of shape (n_rows, n_hashes). The first functions of a seed are the same however many are asked
    for: more hashes by one seed are the earlier ones and some more, and a party counts them so. Missing
    values count as the mean, and unstored entries of a sparse matrix as zeros. All parties have agreed on
    `mean` and `std`; columns with a std of 0 do not count. `window` is the width r of a slab, in standard
    deviations; 0 threads are all available processors.
    """
    words = SecretStream(seed).words(n_hashes, len(mean) + 1).T
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    inverse = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)
    directions = np.ascontiguousarray(ndtri(uniform[:-1]) * inverse[:, None])
    return stable_hashes(X, mean, directions, uniform[-1] * window, window, n_threads)
