"""A tree as it is written: nothing but splits and released leaves."""

import numpy as np

import lgb_dp
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
