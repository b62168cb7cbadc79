"""Model files, logs and pickles hold nothing but what was released."""

import pickle

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from gbdt_hosts.lightgbm import guarantee_in
from small_training import binary_data, dataset, train

X, Y = binary_data()


def test_pickles_and_finished_boosters_hold_no_rows():
    marker = 0.123456789
    data = X.copy()
    data[:, 0] = marker
    booster = train(dataset(data, Y), lgb_dp.DPBoost(1.0), n_rounds=2)
    assert not [name for name in vars(booster) if isinstance(vars(booster)[name], (np.ndarray, lgb.Dataset))]
    assert not any(hasattr(one, "grow_iteration") for one in vars(booster).values())
    in_training = lgb.train(
        {"objective": "binary", "verbosity": -1},
        dataset(data, Y),
        2,
        callbacks=[lgb_dp.DPBoost(1.0)],
        keep_training_booster=True,
    )
    for candidate in (booster, in_training):
        dump = pickle.dumps(candidate)
        assert np.float64(marker).tobytes() not in dump
        assert b"SecureRandom" not in dump
        assert len(dump) < 50_000


OTHER = X[:300] * 0.5, 1 - Y[:300]


def around_the_trees(booster):
    """A model's text but for its trees, what counts their bytes and splits, and their digests."""
    text = booster.model_to_string()
    head, tail = text.partition("\nTree=0")[0], text.partition("\nparameters:")[2]
    lines = [
        line for line in (head + tail).splitlines() if not line.startswith(("tree_sizes=", "[dp_guarantee:"))
    ]
    return lines, {**guarantee_in(text), "trees": None}


@pytest.mark.parametrize("variant", ["tight", "paper"])
def test_around_the_trees_a_model_is_the_same_whatever_the_rows(variant):
    models = [
        train(dataset(*rows), lgb_dp.DPBoost(0.05, variant=variant), n_rounds=6) for rows in ((X, Y), OTHER)
    ]
    assert around_the_trees(models[0]) == around_the_trees(models[1])


def test_a_finished_booster_has_the_attributes_of_a_stock_one():
    stock = lgb.train({"verbosity": -1}, lgb.Dataset(X, Y), 1)
    own = vars(train(dataset(X, Y), lgb_dp.DPBoost(1.0))).keys() - vars(stock).keys()
    assert own <= {"_behind"}
