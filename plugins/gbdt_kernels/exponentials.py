"""Exponentials in float32, to the last bit those of the C library that XGBoost calls."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel


@kernel
def _exponentials(x, out):
    for i in range(len(x)):
        out[i] = math.exp(x[i])


def exponentials(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """E to the power of each number; NumPy's own differ in the last bit for one number in some thousands."""
    flat = np.ascontiguousarray(x, dtype=np.float32).reshape(-1)
    out = np.empty_like(flat)
    _exponentials(flat, out)
    return out.reshape(x.shape)
