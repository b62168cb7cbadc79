"""An initial model is that of one moment."""

import lightgbm as lgb
import numpy as np

import lgb_dp
from growers import grower_of
from small_training import dataset
from threads_at_once import QUIET, Edited, X, Y, fit, live, predictor_of


def test_an_init_model_may_change_once_its_scores_are_predicted():
    """A Dataset that keeps its scores for another run predicts them anew if the model is another by then."""
    edited = Edited()
    data = dataset(X, Y, free_raw_data=False)
    assert not fit(data, init_model=edited.model).privacy.private
    edited.restore()
    booster = lgb.Booster({**QUIET, **data.get_params()}, data)  # of the predictor that the Dataset has
    env = lgb.callback.CallbackEnv(booster, QUIET, 0, 0, 2, None)
    lgb_dp.NewtonBoost(0.5, 1e-6)(env)
    np.testing.assert_array_equal(grower_of(booster).data.start_scores[:, 0], edited.intact)
    assert booster.privacy.private


def test_threads_may_train_a_live_init_model_on():
    """The native model that a predictor reads stays until nothing has its handle."""
    first = live()
    predictor = predictor_of(first)
    before = predictor.predict(X, raw_score=True)
    for _ in range(3):
        first.update()
        first.num_trees()
    np.testing.assert_array_equal(predictor.predict(X, raw_score=True), before)
    del first
    np.testing.assert_array_equal(predictor.predict(X, raw_score=True), before)
