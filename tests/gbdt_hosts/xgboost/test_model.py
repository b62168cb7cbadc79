"""Boosters made from arrays: what XGBoost reads back is what was given."""

import json

import numpy as np
import pytest
import xgboost

from gbdt_hosts.xgboost.model import ScalarTree, booster_from_trees, read_trees

X, Y = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32), np.arange(200) % 3


def as_scalar(tree, group):
    names = (
        "left_children",
        "right_children",
        "parents",
        "split_indices",
        "split_conditions",
        "default_left",
    )
    names += ("base_weights", "loss_changes", "sum_hessian")
    return ScalarTree(*(tree[name] for name in names), group)


@pytest.mark.parametrize(
    ("objective", "n_classes"), [("binary:logistic", 1), ("reg:squarederror", 1), ("multi:softprob", 3)]
)
@pytest.mark.parametrize("named", [False, True])
def test_a_booster_taken_apart_and_made_anew(objective, n_classes, named):
    y = Y if n_classes > 1 else Y > 1
    names = ["a", "b", "c", "d"] if named else None
    data = xgboost.DMatrix(X, label=y, feature_names=names)
    params = {"objective": objective, "max_depth": 3, "base_score": 0.4, "nthread": 1}
    original = xgboost.train(params | ({"num_class": 3} if n_classes > 1 else {}), data, 3)
    trees = read_trees(original)
    again = booster_from_trees(
        [as_scalar(tree, k % n_classes) for k, tree in enumerate(trees)],
        objective=objective,
        n_classes=n_classes,
        n_features=4,
        base_score=[0.4],
        rounds=list(range(0, len(trees) + 1, n_classes)),
        feature_names=names,
    )
    np.testing.assert_array_equal(again.predict(data), original.predict(data))
    np.testing.assert_array_equal(
        again.predict(data, iteration_range=(0, 2)), original.predict(data, iteration_range=(0, 2))
    )
    assert again.num_boosted_rounds() == 3
    assert again.feature_names == original.feature_names
    assert [as_scalar(t, 0) for t in read_trees(again)] == [as_scalar(t, 0) for t in trees]
    assert again.get_score(importance_type="gain") == original.get_score(importance_type="gain")


def test_a_tree_of_one_leaf():
    stump = ScalarTree([-1], [-1], [2147483647], [0], [0.5], [False], [0.5], [0.0], [1.0])
    booster = booster_from_trees(
        [stump],
        objective="reg:squarederror",
        n_classes=1,
        n_features=2,
        base_score=[0.1],
        rounds=[0, 1],
    )
    model = json.loads(booster.save_raw("json"))
    kept = float(model["learner"]["learner_model_param"]["base_score"].strip("[]"))
    assert np.float32(kept) == np.float32(0.1)
    got = booster.predict(xgboost.DMatrix(X[:, :2]))
    np.testing.assert_array_equal(got, np.full(200, np.float32(0.1) + np.float32(0.5)))
