"""Rows reach the leaves that a walk in Python reaches, however the codes are stored."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from complete_trees import Forest
from gbdt_kernels.trees import DenseCodes, by_columns


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    depth=st.integers(1, 10),
    as_thresholds=st.booleans(),
    cut=st.integers(0, 30),
)
def test_leaves_are_those_of_a_walk(seed, depth, as_thresholds, cut):
    forest = Forest(seed, depth, 1)
    rng = np.random.default_rng(seed)
    if as_thresholds:
        threshold = rng.integers(-1, 256, forest.goes_left.shape[:2])
        other = rng.integers(0, 256, threshold.shape)
        codes = np.arange(256)
        below = codes <= threshold[..., None]
        forest.goes_left[:] = below | (
            (codes == other[..., None]) & rng.integers(0, 2, (*threshold.shape, 1))
        )
    n_rows = len(forest.codes)
    expected = [forest.leaf(row, 0) for row in range(n_rows)]
    for matrix in forest.matrices:
        leaf = np.full(n_rows, 999, dtype=np.uint16)
        columns = by_columns(matrix)
        for first, last in ((0, min(cut, n_rows)), (min(cut, n_rows), n_rows)):
            columns.leaves(forest.feature[0], forest.goes_left[0], first, last, leaf)
        assert leaf.tolist() == expected


@pytest.mark.parametrize("depth", [1, 5, 8, 11])
@pytest.mark.parametrize("n_codes", [1, 2, 7, 256])
def test_rows_beyond_one_block(depth, n_codes):
    rng = np.random.default_rng(depth)
    forest = Forest(3, depth, 1)
    drawn = rng.choice(256, n_codes, replace=False)
    forest.codes = drawn[rng.integers(0, n_codes, (1500, forest.codes.shape[1]))].astype(np.uint8)
    leaf = np.zeros(1500, dtype=np.uint16)
    columns = by_columns(DenseCodes(forest.codes), n_threads=2)
    for first, last in pairwise([0, 3, 512, 700, 1500]):
        columns.leaves(forest.feature[0], forest.goes_left[0], first, last, leaf)
    assert leaf.tolist() == [forest.leaf(row, 0) for row in range(1500)]
