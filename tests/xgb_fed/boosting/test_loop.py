"""Learning rates that callbacks set: the trees are those of stock XGBoost with the same callbacks."""

import numpy as np
import pytest
import xgboost
from xgboost.callback import LearningRateScheduler, TrainingCallback

import xgb_fed
from vertical_training import assert_same_trees, parties_of, problem, quantile_matrix, train
from xgb_fed.errors import InvalidArgumentError

BASE = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 16}


class Sets(TrainingCallback):
    """Sets a parameter before some round."""

    def __init__(self, *params, before=2):
        self.params, self.before = params, before

    def before_iteration(self, model, epoch, evals_log):
        if epoch == self.before:
            model.set_param(*self.params)
        return False


@pytest.mark.parametrize(
    "callback",
    [
        lambda: LearningRateScheduler(lambda epoch: 0.5 * 0.8**epoch),
        lambda: LearningRateScheduler([0.9, 0.1, 0.3, 0.7]),
        lambda: Sets("eta", 0.05),
        lambda: Sets({"learning_rate": 0.05}),
        lambda: Sets([("eta", 0.05)]),
    ],
    ids=["function", "list", "eta", "mapping", "pairs"],
)
@pytest.mark.parametrize(
    "more", [pytest.param({}, marks=pytest.mark.slow), {"num_parallel_tree": 2}], ids=str
)
def test_trees_are_those_of_xgboost(callback, more):
    params = {**BASE, **more}
    X, y = problem(missing=0.1)
    parties = parties_of([X[:, 3:]])
    model = train(params, X[:, :3], y, parties, 4, callbacks=[callback()])
    data = quantile_matrix(params, X, y)
    theirs = xgboost.train({"nthread": 1, **params}, data, 4, callbacks=[callback()])
    assert_same_trees(model.export_booster(parties), theirs)
    margin = theirs.predict(data, output_margin=True)
    got = model.predict(X[:, :3], parties, output_margin=True)
    np.testing.assert_allclose(got, margin, rtol=1e-5, atol=1e-6)


def test_a_run_that_is_taken_up_goes_on_with_the_same_rates(tmp_path):
    X, y = problem()
    parties = parties_of([X[:, 3:]])

    class Stops(TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == 1:
                raise KeyboardInterrupt

    def rates():
        return LearningRateScheduler([0.9, 0.1, 0.3, 0.7])

    with pytest.raises(KeyboardInterrupt):
        train(BASE, X[:, :3], y, parties, 4, callbacks=[rates(), Stops()], checkpoint=tmp_path)
    resumed = train(BASE, X[:, :3], y, parties, 4, callbacks=[rates()], checkpoint=tmp_path)
    whole = train(BASE, X[:, :3], y, parties, 4, callbacks=[rates()])
    assert [tree.to_dict() for tree in resumed.trees] == [tree.to_dict() for tree in whole.trees]


@pytest.mark.parametrize("value", [0, -0.1, float("nan"), "fast", None])
def test_what_is_not_a_learning_rate_is_refused(value):
    X, y = problem(n=60)
    with pytest.raises(InvalidArgumentError, match="learning_rate="):
        train(BASE, X[:, :3], y, parties_of([X[:, 3:]]), 3, callbacks=[Sets("eta", value)])


def test_other_parameters_stay():
    X, y = problem(n=60)
    with pytest.raises(NotImplementedError, match="change max_depth"):
        train(BASE, X[:, :3], y, parties_of([X[:, 3:]]), 3, callbacks=[Sets("max_depth", 2)])


def test_exact_horizontal_training_keeps_its_learning_rate():
    X, y = problem(n=60)
    model = xgb_fed.HorizontalXGBClassifier(3, callbacks=[Sets("eta", 0.1)])
    with pytest.raises((NotImplementedError, xgb_fed.UnsupportedParameterError)):
        model.fit(parties=[(X[:30], y[:30]), (X[30:], y[30:])])
