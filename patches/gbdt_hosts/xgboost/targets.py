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
    """Labels of rows, and what belongs to them."""

    label: Vector
    weight: Vector | None = None  # of rows, or of queries where there are any; 1 for all by default
    lower: Vector | None = None  # bounds of times, for ``survival:aft``
    upper: Vector | None = None
    query_sizes: NDArray[np.int64] | None = None  # rows of each, which follow each other
    base_margin: Vector | None = None  # (n_rows, n_classes), in place of the base score

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.label)

    def matrix(self, columns: Vector | None = None) -> xgboost.DMatrix:
        """A data set of all that XGBoost reads, by default of zeros; `ValueError` if it refuses it."""
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
