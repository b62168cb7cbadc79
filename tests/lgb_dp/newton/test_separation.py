"""Reports say that nothing separates where labels have nothing to do with the features, and only there."""

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from lgb_dp.newton.separation import MIN_TREES, NOTE


def says_so(seed, effect=0.0, n_rows=300, rounds=12, epsilon=1.0, classes=2, base=0.0, **how):
    """Whether the printed report of a run says that nothing separates."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 4))
    score = effect * (X[:, 0] + X[:, 1] / 2) + base
    y = (random.random(n_rows) < 1 / (1 + np.exp(-score))).astype(float)
    params = {"objective": "binary", "verbosity": -1, **how.pop("params", {})}
    if classes > 2:
        y = np.where(score > 0, y, random.integers(0, classes, n_rows)) if effect else y
        y = y if effect else random.integers(0, classes, n_rows)
        params |= {"objective": "multiclass", "num_class": classes}
    data = lgb_dp.Dataset(X, label=y, bounds=(-4, 4), max_bin=16, **how)
    model = lgb.train(params, data, rounds, callbacks=[lgb_dp.NewtonBoost(epsilon, 1e-5)])
    return "nothing separates by what was released" in str(model.privacy)


def test_labels_without_any_relation_to_the_features():
    assert sum(says_so(seed) for seed in range(20)) >= 19


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"n_rows": 2000, "rounds": 50},
        {"n_rows": 1000, "rounds": 30, "base": -2.5},
        {"n_rows": 600, "rounds": 30, "classes": 3},
        {"n_rows": 500, "rounds": 30, "epsilon": 20.0},
        {"n_rows": 2000, "rounds": 40, "params": {"learning_rate": 0.05}},
    ],
    ids=str,
)
def test_at_least_95_of_100_runs_on_such_labels_say_so(how):
    assert sum(says_so(seed, **how) for seed in range(100)) >= 95


@pytest.mark.parametrize("how", [{}, {"classes": 3, "n_rows": 4000}], ids=str)
def test_a_real_effect_is_not_denied(how):
    how = {"n_rows": 2000, "rounds": 30, "epsilon": 2.0, **how}
    assert not any(says_so(seed, effect=3.0, **how) for seed in range(5))


def test_the_remark_is_in_the_model_and_goes_on_to_what_builds_on_it():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 3)), random.integers(0, 2, 300)
    data = lgb_dp.Dataset(X, label=y, bounds=(-4, 4))
    model = lgb.train(
        {"objective": "binary", "verbosity": -1}, data, 12, callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)]
    )
    assert model.privacy.notes == (NOTE,)
    assert model.privacy.private
    assert lgb_dp.DPBooster(model_str=model.model_to_string()).privacy.notes == (NOTE,)
    assert NOTE in lgb_dp.compose(model.privacy).notes


@pytest.mark.parametrize(
    "how",
    [
        {"rounds": MIN_TREES - 1},
        {"init_score": np.zeros(300), "public_init_score": True},
        {"groups": np.arange(300) // 2, "rows_per_group": 2},
        {"epsilon": float("inf")},
    ],
    ids=["few trees", "continued", "persons", "no noise"],
)
def test_nothing_is_said_where_chance_is_not_known(how):
    assert not says_so(0, **how)
