"""Settings of NewtonBoost are honoured, and automatic ones follow from what was released."""

import warnings
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest
from scipy.special import softmax

import lgb_dp
from growers import grower_of
from lgb_dp.losses.objective import OBJECTIVES
from lgb_dp.newton.core import NewtonCore
from lgb_dp.newton.settings import automatic_depth, automatic_rate, balanced_rows, distilled_depth
from newton_training import X, Y, boosted, live_booster
from small_training import dataset, field


def test_settings_of_lightgbm_are_honoured_and_others_chosen():
    booster = boosted(params={"learning_rate": 0.05, "max_depth": 3}, n_rounds=2)
    assert "[learning_rate: 0.05]" in booster.model_to_string()
    assert booster.dump_model()["tree_info"][0]["num_leaves"] == 8
    with pytest.raises(ValueError, match="max_depth=3 and depth=4"):
        boosted(params={"max_depth": 3}, depth=4)
    rates = [0.3, 0.1, 0.1]
    booster = boosted(n_rounds=3, callbacks=[lgb.reset_parameter(learning_rate=rates)])
    shrinkage = [float(field(booster, "shrinkage", tree=t)[0]) for t in range(3)]
    assert shrinkage == rates


def test_automatic_settings_grow_with_rows_and_budget():
    assert [automatic_depth(nu) for nu in (1, 700, 3e3, 2e5, 2e6)] == [2, 3, 4, 5, 6]
    assert automatic_rate(2500, 500, "binary") == pytest.approx(0.2)
    assert automatic_rate(1e9, 1, "binary") == 1.0
    assert automatic_rate(2500, 2000, "binary") == pytest.approx(0.1)
    assert automatic_rate(2500, 2000, "regression") == pytest.approx(0.05)


@pytest.mark.filterwarnings("ignore::lgb_dp.PrivacyLeakWarning")
def test_the_automatic_rate_of_several_classes_is_held_to_its_bound(monkeypatch):
    label, params = Y + (X[:, 1] > 0), {"objective": "multiclass", "num_class": 3}
    kwargs = {"epsilon": np.inf, "n_rounds": 1, "structure": "random", "random_state": 0}
    rows = lgb_dp.Dataset(X, label, bounds=(-3, 3))
    full = boosted(rows, params=params, **kwargs).predict(X, raw_score=True)
    assert OBJECTIVES["multiclass"].largest_rate == 0.5
    monkeypatch.setitem(OBJECTIVES, "multiclass", replace(OBJECTIVES["multiclass"], largest_rate=0.25))
    half = boosted(rows, params=params, **kwargs).predict(X, raw_score=True)
    # Both begin at the logarithms of the classes' frequencies.
    prior = 2 * half - full
    np.testing.assert_allclose(prior - prior[0], 0.0, atol=1e-9)
    np.testing.assert_allclose(softmax(prior[0]), np.bincount(label.astype(int)) / len(label), atol=1e-3)


def test_structures_are_distilled_where_leaves_hold_many_rows_that_stand_out():
    rows = (1e3, 2e4, 9e4, 2e5, 3e5, 1e8)
    sure, tried = [(7, False), (8, False), (9, False)], [(5, True), (7, True)]
    assert [distilled_depth(6e3, n, n, 50) for n in rows] == [None, None, None, *sure]
    assert [distilled_depth(6e4, n, n, 50) for n in rows] == [None, *tried, *sure]
    skewed = [distilled_depth(np.inf, n, n / 10, 50) for n in rows]
    assert skewed == [None, *tried, (8, True), (8, True), (9, False)]
    assert distilled_depth(4e3, 1e8, 1e8, 50) is None
    assert distilled_depth(1e5, 1e6, 1e6, 501) is None
    assert balanced_rows(1e6, "regression", np.array([0.7])) == 1e6
    assert balanced_rows(1e6, "binary", np.array([0.0])) == pytest.approx(1e6)
    assert balanced_rows(1e6, "binary", np.log([9.0])) == pytest.approx(1e6 * 4 * 0.09)
    assert balanced_rows(1e6, "multiclass", np.log([0.2, 0.2, 0.2]) + 3) == pytest.approx(1e6)
    assert balanced_rows(1e6, "multiclass", np.log([0.5, 0.25, 0.25])) == pytest.approx(1e6 * 0.9375)


def test_automatic_settings_follow_the_released_rows_not_the_true_ones(monkeypatch):
    """With the released number of rows fixed, twice the rows change no setting."""
    release = NewtonCore.release_label_counts
    monkeypatch.setattr(
        NewtonCore, "release_label_counts", lambda self: replace((yield from release(self)), n_rows=5000.0)
    )
    texts = []
    for rows in (X, np.repeat(X, 2, axis=0)):
        label = Y if len(rows) == len(Y) else np.repeat(Y, 2)
        text = boosted(dataset(rows, label), n_rounds=1).model_to_string()
        texts.append([line for line in text.splitlines() if "learning_rate" in line or "max_depth" in line])
    assert texts[0] == texts[1] != []


def test_structures_do_not_depend_on_the_rows():
    """Splits of "random" trees are the same for other data with the same public description."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgb_dp.PrivacyLeakWarning)
        splits = []
        for label in (Y, 1 - Y):
            data = dataset(X if label is Y else -X, label)
            booster = boosted(data, n_rounds=1, structure="random", depth=3, random_state=5)
            splits.append((field(booster, "split_feature").tolist(), field(booster, "threshold").tolist()))
    assert splits[0] == splits[1]


def test_given_depths_are_kept_by_all_trees():
    for params, kwargs in (({"max_depth": 3}, {}), ({"num_leaves": 8}, {}), ({}, {"depth": 3})):
        for structure in ("auto", "random", "cyclic"):
            booster = boosted(n_rounds=120, params=params, structure=structure, **kwargs)
            assert max(tree["num_leaves"] for tree in booster.dump_model()["tree_info"]) == 8
            assert "[max_depth: 3]" in booster.model_to_string()
    free = boosted(n_rounds=120, epsilon=20.0)
    assert max(tree["num_leaves"] for tree in free.dump_model()["tree_info"]) == 16
    assert "[max_depth: 4]" in free.model_to_string()


def test_resetting_nothing_keeps_the_automatic_rate():
    booster = live_booster(4)
    booster.update()
    steps = grower_of(booster).beginning.steps
    rate = steps.rate
    booster.reset_parameter({})
    assert steps.rate == rate != 0.1
    assert steps.size is not None


def test_evaluation_and_early_stopping_see_the_current_model():
    data = dataset(X, Y)
    valid = lgb_dp.Dataset(X, Y, reference=data, public=True)
    history = {}
    booster = boosted(
        data,
        n_rounds=40,
        params={"metric": "binary_logloss"},
        valid_sets=[valid],
        callbacks=[lgb.record_evaluation(history)],
    )
    p = booster.predict(X)
    loss = -np.mean(Y * np.log(p) + (1 - Y) * np.log(1 - p))
    assert history["valid_0"]["binary_logloss"][-1] == pytest.approx(loss)
