"""Rows of a run are those of the moment when it began."""

import numpy as np

from growers import grower_of, kept_scores
from lgb_dp.boosting import trainer as trainers
from small_training import dataset
from threads_at_once import Inside, X, Y, fit, pause


def test_threads_do_not_change_the_start_scores_of_a_run(stock):
    data = dataset(X, Y, free_raw_data=False)
    booster = fit(data, init_model=stock, keep_training_booster=True)
    expected = kept_scores(booster, data).copy()
    data._set_predictor(None)
    np.testing.assert_array_equal(
        grower_of(booster).data.start_scores[:, 0], stock.predict(X, raw_score=True)
    )
    np.testing.assert_array_equal(kept_scores(booster, data), expected)


def test_threads_that_write_into_labels_do_not_reach_those_that_were_checked(monkeypatch):
    data = dataset(X, Y).construct()
    label = data.label if data.label.base is None else data.label.base

    def write():
        label[:] = 99.0

    inside = Inside(write)
    pause(monkeypatch, trainers.PrivateTrainer, "_initial_guarantee", inside)
    booster = fit(data, keep_training_booster=True)
    inside.end()
    assert set(grower_of(booster).label.tolist()) == {0.0, 1.0}
