"""The rows that an estimator is given, as `lgb_dp.Dataset` takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lgb_dp.checks import checked_numbers


def as_matrix(X: Any) -> Any:
    """`X`, as an array of numbers if it is a list or an array of something else."""
    is_other_array = isinstance(X, np.ndarray) and X.dtype.kind not in "biuf"
    return checked_numbers("X", X) if isinstance(X, (list, tuple)) or is_other_array else X
