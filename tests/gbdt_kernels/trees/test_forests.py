"""What a forest takes, and that its sums do not depend on blocks and threads."""

from dataclasses import replace

import numpy as np
import pytest

from gbdt_kernels.trees import NodeLists, plant


def stumps(n_trees=1, **changed):
    """Trees of two leaves on one feature."""
    lists = NodeLists(
        n_leaves=np.full(n_trees, 2),
        feature=np.zeros(n_trees, dtype=np.int64),
        threshold=np.arange(n_trees, dtype=np.float64),
        missing_left=np.zeros(n_trees, dtype=np.bool_),
        left_child=np.full(n_trees, -1),
        right_child=np.full(n_trees, -2),
        category_set=np.full(n_trees, -1),
        set_words=np.zeros(0, dtype=np.uint32),
        set_offsets=np.zeros(1, dtype=np.int64),
        leaf_value=np.tile([0.1, 0.2], n_trees),
    )
    return replace(lists, **changed)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_every_row_of_every_block_gets_its_own_sum(n_threads):
    x = np.random.default_rng(0).integers(-1, 9, 5000).astype(float)
    scores = plant(stumps(8)).scores(x[:, None], 2, 8, 2, n_threads)
    expected = np.zeros((len(x), 2))
    for tree in range(2, 8):
        expected[:, tree % 2] += np.where(x <= tree, 0.1, 0.2)
    np.testing.assert_array_equal(scores, expected)


def test_no_trees_and_no_rows():
    assert plant(stumps()).scores(np.zeros((3, 1)), 1, 1).tolist() == [[0.0]] * 3
    assert plant(stumps()).scores(np.zeros((0, 1)), 0, 1).shape == (0, 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"threshold": np.array([np.nan, 1.0])},
        {
            "category_set": np.array([-1, 0]),
            "set_words": np.ones(1, np.uint32),
            "set_offsets": np.array([0, 1]),
        },
        {"right_child": np.array([-2, 0])},
        {"right_child": np.array([-2, -3])},
        {"left_child": np.array([1, -1])},
    ],
    ids=["NaN", "number and category", "circle", "no such leaf", "no such split"],
)
def test_what_a_forest_does_not_take(changed):
    assert plant(stumps(2, **changed)) is None


def test_a_column_with_too_many_thresholds():
    assert plant(stumps(2**16 - 3)) is not None
    assert plant(stumps(2**16)) is None
