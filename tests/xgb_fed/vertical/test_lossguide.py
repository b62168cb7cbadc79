"""Shapes of trees: lossguide, numbers of leaves, no maximum depth, forests; as stock XGBoost grows them."""

import numpy as np
import pytest

from vertical_training import Recorder, assert_same_trees, parties_of, parts, problem, stock, train
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError
from xgb_fed.boosting.params import Settings
from xgb_fed.vertical.expansion import Expansion

BASE = {"objective": "binary:logistic", "max_bin": 16, "grow_policy": "lossguide"}


def compare(params, missing=0.1, rounds=3, bounds=(3,), n=400, **kwargs):
    params = {**BASE, **params}
    X, y = problem(params["objective"], n=n, missing=missing)
    active, *passive = parts(X, *bounds)
    recorders = [Recorder(party) for party in parties_of(passive)]
    model = train(params, active, y, recorders, rounds, **kwargs)
    assert_same_trees(model.export_booster(recorders), stock(params, X, y, rounds))
    return model, recorders


CASES = {
    "7 leaves": {"max_leaves": 7},
    "7 leaves of any depth": {"max_leaves": 7, "max_depth": 0},
    "40 leaves of any depth": {"max_leaves": 40, "max_depth": 0, "min_child_weight": 0.1},
    "3 leaves": {"max_leaves": 3},
    "any number": {"max_depth": 4},
    "anything": {"max_depth": 0},
    "gamma": {"max_leaves": 9, "gamma": 1.0},
    "softprob": {"max_leaves": 6, "objective": "multi:softprob", "num_class": 3},
    "regression": {"max_leaves": 11, "max_depth": 0, "objective": "reg:squarederror"},
    "constraints": {"max_leaves": 12, "max_depth": 0, "monotone_constraints": (1, -1, 0, 0, 1)},
    "interactions": {"max_leaves": 12, "interaction_constraints": "[[0,3],[1,2,4]]"},
    "depthwise, 9 leaves": {"max_leaves": 9, "grow_policy": "depthwise"},
    "depthwise, 9 leaves of any depth": {"max_leaves": 9, "max_depth": 0, "grow_policy": "depthwise"},
    "depthwise of any depth": {"max_depth": 0, "grow_policy": "depthwise"},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_trees_are_those_of_xgboost(case):
    compare(case)
