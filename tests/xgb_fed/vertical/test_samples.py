"""Samples of rows and columns: with a seed, the trees are those of stock XGBoost with the same seed."""

import warnings

import numpy as np
import pytest

from gbdt_hosts.xgboost import draws
from gbdt_parties.errors import PartyUnavailableError
from vertical_training import assert_same_trees, parties_of, parts, problem, stock, train
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import LabelLeakWarning

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


def compare(params, n=300, rounds=2, **kwargs):
    X, y = problem(params["objective"], n=n, n_features=8, missing=0.1)
    active, *passive = parts(X, 3, 6)
    parties = parties_of(passive)
    model = train(params, active, y, parties, rounds, **kwargs)
    assert_same_trees(model.export_booster(parties), stock(params, X, y, rounds))
    return model


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_trees_are_those_of_xgboost_with_the_same_seed(case):
    compare({**BASE, **case})


@pytest.mark.parametrize("case", ["all", "rows of a forest", "anything of lossguide"])
def test_draws_go_on_where_a_run_was_interrupted(case, tmp_path):
    """After a party was lost within a tree, and after this party has crashed."""
    params = {**BASE, **CASES[case]}
    X, y = problem(n=120, n_features=8)
    parties = parties_of([X[:, 3:]])
    whole = train(params, X[:, :3], y, parties, 2)
    n_requests = sum(
        flow.messages for (sender, *_), flow in whole.traffic.flows.items() if sender != "party 0"
    )

    class Lost:
        name = "party 0"

        def __init__(self):
            self.left = n_requests // 2

        def handle(self, request):
            self.left -= 1
            if self.left == 0:
                raise PartyUnavailableError("lost")
            return parties[0].handle(request)

    expected = [tree.to_dict() for tree in whole.trees]
    again = train(params, X[:, :3], y, [Lost()], 2, patience=60)
    assert [tree.to_dict() for tree in again.trees] == expected
    with pytest.raises(PartyUnavailableError):
        train(params, X[:, :3], y, [Lost()], 2, checkpoint=tmp_path)
    resumed = train(params, X[:, :3], y, parties, 2, checkpoint=tmp_path)
    assert [tree.to_dict() for tree in resumed.trees] == expected


@pytest.mark.parametrize(
    "params",
    [
        {"colsample_bynode": 0.4, "grow_policy": "lossguide", "max_leaves": 6},
        {"colsample_bynode": 0.4, "tree_mode": "mix"},
        {"colsample_bytree": 0.5, "colsample_bylevel": 0.5, "goss": (0.3, 0.3)},
    ],
    ids=str,
)
def test_draws_of_the_same_kind_where_xgboost_s_are_not_to_be_had(params):
    """Nodes of one level, or of one tree, do not all split at the column that is best everywhere."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=200).astype(np.float32)
    X = np.stack([y + rng.normal(size=200) * noise for noise in (0.1, 0.4, 1, 2)], axis=1).astype(np.float32)
    params = {**BASE, "objective": "reg:squarederror", "max_depth": 3, **params}
    assert Settings.from_params(params).seed_of_columns is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelLeakWarning)
        model = train(params, X[:, :2], y, parties_of([X[:, 2:]]), 5)
    used = {owner for tree in model.trees for owner in tree.owner}
    assert {0, 1} <= used
