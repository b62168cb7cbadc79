"""Models that training continues from must carry their guarantee unaltered."""

import lightgbm as lgb
import numpy as np

import lgb_dp
from lgb_dp.data.start_scores import StartScores
from small_training import binary_data, dataset, leaf_values, train

X, Y = binary_data()


def test_an_altered_initial_model_voids_the_guarantee():
    first = train(dataset(X, Y), lgb_dp.DPBoost(1.0))
    altered = lgb.Booster(model_str=first.model_to_string()).set_leaf_output(0, 0, 123.0)
    params = {"objective": "binary", "verbosity": -1}
    second = lgb.train(params, dataset(X, Y), 2, init_model=altered, callbacks=[lgb_dp.DPBoost(1.0)])
    assert not second.privacy.private
    assert "init_model" in second.privacy.reasons[0]


def test_scores_that_an_initial_model_gives_need_not_be_finite():
    data = dataset(X, Y, public_init_score=True).construct()
    data._used_scores = StartScores(np.full((len(X), 1), np.nan), is_public=True)
    values = leaf_values(train(data, lgb_dp.DPBoost(1.0, gdf=False), n_rounds=1, learning_rate=0.1))
    assert np.abs(values).max() <= 0.1
