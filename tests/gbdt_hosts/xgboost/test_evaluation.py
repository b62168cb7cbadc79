"""XGBoost's metrics and intercept without its trees."""

import numpy as np
import pytest
import xgboost

from gbdt_hosts.xgboost.evaluation import EvaluationSet, MetricBooster, intercept
from gbdt_hosts.xgboost.targets import Targets
from native_trees import read_trees

RNG = np.random.default_rng(0)
Y = (RNG.random(100) < 0.3).astype(np.float32)
WEIGHT = RNG.uniform(0.1, 2, 100).astype(np.float32)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_metrics_of_margins_are_xgboost_s(weight):
    margin = RNG.normal(size=100).astype(np.float32)
    params = {"objective": "binary:logistic", "eval_metric": ["auc", "logloss", "error"]}
    own = MetricBooster(
        params, [EvaluationSet("a", Targets(Y, weight))], lambda: [margin[:, None]], lambda: 5
    )
    data = xgboost.DMatrix(np.zeros((100, 1)), label=Y, weight=weight, base_margin=margin)
    empty = xgboost.train(params, data, 0)
    assert own.evaluate(3).split("\t")[1:] == empty.eval_set([(data, "a")], 3).split("\t")[1:]
    assert own.num_boosted_rounds() == 5
    assert read_trees(own) == []


def test_without_sets_there_are_no_metrics():
    assert MetricBooster({"objective": "binary:logistic"}, [], list, lambda: 0).evaluate(2) == "[2]"


def test_the_intercept_is_that_of_a_training_on_columns():
    X = RNG.normal(size=(100, 3))
    for params in (
        {"objective": "binary:logistic"},
        {"objective": "binary:logistic", "scale_pos_weight": 3.0},
    ):
        booster = xgboost.train({**params, "nthread": 1}, xgboost.DMatrix(X, label=Y, weight=WEIGHT), 1)
        expected = booster.predict(xgboost.DMatrix(X), iteration_range=(0, 1), output_margin=True)
        score = float(intercept(params, Targets(Y, WEIGHT))[0])
        fixed = xgboost.train(
            {**params, "nthread": 1, "base_score": score}, xgboost.DMatrix(X, label=Y, weight=WEIGHT), 1
        )
        got = fixed.predict(xgboost.DMatrix(X), iteration_range=(0, 1), output_margin=True)
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_changes_that_would_have_no_effect_are_refused(tmp_path):
    booster = MetricBooster({"objective": "binary:logistic"}, [], list, lambda: 0)
    with pytest.raises(NotImplementedError):
        booster.set_param("learning_rate", 0.1)
    with pytest.raises(NotImplementedError):
        booster.save_model(tmp_path / "model.json")
