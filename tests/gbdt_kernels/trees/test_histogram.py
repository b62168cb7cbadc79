"""Histograms are exact sums, however the rows are ordered, divided and stored."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.trees import BinLayout, DenseCodes, level_histograms, segment_sums
from made_codes import SEEDS, Level

pytestmark = pytest.mark.usefixtures("tiny_blocks")


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, n_threads=st.integers(1, 4))
def test_dense_and_sparse_histograms_are_brute_force_sums(seed, n_threads):
    level = Level(seed)
    expected = level.brute()
    for matrix in level.matrices:
        histograms = level.histograms(matrix, n_threads=n_threads)
        assert histograms.dtype == np.int64
        np.testing.assert_array_equal(histograms, expected)


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, n_threads=st.integers(1, 4))
def test_subtraction_equals_building(seed, n_threads):
    level = Level(seed)
    expected = level.brute()
    for matrix in level.matrices:
        parents = (expected[::2] + expected[1::2]).astype(np.int64)
        histograms = level.histograms(matrix, parents=parents, n_threads=n_threads)
        np.testing.assert_array_equal(histograms, expected)


def test_only_the_smaller_child_is_read():
    level = Level(3)
    level.starts = np.array([0, 1, len(level.rows)])
    assert len(level.rows) > 2
    expected = level.brute()
    level.codes[level.rows[1:]] = 255
    histograms = level.histograms(
        DenseCodes(level.codes), parents=expected.sum(0, keepdims=True).astype(np.int64)
    )
    np.testing.assert_array_equal(histograms, expected)


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS)
def test_row_order_and_threads_do_not_matter(seed):
    level = Level(seed)
    nodes = np.split(level.rows, level.starts[1:-1])
    shuffled = np.concatenate([level.rng.permutation(node) for node in nodes])
    for matrix in level.matrices:
        one_thread = level.histograms(matrix, n_threads=1)
        np.testing.assert_array_equal(level.histograms(matrix, rows=shuffled, n_threads=4), one_thread)


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS)
def test_every_feature_holds_the_whole_node(seed):
    level = Level(seed)
    sums = segment_sums(level.rows, level.starts, level.gradient, level.weight)
    for matrix in level.matrices:
        per_feature = np.add.reduceat(level.histograms(matrix), level.layout.bin_offsets[:-1], axis=1)
        np.testing.assert_array_equal(per_feature, np.broadcast_to(sums[:, None], per_feature.shape))


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS)
def test_segment_sums_are_brute_force_sums(seed):
    level = Level(seed)
    nodes = np.split(level.rows, level.starts[1:-1])
    expected = [[x[node].astype(np.int64).sum() for x in (level.gradient, level.weight)] for node in nodes]
    sums = segment_sums(level.rows, level.starts, level.gradient, level.weight)
    np.testing.assert_array_equal(sums, expected)


def test_sums_beyond_32_bits():
    rows = np.arange(1000, dtype=np.int32)
    statistic = np.full(1000, 2**31 - 1, dtype=np.int32)
    layout = BinLayout(np.array([1]), np.array([False]), np.zeros((0, 2), bool))
    matrix = DenseCodes(np.zeros((1000, 1), dtype=np.uint8))
    histogram = level_histograms(matrix, rows, np.array([0, 1000]), -statistic, statistic, layout)[0]
    assert histogram.tolist() == [[-1000 * (2**31 - 1), 1000 * (2**31 - 1)], [0, 0]]
