"""Histograms are exact sums, however the rows are ordered, divided and stored."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.trees import (
    BinLayout,
    DenseCodes,
    SparseCodes,
    by_columns,
    feature_counts,
    level_histograms,
    segment_sums,
)
from gbdt_kernels.trees.layout import offsets

pytestmark = pytest.mark.usefixtures("tiny_blocks")

SEEDS = st.integers(0, 2**32 - 1)


class Level:
    """Random binned rows, some of them in the nodes of a level of four nodes."""

    def __init__(self, seed, n_nodes=4):
        rng = np.random.default_rng(seed)
        n_rows, n_features = int(rng.integers(0, 40)), int(rng.integers(1, 5))
        n_bins = rng.integers(1, 6, n_features)
        self.layout = BinLayout(
            n_bins, np.zeros(n_features, bool), np.zeros((0, int((n_bins + 1).sum())), bool)
        )
        zero_codes = rng.integers(0, n_bins + 1).astype(np.uint8)
        codes = rng.integers(0, n_bins + 1, (n_rows, n_features)).astype(np.uint8)
        self.codes = np.where(rng.random(codes.shape) < rng.random(), zero_codes, codes)
        stored = (self.codes != zero_codes) | (rng.random(codes.shape) < 0.2)
        entry_rows, indices = np.nonzero(stored)
        indptr = offsets(np.bincount(entry_rows, minlength=n_rows))
        entries = self.codes[entry_rows, indices]
        self.matrices = [
            DenseCodes(self.codes),
            SparseCodes(indptr, indices.astype(np.int32), entries, zero_codes),
        ]
        self.gradient = rng.integers(-(2**31), 2**31, n_rows).astype(np.int32)
        self.weight = rng.integers(0, 2**31, n_rows).astype(np.int32)
        self.rows = rng.permutation(n_rows)[: rng.integers(0, n_rows + 1)].astype(np.int32)
        cuts = np.sort(rng.integers(0, len(self.rows) + 1, n_nodes - 1))
        self.starts = np.concatenate([[0], cuts, [len(self.rows)]]).astype(np.int64)
        self.rng = rng

    def histograms(self, matrix, rows=None, parents=None, n_threads=0):
        rows = self.rows if rows is None else rows
        statistics = self.gradient, self.weight
        return level_histograms(matrix, rows, self.starts, *statistics, self.layout, parents, n_threads)

    def brute(self):
        out = np.zeros((len(self.starts) - 1, self.layout.n_total_bins, 2), dtype=object)
        for node in range(len(out)):
            for row in self.rows[self.starts[node] : self.starts[node + 1]]:
                for f, code in enumerate(self.codes[row]):
                    place = self.layout.bin_offsets[f] + code
                    out[node, place] += [int(self.gradient[row]), int(self.weight[row])]
        return out


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
