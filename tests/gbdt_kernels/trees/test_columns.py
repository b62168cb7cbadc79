"""Codes by columns, and the weights of each bin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.trees import by_columns, feature_counts
from made_codes import SEEDS, Level

pytestmark = pytest.mark.usefixtures("tiny_blocks")


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, n_threads=st.integers(1, 4))
def test_feature_counts_are_the_weights_of_each_bin(seed, n_threads):
    level = Level(seed)
    expected = np.zeros(level.layout.n_total_bins, dtype=object)
    for row, weight in zip(level.codes, level.weight, strict=True):
        expected[level.layout.bin_offsets[:-1] + row] += int(weight)
    for matrix in level.matrices:
        found = feature_counts(by_columns(matrix), level.weight, level.layout.bin_offsets, n_threads)
        np.testing.assert_array_equal(found, expected)
