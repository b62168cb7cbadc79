"""Routing rows that are not binned."""

import numpy as np
import pytest
import scipy.sparse

from gbdt_kernels.trees.raw_trees import RawTree, leaf_values


def drawn_tree(random, n_features, depth):
    left, right, feature, condition, default_left = [], [], [], [], []

    def grow(level):
        node = len(left)
        for part in (left, right):
            part.append(-1)
        feature.append(int(random.integers(n_features)))
        condition.append(random.standard_normal())
        default_left.append(bool(random.integers(2)))
        if level < depth and random.random() < 0.9:
            left[node] = grow(level + 1)
            right[node] = grow(level + 1)
        return node

    grow(0)
    kinds = (np.int32, np.int32, np.int32, np.float32, np.bool_)
    parts = (left, right, feature, condition, default_left)
    return RawTree(*(np.array(p, dtype=k) for p, k in zip(parts, kinds, strict=True)))


def by_hand(row, tree):
    node = 0
    while tree.left[node] >= 0:
        value = row[tree.feature[node]]
        goes_left = tree.default_left[node] if np.isnan(value) else value < tree.condition[node]
        node = tree.left[node] if goes_left else tree.right[node]
    return tree.condition[node]


@pytest.mark.parametrize("depth", [0, 1, 6])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_dense_and_sparse_rows_reach_the_leaf_found_by_hand(depth, n_threads):
    random = np.random.default_rng(depth)
    stored = random.random((700, 9)) < 0.6
    X = np.where(stored, random.standard_normal((700, 9)), np.nan).astype(np.float32)
    tree = drawn_tree(random, 9, depth)
    X[:50, 0] = tree.condition[0]
    expected = [by_hand(row, tree) for row in X]
    assert np.array_equal(leaf_values(X, tree, n_threads), expected)
    places = ~np.isnan(X)
    sparse = scipy.sparse.csr_matrix(
        (X[places], np.nonzero(places)[1], np.concatenate([[0], places.sum(axis=1).cumsum()])), shape=X.shape
    )
    assert np.array_equal(leaf_values(sparse, tree, n_threads), expected)
