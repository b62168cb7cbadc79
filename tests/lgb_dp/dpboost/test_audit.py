"""Black-box audits: what two neighbouring data sets' models tell apart, against the claimed ε.

They read nothing but model files and need thousands of them; `lgb_dp.audit` sees the releases and needs
hundreds.

Both data sets are trained on many times.  An event is chosen on the first half
of the models and counted on the second; Clopper-Pearson bounds then give, with
confidence 1 - 1e-6, a lower bound of the ε that the trainer really has.
"""

import lightgbm as lgb
import numpy as np
import pytest
from scipy import stats

import lgb_dp
from small_training import field, leaf_values

CONFIDENCE = 1e-6


def log_ratio_bound(hits, n_hits, others, n_others, confidence):
    """Clopper-Pearson lower bound of ln(P / P') from counts."""
    low = stats.beta.ppf(confidence / 2, hits, n_hits - hits + 1)
    high = stats.beta.ppf(1 - confidence / 2, others + 1, n_others - others)
    return np.log(low) - np.log(high) if hits and others < n_others else -np.inf


def events(rows):
    """Half-lines of every column, alone and together with either value of the first."""
    for k in range(rows.shape[1]):
        for c in np.unique(np.quantile(rows[:, k], np.linspace(0.01, 0.99, 25))):
            for sign in (1, -1):
                yield lambda r, k=k, c=c, sign=sign: sign * r[:, k] >= sign * c
                for first in (0, 1):
                    yield (
                        lambda r, k=k, c=c, sign=sign, first=first: (
                            (sign * r[:, k] >= sign * c) & (r[:, 0] == first)
                        )
                    )


def epsilon_lower_bound(with_row, without_row):
    """Lower bound of the trainer's ε, with confidence 1 - CONFIDENCE."""
    half = len(with_row) // 2
    candidates = []
    for event in events(with_row[:half]):
        for a, b in ((with_row, without_row), (without_row, with_row)):
            bound = log_ratio_bound(event(a[:half]).sum(), half, event(b[:half]).sum(), half, 1e-3)
            candidates.append((bound, len(candidates), event, a, b))
    _, _, event, a, b = max(candidates, key=lambda candidate: candidate[:2])
    n = len(a) - half
    return log_ratio_bound(event(a[half:]).sum(), n, event(b[half:]).sum(), n, CONFIDENCE)


def models(X, y, trainer, n):
    """One row per trained model: whether feature 0 was split on, and both noisy sums 2A, 2B of each leaf."""
    data = lgb_dp.Dataset(X, label=y, bounds=(0, 1), max_bin=2).construct()
    params = {"objective": "binary", "learning_rate": 1.0, "max_depth": 1, "verbosity": -1}
    rows = []
    for _ in range(n):
        booster = lgb.train(params, data, 1, callbacks=[trainer])
        value, count = leaf_values(booster), field(booster, "leaf_count")
        gradient = -value * count
        rows.append(np.r_[field(booster, "split_feature")[0] == 0, count + gradient, count - gradient])
    return np.array(rows)


# Thirty rows with gradient +1 and one with gradient -1 that only the first of three features sets apart.
X = np.zeros((31, 3))
X[-1, 0] = 1.0
Y = np.r_[np.zeros(30), 1.0]


def audit(trainer, n):
    return epsilon_lower_bound(models(X, Y, trainer, n), models(X[:-1], Y[:-1], trainer, n))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["tight", "paper"])
def test_models_of_neighbours_do_not_differ_more_than_claimed(variant):
    assert audit(lgb_dp.DPBoost(2.0, variant=variant), 2000) <= 2.0


@pytest.mark.slow
def test_a_third_of_the_leaf_noise_would_be_found_out(monkeypatch):
    from lgb_dp.mechanisms import noise as module

    original = module.discrete_laplace
    monkeypatch.setattr(module, "discrete_laplace", lambda n, s, e, r: original(n, s, 3 * e, r))
    assert audit(lgb_dp.DPBoost(2.0, leaf_share=0.99), 2500) > 2.0


@pytest.mark.parametrize(("times", "n"), [(30, 400), pytest.param(3, 2500, marks=pytest.mark.slow)])
def test_a_larger_selection_scale_would_be_found_out(monkeypatch, times, n):
    from lgb_dp.dpboost import square_loss as module

    original = module.selection_scale
    monkeypatch.setattr(module, "selection_scale", lambda e, w: times * original(e, w))
    assert audit(lgb_dp.DPBoost(2.0, leaf_share=0.01), n) > 2.0


# MBoost: forty rows of class 0, and one of class 1 that only the first of three features sets apart.


def mboost_models(n_rows, trainer, n):
    """One row per trained model: whether feature 0 was split on, leaf values and noisy counts."""
    rows = np.zeros((41, 3))
    rows[-1, 0] = 1.0
    label = np.r_[np.zeros(40), 1.0]
    data = lgb_dp.Dataset(rows[:n_rows], label=label[:n_rows], bounds=(0, 1), max_bin=2).construct()
    params = {"objective": "binary", "learning_rate": 1.0, "max_depth": 1, "verbosity": -1}
    found = []
    for _ in range(n):
        booster = lgb.train(params, data, 1, callbacks=[trainer])
        first = field(booster, "split_feature")[0] == 0
        found.append(np.r_[first, leaf_values(booster), field(booster, "leaf_count")])
    return np.array(found)


def mboost_audit(n, epsilon=2.0, **settings):
    """Lower bound of the ε that MBoost really has."""
    settings = {"alpha": 1.0, "smoothing": 0.0, "n_rows": 40, "leaf_bound": 50.0, **settings}
    trainer = lgb_dp.MBoost(epsilon, **settings)
    return epsilon_lower_bound(mboost_models(41, trainer, n), mboost_models(40, trainer, n))


@pytest.mark.slow
def test_a_third_of_the_leaf_noise_of_mboost_would_be_found_out(monkeypatch):
    from lgb_dp.mechanisms import noise as module

    original = module.discrete_laplace
    monkeypatch.setattr(module, "discrete_laplace", lambda n, s, e, r: original(n, s, 3 * e, r))
    assert mboost_audit(1500, leaf_share=0.99) > 2.0


@pytest.mark.slow
@pytest.mark.parametrize("leaf_share", [0.01, 0.99])
@pytest.mark.parametrize("settings", [{"n_rows": 1}, {"alpha": 0.1, "smoothing": 0.1}])
def test_long_audit_of_mboost(leaf_share, settings):
    assert mboost_audit(2500, leaf_share=leaf_share, **settings) <= 2.0


@pytest.mark.slow
def test_long_audit_of_mboost_comes_close_to_the_claim():
    assert 0.9 < mboost_audit(5000, leaf_share=0.99) <= 2.0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(
    "trainer", [lgb_dp.DPBoost, lambda e: lgb_dp.DPBoost(e, variant="paper"), lgb_dp.SequentialBoost]
)
def test_long_audit(trainer, epsilon):
    assert audit(trainer(epsilon), 20_000) <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("leaf_share", "close"), [(0.01, 0.9), (0.99, 1.4)])
def test_long_audit_comes_close_to_the_claim(leaf_share, close):
    assert close < audit(lgb_dp.DPBoost(2.0, leaf_share=leaf_share), 20_000) <= 2.0
