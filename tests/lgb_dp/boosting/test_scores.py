"""Scores of training rows are the model's."""

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from allocated import peak_of
from gbdt_kernels.trees import DenseCodes, add_trees
from lgb_dp.boosting.scores import Scores
from lgb_dp.boosting.tree import PrivateTree
from made_codes import Level
from small_training import binary_data, dataset, train

X, Y = binary_data()
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2, "learning_rate": 0.3}


def test_continuing_fits_what_the_first_model_left():
    centre = np.full(len(X), 30.0)
    data = {"bounds": (-3, 3), "label_bounds": (0, 40)}
    params = {**QUIET, "objective": "regression", "lambda_l2": 0.0}
    first = lgb.train(params, lgb_dp.Dataset(X, centre, **data), 3, callbacks=[lgb_dp.DPBoost(500.0)])
    second = lgb.train(
        params, lgb_dp.Dataset(X, centre, **data), 10, init_model=first, callbacks=[lgb_dp.DPBoost(500.0)]
    )
    assert np.abs(second.predict(X) - 30).mean() < 0.5 * np.abs(first.predict(X) - 30).mean()


def test_init_score_is_where_training_starts():
    booster = train(
        dataset(X, Y, init_score=2 * Y - 1, public_init_score=True),
        lgb_dp.DPBoost(2000.0),
        n_rounds=1,
        learning_rate=1.0,
    )
    assert np.abs(booster.predict(X, raw_score=True)).max() < 0.05


def test_scores_that_nothing_reads_take_no_memory():
    """NewtonBoost keeps scores of its own."""
    codes = DenseCodes(np.zeros((50_000, 1), dtype=np.uint8))
    scores, peak = peak_of(lambda: Scores(codes, None, 3, 1))
    assert peak < 10_000
    assert scores.all([]).shape == (50_000, 3)
    assert not scores.all([]).any()


def drawn_tree(rng, n_features, depth):
    n_nodes = 2**depth - 1
    feature = rng.integers(0, n_features, n_nodes).astype(np.int32)
    goes_left = rng.integers(0, 2, (n_nodes, 256)).astype(np.uint8)
    return PrivateTree(feature, goes_left, rng.normal(size=n_nodes + 1), np.ones(n_nodes + 1, np.int64), 0.1)


@pytest.mark.parametrize("seed", range(8))
def test_scores_are_the_same_bits_in_whatever_turn_rows_are_read(seed):
    level = Level(seed)
    for matrix in level.matrices:
        rng, iterations = np.random.default_rng(seed), []
        read, expected = Scores(matrix, None, 2, 1), np.zeros((matrix.n_rows, 2), order="F")
        for depth in (2, 2, 3, 2, 2, 2):
            iterations.append([drawn_tree(rng, level.codes.shape[1], depth) for _ in range(2)])
            for k, tree in enumerate(iterations[-1]):
                one = (tree.feature[None], tree.goes_left[None], tree.leaf_value[None])
                add_trees(matrix, *one, expected[:, k], 1)
            rows = rng.permutation(matrix.n_rows)[: int(rng.integers(0, matrix.n_rows + 1))].astype(np.int32)
            found = read.of(rows, matrix.take(rows), iterations)
            np.testing.assert_array_equal(found, expected[rows])
        np.testing.assert_array_equal(read.all(iterations), expected)
