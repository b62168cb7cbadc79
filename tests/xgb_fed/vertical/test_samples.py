"""Samples of rows and columns: with a seed, the trees are those of stock XGBoost with the same seed."""

import pytest

from gbdt_hosts.xgboost import draws
from vertical_training import assert_same_trees, parties_of, parts, problem, stock, train

pytestmark = pytest.mark.skipif(not draws.are_reproduced(), reason="another build of XGBoost")
BASE = {"objective": "binary:logistic", "max_depth": 4, "max_bin": 16, "random_state": 7}
CASES = {
    "rows": {"subsample": 0.6},
    "rows of classes": {"subsample": 0.5, "objective": "multi:softprob", "num_class": 3},
    "rows of a forest": {"subsample": 0.3, "num_parallel_tree": 4, "colsample_bynode": 0.5},
    "rows, lossguide": {
        "subsample": 0.8,
        "colsample_bytree": 0.7,
        "grow_policy": "lossguide",
        "max_leaves": 8,
    },
    "tree": {"colsample_bytree": 0.5},
    "level": {"colsample_bylevel": 0.4},
    "node": {"colsample_bynode": 0.5},
    "all": {"colsample_bytree": 0.8, "colsample_bylevel": 0.7, "colsample_bynode": 0.6},
    "classes": {
        "colsample_bynode": 0.5,
        "colsample_bytree": 0.7,
        "objective": "multi:softprob",
        "num_class": 3,
    },
    "forest": {"colsample_bynode": 0.5, "num_parallel_tree": 3, "learning_rate": 1.0},
    "levels of lossguide": {"colsample_bylevel": 0.4, "grow_policy": "lossguide", "max_leaves": 9},
    "anything of lossguide": {
        "colsample_bylevel": 0.4,
        "grow_policy": "lossguide",
        "max_depth": 0,
        "max_leaves": 20,
    },
    "leaves": {"colsample_bynode": 0.5, "max_leaves": 6},
    "constraints": {
        "colsample_bynode": 0.6,
        "monotone_constraints": (1, 0, -1),
        "interaction_constraints": "[[0,1,5],[2,3,4,7]]",
    },
    "gamma": {"colsample_bylevel": 0.5, "colsample_bynode": 0.5, "gamma": 2.0, "max_depth": 6},
}


def compare(params, n=300, rounds=4, **kwargs):
    X, y = problem(params["objective"], n=n, n_features=8, missing=0.1)
    active, *passive = parts(X, 3, 6)
    parties = parties_of(passive)
    model = train(params, active, y, parties, rounds, **kwargs)
    assert_same_trees(model.export_booster(parties), stock(params, X, y, rounds))
    return model


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_trees_are_those_of_xgboost_with_the_same_seed(case):
    compare({**BASE, **case})
