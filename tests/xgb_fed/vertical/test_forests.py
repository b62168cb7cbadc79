"""Forests, `num_parallel_tree`: the trees of a round are those of stock XGBoost."""

import numpy as np
import pytest
import xgboost

from vertical_training import assert_same_trees, parties_of, problem, quantile_matrix, stock, train

BASE = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 16, "num_parallel_tree": 3}


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"objective": "reg:squarederror", "learning_rate": 1.0},
        {"objective": "multi:softprob", "num_class": 3},
        {"grow_policy": "lossguide", "max_leaves": 5, "monotone_constraints": (1, 0, 0, 0, -1)},
    ],
    ids=str,
)
def test_trees_are_those_of_xgboost(case):
    params = {**BASE, **case}
    X, y = problem(params["objective"], missing=0.1)
    parties = parties_of([X[:, 3:]])
    evals = {}
    model = train(params, X[:, :3], y, parties, 3, evals_result=evals)
    booster, theirs = model.export_booster(parties), stock(params, X, y, 3)
    assert_same_trees(booster, theirs, n_trees=9 * params.get("num_class", 1))
    data = quantile_matrix(params, X, y)
    for rounds in ((0, 0), (1, 2)):
        margin = theirs.predict(data, output_margin=True, iteration_range=rounds)
        got = booster.predict(data, output_margin=True, iteration_range=rounds)
        np.testing.assert_allclose(got, margin, rtol=1e-5, atol=1e-6)
        own = model.predict(
            X[:, :3], parties, output_margin=True, iteration_range=rounds if rounds[1] else None
        )
        np.testing.assert_allclose(own, margin, rtol=1e-5, atol=1e-6)
    assert booster.num_boosted_rounds() == theirs.num_boosted_rounds() == model.num_boosted_rounds() == 3


def test_the_trees_of_a_forest_differ_in_rows_and_columns():
    X, y = problem()
    params = {**BASE, "subsample": 0.5, "colsample_bytree": 0.5, "learning_rate": 1.0}
    parties = parties_of([X[:, 3:]])
    model = train(params, X[:, :3], y, parties, 1)
    assert len({str(tree.to_dict()) for tree in model.trees}) == 3
    margin = model.export_booster(parties).predict(xgboost.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(
        model.predict(X[:, :3], parties, output_margin=True), margin, rtol=1e-5, atol=1e-6
    )


def test_vector_leaves():
    X, y = problem("multi:softprob")
    params = {**BASE, "objective": "multi:softprob", "num_class": 3, "multi_output": True}
    parties = parties_of([X[:, 3:]])
    model = train(params, X[:, :3], y, parties, 2)
    assert len(model.trees) == 6
    margin = model.export_booster(parties).predict(xgboost.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(
        model.predict(X[:, :3], parties, output_margin=True), margin, rtol=1e-5, atol=1e-6
    )
