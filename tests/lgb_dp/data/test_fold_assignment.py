"""Rows are assigned to folds one by one, and folds are granted the same."""

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from lgb_dp.mechanisms.rng import SecureRandom
from private_folds import X, Y, cv
from small_training import dataset


def stopped_after_one(env):
    raise lgb.callback.EarlyStopException(env.iteration, [])


def test_folds_with_repeated_rows_or_taken_twice_are_not_private():
    data = dataset(X, Y)
    folds = lgb_dp.folds(4, data)
    repeated = [(np.r_[a, np.repeat(a[:3], 5)], b) for a, b in folds.split()]
    assert not any(booster.privacy.private for booster in cv(data, folds=repeated))
    twice = [next(iter(folds.split()))] * 2
    assert sorted(booster.privacy.private for booster in cv(data, folds=twice)) == [False, True]


def test_row_numbers_must_be_row_numbers():
    data = dataset(X, Y)
    for rows in ([-1, 0], [len(X)], np.ones(len(X), bool), [0.5]):
        with pytest.raises(ValueError, match="used_indices"):
            data.subset(rows)


def test_a_rows_fold_does_not_depend_on_other_rows():
    from lgb_dp.data.folds import PrivateFolds

    before = PrivateFolds(dataset(X, Y), 5, SecureRandom(1)).fold_of_row
    after = PrivateFolds(dataset(np.r_[X, X[:1]], np.r_[Y, 0]), 5, SecureRandom(1)).fold_of_row
    np.testing.assert_array_equal(before, after[:-1])
    assert set(before) == set(range(5))


@pytest.mark.parametrize("granted", [(0.1, 20.0), (20.0, 0.1)])
@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost, lambda epsilon: lgb_dp.NewtonBoost(epsilon, 1e-6)])
def test_side_door_folds_that_are_granted_different_budgets_are_refused(granted, trainer):
    """Each report covers all folds; before, the cheaper model's stated its own cost for all of them."""
    data = dataset(X, Y)
    folds = lgb_dp.folds(3, data)
    parts = [data.subset(rows) for rows, _ in folds.split()]
    first = lgb.train({"objective": "binary", "verbosity": -1}, parts[0], 2, callbacks=[trainer(granted[0])])
    assert first.privacy.private
    with pytest.raises(lgb_dp.InvalidArgumentError, match="epsilon or delta"):
        lgb.train({"objective": "binary", "verbosity": -1}, parts[1], 2, callbacks=[trainer(granted[1])])
    again = [data.subset(rows) for rows, _ in folds.split()][1]
    other = lgb.train({"objective": "binary", "verbosity": -1}, again, 2, callbacks=[trainer(granted[1])])
    assert other.privacy.private


def test_side_door_folds_that_build_on_different_results_are_refused():
    """Also where a budget has paid for the earlier result, so that each run is charged the same."""
    budget = lgb_dp.Budget(100.0)
    params = {"objective": "binary", "verbosity": -1}
    whole = lgb.train(
        params, dataset(X, Y, free_raw_data=False), 1, callbacks=[lgb_dp.DPBoost(20, budget=budget)]
    )
    data = dataset(X, Y, free_raw_data=False)
    parts = [data.subset(rows) for rows, _ in lgb_dp.folds(3, data).split()]
    callbacks = [lgb_dp.DPBoost(0.1, budget=budget)]
    lgb.train(
        params, parts[0], 1, init_model=lgb.Booster(model_str=whole.model_to_string()), callbacks=callbacks
    )
    with pytest.raises(lgb_dp.InvalidArgumentError, match="builds on, another"):
        lgb.train(params, parts[1], 1, callbacks=callbacks)


@pytest.mark.parametrize("k", [2, 3])
def test_side_door_a_fold_that_stops_early_states_what_all_folds_cost(k):
    """Before, a pure epsilon was that of the fold's own trees, while the others went on for longer."""
    data = dataset(X, Y)
    parts = [data.subset(rows) for rows, _ in lgb_dp.folds(k, data).split()]
    models = [
        lgb.train(
            {"objective": "binary", "verbosity": -1, "max_depth": 2},
            part,
            4,
            callbacks=[lgb_dp.DPBoost(1.0, eoe=False), *stops],
        )
        for part, stops in zip(parts, [[stopped_after_one], *[[]] * (k - 1)], strict=True)
    ]
    assert [model.num_trees() for model in models] == [1, *[4] * (k - 1)]
    assert {model.privacy.epsilon for model in models} == {k - 1.0}
    assert models[0].privacy.spent[0] < k - 1
