"""Tree SHAP from covers and directions, against Shapley's definition and against XGBoost."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
import xgboost

from gbdt_kernels.trees.contributions import CoverTree, add_contributions, expected_values
from native_trees import read_trees

N_COLUMNS = 4


def drawn_tree(random, depth, n_outputs=1, cover_of=lambda random: random.random()):
    """A tree on few columns, so that paths meet the same column more than once."""
    left, right, column, cover = [], [], [], []

    def grow(level, own):
        node = len(left)
        left.append(-1)
        right.append(-1)
        column.append(int(random.integers(N_COLUMNS)))
        cover.append(own)
        if level < depth and (level < 2 or random.random() < 0.8):
            part = cover_of(random)
            left[node] = grow(level + 1, own * part)
            right[node] = grow(level + 1, own * (1 - part))
        return node

    grow(0, 50.0)
    n = len(left)
    return CoverTree(
        np.array(left, dtype=np.int32),
        np.array(right, dtype=np.int32),
        np.arange(n, dtype=np.int32)[::-1].copy(),
        np.array(column, dtype=np.int32) + 7,
        np.array(column, dtype=np.int32),
        np.array(cover),
        np.where(np.array(left)[:, None] < 0, random.standard_normal((n, n_outputs)), 0.0),
    )


def worth(tree, goes_left, coalition, node=0):
    """Output of a tree if the columns of a coalition are known."""
    if tree.left[node] < 0:
        return tree.value[node]
    children = (tree.left[node], tree.right[node])
    if tree.column[node] in coalition:
        return worth(tree, goes_left, coalition, children[0 if goes_left[tree.split[node]] else 1])
    total = tree.cover[node]
    parts = [tree.cover[child] / total if total else 0.0 for child in children]
    return sum(p * worth(tree, goes_left, coalition, child) for p, child in zip(parts, children, strict=True))


def by_definition(tree, goes_left):
    phi = np.zeros((tree.value.shape[1], N_COLUMNS))
    for column in range(N_COLUMNS):
        others = [c for c in range(N_COLUMNS) if c != column]
        for size in range(N_COLUMNS):
            weight = factorial(size) * factorial(N_COLUMNS - size - 1) / factorial(N_COLUMNS)
            for coalition in combinations(others, size):
                gain = worth(tree, goes_left, {*coalition, column}) - worth(tree, goes_left, coalition)
                phi[:, column] += weight * gain
    return phi


def sides_of(random, tree, n_rows):
    flags = random.random((len(tree.left), n_rows)) < 0.5
    return flags, np.packbits(flags, axis=1)


@pytest.mark.parametrize("depth", [0, 1, 2, 5])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_contributions_are_shapley_values(depth, n_outputs):
    random = np.random.default_rng(depth)
    tree = drawn_tree(random, depth, n_outputs)
    flags, sides = sides_of(random, tree, 11)
    out = np.zeros((6, n_outputs + 2, N_COLUMNS))
    add_contributions(tree, sides, (3, 9), out, first_output=1)
    for row in range(6):
        expected = by_definition(tree, flags[:, row + 3])
        np.testing.assert_allclose(out[row, 1:-1], expected, rtol=1e-10, atol=1e-12)
    assert not out[:, [0, -1]].any()
    np.testing.assert_allclose(expected_values(tree), worth(tree, flags[:, 0], ()), rtol=1e-12)


def test_nodes_that_no_row_of_the_training_run_reached():
    random = np.random.default_rng(1)
    for _ in range(5):
        tree = drawn_tree(random, 4, cover_of=lambda random: random.choice([0.0, 1.0, 0.3]))
        flags, sides = sides_of(random, tree, 8)
        out = np.zeros((8, 1, N_COLUMNS))
        add_contributions(tree, sides, (0, 8), out)
        for row in range(8):
            expected = by_definition(tree, flags[:, row])
            np.testing.assert_allclose(out[row], expected, rtol=1e-10, atol=1e-12)


def test_contributions_do_not_depend_on_threads_and_are_added():
    random = np.random.default_rng(2)
    tree = drawn_tree(random, 6)
    _, sides = sides_of(random, tree, 20_000)
    one, three = np.ones((20_000, 1, N_COLUMNS)), np.ones((20_000, 1, N_COLUMNS))
    add_contributions(tree, sides, (0, 20_000), one, n_threads=1)
    add_contributions(tree, sides, (0, 20_000), three, n_threads=3)
    np.testing.assert_array_equal(one, three)
    assert one.mean() != 1


@pytest.mark.parametrize("depth", [3, 12])
def test_contributions_are_those_of_xgboost(depth):
    random = np.random.default_rng(3)
    X = random.normal(size=(300, 5)).astype(np.float32)
    X[random.random(X.shape) < 0.2] = np.nan
    y = np.nan_to_num(X).sum(axis=1) > 0
    matrix = xgboost.DMatrix(X, y, weight=random.random(300))
    parameters = {"objective": "binary:logistic", "max_depth": depth, "min_child_weight": 0, "nthread": 1}
    booster = xgboost.train(parameters, matrix, 5)
    theirs = booster.predict(matrix, pred_contribs=True)
    ours = np.zeros((300, 1, 5))
    for text in read_trees(booster):
        feature = np.array(text["split_indices"], dtype=np.int32)
        condition = np.array(text["split_conditions"], dtype=np.float32)
        values = X[:, feature]
        goes_left = np.where(np.isnan(values), np.array(text["default_left"]) == 1, values < condition)
        tree = CoverTree(
            np.array(text["left_children"], dtype=np.int32),
            np.array(text["right_children"], dtype=np.int32),
            np.arange(len(feature), dtype=np.int32),
            feature,
            feature,
            np.array(text["sum_hessian"], dtype=np.float64),
            condition.astype(np.float64)[:, None],
        )
        add_contributions(tree, np.packbits(goes_left.T, axis=1), (0, 300), ours)
    np.testing.assert_allclose(ours[:, 0], theirs[:, :-1], atol=1e-5)
