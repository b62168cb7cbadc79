"""Model files, logs and pickles hold nothing but what was released."""

import pickle
import re

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from gbdt_hosts.lightgbm import guarantee_in
from small_training import binary_data, dataset, field, leaf_values, train

X, Y = binary_data()


def test_counts_in_the_model_are_noisy_or_constant():
    tight = train(dataset(X, Y), lgb_dp.DPBoost(0.5), n_rounds=1)
    again = train(dataset(X, Y), lgb_dp.DPBoost(0.5), n_rounds=1)
    assert (field(tight, "leaf_count") != field(again, "leaf_count")).any()
    assert (field(tight, "leaf_count") >= 1).all()
    paper = train(dataset(X, Y), lgb_dp.DPBoost(0.5, variant="paper"), n_rounds=1)
    assert (field(paper, "leaf_count") == 1).all()
    assert field(paper, "internal_count").tolist() == [4, 2, 2]


def test_everything_in_a_tree_block_follows_from_splits_and_released_leaves():
    booster = train(dataset(X, Y), lgb_dp.DPBoost(1.0), n_rounds=1, learning_rate=0.5)
    value, count = leaf_values(booster), field(booster, "leaf_count")
    pairs = [(count[2 * i : 2 * i + 2], value[2 * i : 2 * i + 2]) for i in range(2)]
    inner = [np.average(v, weights=c) for c, v in pairs]
    np.testing.assert_allclose(field(booster, "internal_value")[1:], inner, rtol=1e-4)
    np.testing.assert_array_equal(
        field(booster, "internal_count"), [count.sum(), *(c.sum() for c, _ in pairs)]
    )
    gains = [(c * v**2).sum() - (c * v).sum() ** 2 / c.sum() for c, v in pairs]
    np.testing.assert_allclose(field(booster, "split_gain")[1:], np.array(gains) / 0.25, rtol=1e-4, atol=1e-9)


def test_native_logs_hold_no_counts(capfd):
    data = dataset(X, Y)
    lgb.train({"objective": "binary", "verbosity": 2}, data, 2, callbacks=[lgb_dp.DPBoost(1.0)])
    out, err = capfd.readouterr()
    numbers = set(re.findall(r"\d+", out + err))
    assert not numbers & {str(len(X)), str(int(Y.sum())), str(int((1 - Y).sum()))}


def test_pickles_and_finished_boosters_hold_no_rows():
    marker = 0.123456789
    data = X.copy()
    data[:, 0] = marker
    booster = train(dataset(data, Y), lgb_dp.DPBoost(1.0), n_rounds=2)
    assert not [name for name in vars(booster) if isinstance(vars(booster)[name], (np.ndarray, lgb.Dataset))]
    assert booster._grower is None
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


def test_logs_are_the_same_whatever_the_rows(capfd):
    logs = []
    for rows in ((X, Y), (X, Y), OTHER):
        params = {"objective": "binary", "verbosity": 2, "max_depth": 2, "learning_rate": 0.3}
        lgb.train(params, dataset(*rows), 6, callbacks=[lgb_dp.DPBoost(0.05)])
        logs.append(re.sub(r"\d+\.\d+ seconds", "", "".join(capfd.readouterr())))
    assert logs[1] == logs[2]  # the first may compile


def test_a_finished_booster_has_the_attributes_of_a_stock_one():
    stock = lgb.train({"verbosity": -1}, lgb.Dataset(X, Y), 1)
    own = vars(train(dataset(X, Y), lgb_dp.DPBoost(1.0))).keys() - vars(stock).keys()
    assert own <= {"_is_stale"}


def test_lightgbm_itself_never_sees_a_row():
    native = dataset(X, Y).construct()._native
    assert native.num_data() == 2
    assert native.get_label().tolist() == [0, 1]
