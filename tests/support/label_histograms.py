"""Counts of labels."""

import numpy as np
from hypothesis import strategies as st

numbers = st.one_of(
    st.floats(-40, 40), st.sampled_from([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308, -1e308, 5e-324, 1e-9])
)
