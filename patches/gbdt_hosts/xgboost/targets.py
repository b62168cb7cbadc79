"""Row data that XGBoost receives besides the columns: labels, bounds, weights, queries, margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Targets:
    """Labels of rows, and what belongs to them.

    Parameters
    ----------
    label : ndarray of float32, shape (n_rows,)
    weight : ndarray of float32, shape (n_rows,), or (n_queries,) where there are queries
        1 for all by default.
    lower, upper : ndarray of float32, shape (n_rows,), optional
        Bounds of times, for ``survival:aft``.
    query_sizes : ndarray of int, shape (n_queries,), optional
        Rows of each query, for ranking; rows of a query follow each other.
    base_margin : ndarray of float32, shape (n_rows, n_classes), optional
        Margins before the first tree, in place of the base score.
    """

    label: Vector
    weight: Vector | None = None
    lower: Vector | None = None
    upper: Vector | None = None
    query_sizes: NDArray[np.int64] | None = None
    base_margin: Vector | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.label)

    def matrix(self, columns: Vector | None = None) -> xgboost.DMatrix:
        """Make a data set that XGBoost reads all of it from.

        Parameters
        ----------
        columns : ndarray of float32, shape (n_rows, n_columns), optional
            One column of zeros by default.

        Raises
        ------
        ValueError
            If XGBoost refuses a label, bound, weight or margin.
        """
        if columns is None:
            columns = np.zeros((self.n_rows, 1), dtype=np.float32)
        data = xgboost.DMatrix(columns, label=self.label, nthread=1)
        info: dict[str, Any] = {
            "group": self.query_sizes,
            "weight": self.weight,
            "label_lower_bound": self.lower,
            "label_upper_bound": self.upper,
            "base_margin": self.base_margin,
        }
        data.set_info(**{name: value for name, value in info.items() if value is not None})
        return data
