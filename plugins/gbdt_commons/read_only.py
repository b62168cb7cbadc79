"""Arrays that are handed out, or kept for later, and that cannot be written into by accident."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Scalar = TypeVar("_Scalar", bound=np.generic)


def read_only(values: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """The same numbers in an array that refuses to be written into.

    It is a view: a holder of `values` itself can still write there, so what is to stay as it is must be a
    copy of one's own.
    """
    view: NDArray[Any] = values.view()
    view.flags.writeable = False
    return view
