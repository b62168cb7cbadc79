"""Rows reach the children and leaves that a walk in Python reaches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from complete_trees import Forest
from gbdt_kernels.trees import DenseCodes, add_trees, partition_level

pytestmark = pytest.mark.usefixtures("tiny_blocks")

SEEDS = st.integers(0, 2**32 - 1)


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
