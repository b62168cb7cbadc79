"""Nodes that decide nothing are left out of the written tree, and every row keeps its value."""

from itertools import product

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lgb_dp
from growers import kept_scores
from lgb_dp.boosting import tree as writer
from lgb_dp.boosting.tree import PrivateTree, to_lightgbm
from small_training import binary_data, dataset, field, leaf_values

N_BINS = (3, 2, 4)


@pytest.fixture(scope="module", autouse=True)
def _small_trees_too():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "MIN_NODES_TO_LEAVE_OUT", 1)
        yield


@pytest.fixture(scope="module")
def bins():
    X = np.zeros((2, 3))
    return (
        lgb_dp.Dataset(X, [0, 1], bin_edges={0: [1.5, 2.5], 1: [1.5]}, categories={2: range(4)})
        .construct()
        .bins
    )


def drawn_tree(seed, depth, n_values):
    rng = np.random.default_rng(seed)
    n = 2**depth - 1
    feature = rng.integers(0, 3, n).astype(np.int32)
    threshold = rng.integers(0, np.array(N_BINS)[feature] - 1)
    goes_left = (np.arange(256) <= threshold[:, None]).astype(np.uint8)
    goes_left[np.arange(n), np.array(N_BINS)[feature]] = rng.integers(0, 2, n)
    categorical = feature == 2
    goes_left[categorical] = rng.integers(0, 2, (categorical.sum(), 256)) & (np.arange(256) < 4)
    goes_left[categorical, rng.integers(0, 4)] = 1
    value = rng.integers(0, n_values, n + 1) * 0.25
    return PrivateTree(feature, goes_left, value, np.ones(n + 1, dtype=np.int64), 0.1)


def walked(tree, codes):
    node, n = 0, len(tree.feature)
    while node < n:
        node = 2 * node + (1 if tree.goes_left[node, codes[tree.feature[node]]] else 2)
    return tree.leaf_value[node - n]


def goes_left(tree, node, value):
    if tree.left_categories[node] is not None:
        return value in tree.left_categories[node]
    return bool(tree.missing_left[node]) if np.isnan(value) else value <= tree.threshold[node]


def walked_written(tree, row):
    node = 0
    while node >= 0:
        left = goes_left(tree, node, row[tree.feature[node]])
        node = int((tree.left_child if left else tree.right_child)[node])
    return tree.leaf_value[~node]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 6), n_values=st.integers(1, 5))
def test_every_row_keeps_its_value(bins, seed, depth, n_values):
    tree = drawn_tree(seed, depth, n_values)
    (written,) = to_lightgbm([tree], bins)
    values = [[1.0, 2.0, 3.0, np.nan], [1.0, 2.0, np.nan], [0.0, 1.0, 2.0, 3.0, np.nan]]
    codes = [range(4), range(3), range(5)]
    for row, code in zip(product(*values), product(*codes), strict=True):
        assert walked_written(written, row) == walked(tree, code)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 6))
def test_numbers_are_those_of_a_tree(bins, seed, depth):
    (written,) = to_lightgbm([drawn_tree(seed, depth, 2)], bins)
    children = np.concatenate([written.left_child, written.right_child])
    assert sorted(children[children >= 0]) == list(range(1, len(written.feature)))
    assert sorted(~children[children < 0]) == list(range(len(written.leaf_value)))
    for parent, child in enumerate(written.left_child):
        assert child < 0 or child > parent
    leaves = written.leaf_count.sum()
    assert 1 <= leaves <= 2**depth
    assert written.internal_count[0] == leaves
    assert (written.leaf_count >= 1).all()


def test_nothing_is_left_to_fold(bins):
    tree = drawn_tree(3, 5, 1)
    (written,) = to_lightgbm([tree], bins)
    assert len(written.leaf_value) == 2
    for seed in range(30):
        (written,) = to_lightgbm([drawn_tree(seed, 5, 2)], bins)
        left, right = written.left_child, written.right_child
        both = (left < 0) & (right < 0)
        both[0] = False
        assert (written.leaf_value[~left[both]] != written.leaf_value[~right[both]]).all()


def test_complete_trees_stay_as_they_are(bins):
    feature = np.array([0, 1, 1], dtype=np.int32)
    goes_left = (np.arange(256) < 1)[None].repeat(3, axis=0).astype(np.uint8)
    tree = PrivateTree(feature, goes_left, np.arange(4.0), np.arange(1, 5), 0.1)
    (written,) = to_lightgbm([tree], bins)
    assert written.left_child.tolist() == [1, -1, -3]
    assert written.right_child.tolist() == [2, -2, -4]
    assert written.leaf_value.tolist() == [0, 1, 2, 3]
    assert written.leaf_count.tolist() == [1, 2, 3, 4]


def test_a_deep_model_predicts_what_training_added_up():
    X, y = binary_data(n=600)
    data = dataset(X, y, public=True)
    booster = lgb.train(
        {"objective": "binary", "max_depth": 7, "verbosity": -1},
        data,
        4,
        callbacks=[lgb_dp.NewtonBoost(1.0, 1e-4)],
        keep_training_booster=True,
    )
    n_leaves = field(booster, "num_leaves", 3)[0]
    assert 2 <= n_leaves < 128
    assert len(leaf_values(booster, 3)) == n_leaves
    expected = kept_scores(booster, data)[:, 0]
    np.testing.assert_array_equal(booster.predict(X, raw_score=True), expected)
