"""Gradients on their scale of integers."""

import numpy as np
from hypothesis import strategies as st

from xgb_fed.vertical.growing.gradients import FixedPointGradients
from xgb_fed.vertical.protocol.packing import packing_for

LIMIT = 1 << 2047
ANY = st.floats(width=32, allow_nan=False, allow_infinity=False)
CLOSE = st.floats(-1, 1, width=16)


@st.composite
def gradients(draw, values=ANY | CLOSE):
    """g and h of some rows and classes, from the smallest float32 to the largest."""
    shape = (draw(st.integers(1, 12)), draw(st.integers(1, 3)))
    size = shape[0] * shape[1]
    g = draw(st.lists(values, min_size=size, max_size=size))
    h = draw(st.lists(values, min_size=size, max_size=size))
    return np.array(g).reshape(shape), np.abs(np.array(h)).reshape(shape)


def scaled(g, h):
    return FixedPointGradients.scaled(g, h, packing_for(*g.shape, LIMIT))
