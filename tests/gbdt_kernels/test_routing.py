"""Rows reach the children and leaves that a walk in Python reaches."""

import numpy as np
import pytest
from gbdt_kernels import DenseCodes, SparseCodes, add_trees, partition_level
from gbdt_kernels.layout import offsets
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("tiny_blocks")

SEEDS = st.integers(0, 2**32 - 1)


class Forest:
    """Random complete trees over random codes of all 256 values."""

    def __init__(self, seed, depth, n_trees):
        rng = np.random.default_rng(seed)
        n_rows, n_features = int(rng.integers(0, 30)), int(rng.integers(1, 5))
        zero_codes = rng.integers(0, 256, n_features).astype(np.uint8)
        codes = rng.integers(0, 256, (n_rows, n_features)).astype(np.uint8)
        self.codes = np.where(rng.random(codes.shape) < rng.random(), zero_codes, codes)
        entry_rows, indices = np.nonzero((self.codes != zero_codes) | (rng.random(codes.shape) < 0.2))
        indptr = offsets(np.bincount(entry_rows, minlength=n_rows))
        entries = self.codes[entry_rows, indices]
        self.matrices = [
            DenseCodes(self.codes),
            SparseCodes(indptr, indices.astype(np.int32), entries, zero_codes),
        ]
        n_nodes = 2**depth - 1
        self.feature = rng.integers(0, n_features, (n_trees, n_nodes)).astype(np.int32)
        self.goes_left = rng.integers(0, 2, (n_trees, n_nodes, 256)).astype(np.uint8)
        self.leaf_value = rng.normal(size=(n_trees, 2**depth))
        self.score = rng.normal(size=n_rows)
        self.rows = rng.permutation(n_rows)[: rng.integers(0, n_rows + 1)].astype(np.int32)

    def leaf(self, row, tree):
        node, n_nodes = 0, self.feature.shape[1]
        while node < n_nodes:
            left = self.goes_left[tree, node, self.codes[row, self.feature[tree, node]]]
            node = 2 * node + (1 if left else 2)
        return node - n_nodes

    def add(self, matrix, n_threads=1):
        score = self.score.copy()
        add_trees(matrix, self.feature, self.goes_left, self.leaf_value, score, n_threads)
        return score


@settings(max_examples=80, deadline=None)
@given(seed=SEEDS, depth=st.integers(0, 4), n_trees=st.integers(0, 4), n_threads=st.integers(1, 4))
def test_scores_are_those_of_a_walk(seed, depth, n_trees, n_threads):
    forest = Forest(seed, depth, n_trees)
    expected = forest.score.copy()
    for row in range(len(expected)):
        for tree in range(n_trees):
            expected[row] += forest.leaf_value[tree, forest.leaf(row, tree)]
    for matrix in forest.matrices:
        np.testing.assert_array_equal(forest.add(matrix, n_threads), expected)


@settings(max_examples=80, deadline=None)
@given(seed=SEEDS, depth=st.integers(0, 4))
def test_partition_by_levels_ends_in_the_leaves_of_add_trees(seed, depth):
    forest = Forest(seed, depth, 1)
    forest.leaf_value[0] = np.arange(2**depth)
    forest.score[:] = 0
    for matrix in forest.matrices:
        rows, starts = forest.rows, np.array([0, len(forest.rows)])
        for level in range(depth):
            nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
            rows, starts = partition_level(
                matrix, rows, starts, forest.feature[0, nodes], forest.goes_left[0, nodes]
            )
        assert rows.dtype == np.int32
        leaf_of_place = np.repeat(np.arange(2**depth), np.diff(starts))
        np.testing.assert_array_equal(forest.add(matrix)[rows], leaf_of_place)
        np.testing.assert_array_equal(np.sort(rows), np.sort(forest.rows))


@settings(max_examples=80, deadline=None)
@given(seed=SEEDS)
def test_partition_keeps_the_order_of_rows(seed):
    forest = Forest(seed, 2, 1)
    cut = len(forest.rows) // 3
    starts = np.array([0, cut, cut, len(forest.rows)])
    expected_rows, expected_starts = [], [0]
    for node in range(3):
        rows = forest.rows[starts[node] : starts[node + 1]].tolist()
        left = forest.goes_left[0, node]
        for side in (1, 0):
            expected_rows += [r for r in rows if left[forest.codes[r, forest.feature[0, node]]] == side]
            expected_starts.append(len(expected_rows))
    for matrix in forest.matrices:
        rows, child_starts = partition_level(
            matrix, forest.rows, starts, forest.feature[0], forest.goes_left[0]
        )
        assert rows.tolist() == expected_rows
        assert child_starts.tolist() == expected_starts


def test_partition_leaves_its_input_alone():
    forest = Forest(7, 1, 1)
    before = forest.rows.copy()
    starts = np.array([0, len(before)])
    partition_level(forest.matrices[0], forest.rows, starts, forest.feature[0], forest.goes_left[0])
    np.testing.assert_array_equal(forest.rows, before)


def test_values_are_added_tree_after_tree():
    values = np.array([[1e16], [1.0], [-1e16], [1.0]])
    matrix = DenseCodes(np.zeros((1, 1), dtype=np.uint8))
    score = np.zeros(1)
    add_trees(matrix, np.zeros((4, 0), np.int32), np.zeros((4, 0, 256), np.uint8), values, score)
    assert score.tolist() == [1.0]
