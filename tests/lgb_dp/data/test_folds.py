"""Folds that are drawn per row compose; any other subset of rows is reported as not private."""

import warnings

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from lgb_dp.mechanisms.rng import SecureRandom
from small_training import binary_data, dataset, train

X, Y = binary_data()


def cv(data, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgb_dp.NotPrivateWarning)
        return lgb.cv(
            {"objective": "binary", "verbosity": -1, "max_depth": 2},
            data,
            2,
            callbacks=[lgb_dp.DPBoost(0.5)],
            return_cvbooster=True,
            **kwargs,
        )["cvbooster"].boosters


def test_private_folds_compose():
    data = dataset(X, Y)
    boosters = cv(data, folds=lgb_dp.folds(4, data))
    assert len(boosters) == 4
    for booster in boosters:
        assert booster.privacy.private
        assert booster.privacy.epsilon == 3 * 0.5


def test_other_folds_are_reported_as_not_private():
    assert not any(booster.privacy.private for booster in cv(dataset(X, Y), nfold=3))
    data = dataset(X, Y)
    lgb_dp.folds(4, data)
    assert not any(booster.privacy.private for booster in cv(data, nfold=4))


def test_folds_with_repeated_rows_or_taken_twice_are_not_private():
    data = dataset(X, Y)
    folds = lgb_dp.folds(4, data)
    repeated = [(np.r_[a, np.repeat(a[:3], 5)], b) for a, b in folds.split()]
    assert not any(booster.privacy.private for booster in cv(data, folds=repeated))
    twice = [next(iter(folds.split()))] * 2
    assert sorted(booster.privacy.private for booster in cv(data, folds=twice)) == [False, True]


def test_empty_folds_still_count():
    data = dataset(X[:3], Y[:3])
    folds = lgb_dp.folds(40, data)
    assert {data.subset(rows).fold_part.models_per_row for rows, _ in folds.split()} == {39}


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


def test_training_on_the_test_parts_is_not_private():
    data = dataset(X, Y)
    swapped = [(b, a) for a, b in lgb_dp.folds(3, data).split()]
    assert not any(booster.privacy.private for booster in cv(data, folds=swapped))


def test_folds_of_a_continued_training_compose_with_its_initial_model():
    first, data = train(dataset(X, Y), lgb_dp.DPBoost(1.0)), dataset(X, Y, free_raw_data=False)
    for booster in cv(data, folds=lgb_dp.folds(3, data), init_model=first):
        assert booster.privacy.epsilon >= 1.0 + 2 * 0.5
        assert booster.privacy.notes[0] == (
            "epsilon covers all 3 folds together, if the reports of all say private"
        )


@pytest.mark.parametrize("granted", [(0.1, 20.0), (20.0, 0.1)])
@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost, lambda epsilon: lgb_dp.NewtonBoost(epsilon, 1e-6)])
def test_side_door_folds_that_are_granted_different_budgets_are_refused(granted, trainer):
    """Each report covers all folds; before, the cheaper model's stated its own cost for all of them."""
    data = dataset(X, Y)
    folds = lgb_dp.folds(3, data)
    parts = [data.subset(rows) for rows, _ in folds.split()]
    first = lgb.train({"objective": "binary", "verbosity": -1}, parts[0], 2, callbacks=[trainer(granted[0])])
    assert first.privacy.private
    with pytest.raises(lgb_dp.InvalidArgumentError, match="another epsilon or delta"):
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
    with pytest.raises(lgb_dp.InvalidArgumentError, match="or builds on, another epsilon"):
        lgb.train(params, parts[1], 1, callbacks=callbacks)


def test_side_door_inner_folds_of_all_outer_parts_are_granted_the_same():
    """Before, one more division of an inner cross-validation made its models another group."""
    data = dataset(X, Y)
    outer = [data.subset(rows) for rows, _ in lgb_dp.folds(3, data).split()]
    inner = [lgb_dp.folds(2, part) for part in outer]
    next(iter(inner[1].split()))
    params = {"objective": "binary", "verbosity": -1}
    part = outer[0].subset(next(iter(inner[0].split()))[0])
    lgb.train(params, part, 1, callbacks=[lgb_dp.DPBoost(0.1)])
    part = outer[1].subset(next(iter(inner[1].split()))[0])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="another epsilon or delta"):
        lgb.train(params, part, 1, callbacks=[lgb_dp.DPBoost(20.0)])
