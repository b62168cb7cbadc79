"""Agreed moments and hash functions of SimFL, and how many hashes keep Definition 1 (Li et al., 2020).

Theorem 1 counts linear equations: L hashes of a row with d unknown features have infinitely many solutions if
L < d.  Here each party also gives away the mean and the variance of its columns, two equations per column, so
that the count is taken for its n rows together: L·n + 2d equations for n·d unknowns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from gbdt_kernels.similarity.stable_hashing import stable_hashes
from numpy.typing import NDArray
from scipy.special import ndtri

from xgb_fed.ciphers.randomness import SecretStream

MIN_ROWS = 3
"""The mean of one value is the value; mean and variance of two are the two."""

PAPER_HASHES = 40
"""L = min(40, d − 1) in the paper's experiments."""

TIE_DRAWS = 16
"""Times that the most similar of a row's equally similar rows is drawn; trees go through them in turn."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Counts, means and sums of squared deviations of columns, without missing values.

    Attributes
    ----------
    count, mean, squares : ndarray of float64, shape (n_features,)
    """

    count: Doubles
    mean: Doubles
    squares: Doubles

    @classmethod
    def of(cls, X: Any) -> Moments:
        """Those of a matrix; entries that a sparse one does not store are zeros.

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
        """Standard deviation of each column; 0 where nothing is known."""
        return np.asarray(np.sqrt(self.squares / np.maximum(self.count, 1)))

    @property
    def n_varying(self) -> int:
        """Columns whose values these moments do not give away: those that are not constant."""
        return int((self.squares > 0).sum())


def typical_distance(std: Doubles) -> float:
    """Root mean square distance of two independent standardised rows: √(2d) for d columns that vary.

    Standardised values have variance 1, so the difference of two has variance 2.  As the window of the hashes
    it makes the share of hashes in which two such rows agree the same for every d (Datar et al., 2004, give
    it as a function of distance / r alone): ties stay many and slabs wide.  The paper's fixed r = 4, on
    features as they come, is the same at d = 8.

    Parameters
    ----------
    std : ndarray of float64, shape (n_features,)
        Of all parties' rows; 0 for columns that do not count.
    """
    return float(np.sqrt(2 * max(1, int(np.count_nonzero(std)))))


def max_hashes(n_rows: int, n_unknown: int) -> int:
    """The most hashes a party's rows can have under Definition 1; 0 or less means none.

    For n rows of d unknown features, L < d (Theorem 1) and L·n + 2d < n·d: hashes and moments are then fewer
    equations than unknowns and, where there is one solution, leave a family of them.

    Parameters
    ----------
    n_rows : int
    n_unknown : int
        Features that vary within the party and that nobody else is supposed to know.
    """
    return min(n_unknown - 1, (n_unknown * (n_rows - 2) - 1) // n_rows)


def hash_rows(
    X: Any, mean: Doubles, std: Doubles, seed: bytes, n_hashes: int, window: float, n_threads: int = 0
) -> NDArray[np.int32]:
    """Hashes of standardised rows by functions drawn from a seed, the same for every party.

    Missing values count as the mean, unstored entries of a sparse matrix as zeros; columns that are constant
    over all parties do not count.

    Parameters
    ----------
    X : ndarray of float32, shape (n_rows, n_features), or CSR matrix
    mean, std : ndarray of float64, shape (n_features,)
        Agreed by all parties.
    seed : bytes
        32 bytes.
    n_hashes : int
    window : float
        Width r of a slab, in standard deviations.
    n_threads : int
        0 means all.

    Returns
    -------
    ndarray of int32, shape (n_rows, n_hashes)
    """
    words = SecretStream(seed).words(len(mean) + 1, n_hashes)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    inverse = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)
    directions = np.ascontiguousarray(ndtri(uniform[:-1]) * inverse[:, None])
    return stable_hashes(X, mean, directions, uniform[-1] * window, window, n_threads)
