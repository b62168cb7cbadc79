"""Folds that are drawn per row compose; any other subset of rows is reported as not private."""

import lightgbm as lgb
import pytest

import lgb_dp
from private_folds import X, Y, cv
from small_training import dataset, train


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


def test_empty_folds_still_count():
    data = dataset(X[:3], Y[:3])
    folds = lgb_dp.folds(40, data)
    assert {data.subset(rows).fold_part.models_per_row for rows, _ in folds.split()} == {39}


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
    with pytest.raises(lgb_dp.InvalidArgumentError, match="epsilon or delta"):
        lgb.train(params, part, 1, callbacks=[lgb_dp.DPBoost(20.0)])
