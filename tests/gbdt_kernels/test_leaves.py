"""Rows reach the leaves that a walk in Python reaches, however the codes are stored."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from complete_trees import Forest
from gbdt_kernels.trees import DenseCodes, by_columns
from gbdt_kernels.trees.leaves import _threshold_of


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    depth=st.integers(1, 8),
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


def test_rows_beyond_one_block():
    rng = np.random.default_rng(0)
    forest = Forest(3, 5, 1)
    forest.codes = rng.integers(0, 256, (5000, forest.codes.shape[1])).astype(np.uint8)
    leaf = np.zeros(5000, dtype=np.uint16)
    columns = by_columns(DenseCodes(forest.codes))
    columns.leaves(forest.feature[0], forest.goes_left[0], 0, 5000, leaf)
    assert leaf.tolist() == [forest.leaf(row, 0) for row in range(5000)]


@pytest.mark.parametrize(
    ("left", "found"),
    [
        (range(5), (4, 4)),
        ([0, 1, 2, 9], (2, 9)),
        (range(256), (255, 255)),
        ([], (-1, -1)),
        ([3], (-1, 3)),
        ([0, 5, 7], (-1, 0)),
    ],
)
def test_thresholds_are_recognised(left, found):
    table = np.zeros(256, dtype=np.uint8)
    table[list(left)] = 1
    assert _threshold_of(table) == found
