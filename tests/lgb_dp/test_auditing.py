"""`lgb_dp.audit` catches noise that is too small, and never accuses the code as it is."""

import numpy as np
import pytest
from scipy import stats

import lgb_dp
from lgb_dp.auditing import epsilon_lower_bound, mu_lower_bound
from lgb_dp.mechanisms import noise as mechanisms
from small_training import binary_data

DELTA = 1e-5
SURE = 1 - 1e-6
rng = np.random.default_rng(0)
X = rng.normal(0, 0.25, (150, 3)).clip(-1, 1)
CELLS = {
    "binary": ((X[:, 0] > -0.45).astype(float), {"objective": "binary"}, {}),
    "regression": (rng.normal(-0.8, 0.05, 150), {"objective": "regression"}, {"label_bounds": (-1.5, 1)}),
    "multiclass": ((X[:, 0] > 0.5) * 1.0 + (X[:, 0] > 0.7), {"objective": "multiclass", "num_class": 3}, {}),
}


OBJECTIVES = {
    objective: (np.exp(rng.normal(-1.5, 0.2, 150)), {"objective": objective}, {"label_bounds": (0.05, 20.0)})
    for objective in ("poisson", "gamma", "tweedie", "quantile", "huber", "regression_l1")
}


def audited(trainer, cell="binary", **kwargs):
    y, params, settings = (CELLS | OBJECTIVES)[cell]
    arguments = {"num_boost_round": 3, "n_runs": 120, "random_state": 7, "max_bin": 8, **settings, **kwargs}
    return lgb_dp.audit(trainer, X, y, bounds=(-1, 1), params={"max_depth": 2, **params}, **arguments)


def with_less_gaussian_noise(monkeypatch, factor=0.5):
    honest = mechanisms.rounded_gaussian
    monkeypatch.setattr(mechanisms, "rounded_gaussian", lambda n, s, r: honest(n, factor * s, r))


def test_half_the_noise_is_found_in_seconds(monkeypatch):
    with_less_gaussian_noise(monkeypatch)
    report = audited(lgb_dp.NewtonBoost(30.0, DELTA), n_runs=40, num_boost_round=2)
    assert report.mu_lower > report.mu_claimed
    assert report.violated
    assert "VIOLATED" in str(report)
    assert "repeat with more runs" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("cell", CELLS)
def test_half_the_noise_is_found(monkeypatch, cell, epsilon):
    with_less_gaussian_noise(monkeypatch)
    report = audited(lgb_dp.NewtonBoost(epsilon, DELTA), cell, n_runs=800)
    assert report.mu_lower > report.mu_claimed


@pytest.mark.slow
def test_half_the_noise_is_found_without_any_assumption(monkeypatch):
    with_less_gaussian_noise(monkeypatch)
    report = audited(lgb_dp.NewtonBoost(2.0, 1e-2), n_runs=4000)
    assert report.epsilon_lower > 2.0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("cell", CELLS)
def test_the_code_as_it_is_is_never_accused_and_the_canary_shows_all_there_is(cell, epsilon):
    report = audited(lgb_dp.NewtonBoost(epsilon, DELTA), cell, n_runs=800, confidence=SURE)
    assert not report.violated
    distance = report.with_canary.mean() - report.without_canary.mean()
    assert distance == pytest.approx(report.mu_claimed, abs=5 * np.sqrt(2 / 400))
    assert report.with_canary.std() == pytest.approx(1.0, abs=0.2)


QUICK = ("poisson", "quantile", "DPBoost", "MBoost", "RandomForestExponential")


def quick_or_slow(names):
    return [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in names]


@pytest.mark.parametrize("objective", quick_or_slow(OBJECTIVES))
def test_the_canary_shows_all_there_is_of_every_objective(objective):
    """As far apart as is claimed: any bound that were twice as large, or noise half as large, would show."""
    report = audited(
        lgb_dp.NewtonBoost(60.0, DELTA), objective, n_runs=40, num_boost_round=2, confidence=SURE
    )
    assert not report.violated
    distance = report.with_canary.mean() - report.without_canary.mean()
    assert distance == pytest.approx(report.mu_claimed, abs=5 * np.sqrt(2 / 20))
    assert report.mu_claimed > 4


def test_the_report_of_an_honest_trainer():
    report = audited(lgb_dp.NewtonBoost(1.0, DELTA), confidence=SURE, n_runs=40, num_boost_round=2)
    assert not report.violated
    assert report.claimed.epsilon == pytest.approx(1.0, rel=1e-6)
    assert report.mu_lower <= report.mu_claimed
    assert len(report.with_canary) == len(report.without_canary) == 20
    for part in ("parametric", "assumption-free", "can find", "cannot find", "mu ="):
        assert part in str(report)


PURE = {
    "DPBoost": lambda **kwargs: lgb_dp.DPBoost(2.0, **kwargs),
    "DPBoost paper": lambda **kwargs: lgb_dp.DPBoost(2.0, variant="paper"),
    "ParallelBoost": lambda: lgb_dp.ParallelBoost(2.0),
    "SequentialBoost": lambda: lgb_dp.SequentialBoost(2.0),
    "MBoost": lambda **kwargs: lgb_dp.MBoost(2.0, **kwargs),
    "RandomForestLaplace": lambda: lgb_dp.RandomForestLaplace(2.0),
    "RandomForestExponential": lambda: lgb_dp.RandomForestExponential(2.0),
}


@pytest.mark.parametrize("name", quick_or_slow(PURE))
def test_pure_trainers_are_not_accused(name):
    # In few runs, a row changes which label a leaf of a random forest gives.
    n_runs = 80 if name == "RandomForestExponential" else 40
    report = audited(PURE[name](), confidence=SURE, num_boost_round=2, n_runs=n_runs)
    assert report.mu_claimed is None
    assert report.mu_lower is None
    assert report.epsilon_lower <= report.claimed.epsilon
    # The log-likelihood ratio of an epsilon-DP mechanism is bounded, whatever the noise gives.
    assert np.ptp(np.r_[report.with_canary, report.without_canary]) > 0


def test_a_quarter_of_the_noise_of_dpboost_is_found(monkeypatch):
    honest = mechanisms.discrete_laplace
    monkeypatch.setattr(mechanisms, "discrete_laplace", lambda n, s, e, r: honest(n, s, 4 * e, r))
    report = audited(lgb_dp.DPBoost(1.0, leaf_share=0.99), num_boost_round=1, n_runs=400, confidence=SURE)
    assert report.epsilon_lower > 1.0


@pytest.mark.parametrize("kind", ["data frame", pytest.param("sparse", marks=pytest.mark.slow), "weights"])
def test_data_of_every_kind_and_unseeded_noise(kind):
    import pandas as pd
    import scipy.sparse

    rows, y = binary_data(60)
    settings = {"weight": np.ones(60), "weight_bound": 2.0} if kind == "weights" else {}
    data = {"data frame": pd.DataFrame, "sparse": scipy.sparse.csr_matrix}.get(kind, np.array)(rows)
    report = lgb_dp.audit(
        lgb_dp.NewtonBoost(1.0, DELTA),
        data,
        y,
        bounds=(-3, 3),
        params={"objective": "binary", "max_depth": 2},
        max_bin=8,
        n_runs=40,
        num_boost_round=1,
        confidence=SURE,
        **settings,
    )
    assert not report.violated
    assert report.claimed.private


@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_the_canary_may_be_a_person_of_several_rows(monkeypatch, noise):
    """All of a person's rows count: what a person shows is what is claimed, and half the noise is found."""
    with_less_gaussian_noise(monkeypatch, noise)
    groups = {"groups": np.arange(150) // 4, "rows_per_group": 3}
    confidence = SURE if noise == 1.0 else 0.95
    report = audited(
        lgb_dp.NewtonBoost(30.0, DELTA), **groups, n_runs=48, num_boost_round=2, confidence=confidence
    )
    assert report.violated == (noise < 1.0)
    distance = report.with_canary.mean() - report.without_canary.mean()
    assert distance == pytest.approx(report.mu_claimed, abs=5 * np.sqrt(2 / 24))
    assert distance > report.mu_claimed / 2  # a single row would show a third


def test_a_scale_that_depends_on_the_row_is_an_error(monkeypatch):
    from lgb_dp.newton import run_task as newton

    honest = newton.release_gaussian

    def release(sums, scale, random):
        if isinstance(random, mechanisms.GaussianReserve):
            return honest(sums, scale, random)
        return honest(sums, scale + abs(float(sums.sum())), random)

    monkeypatch.setattr(newton, "release_gaussian", release)
    with pytest.raises(lgb_dp.PrivateTrainingError, match="shows the row"):
        audited(lgb_dp.NewtonBoost(1.0, DELTA), n_runs=40)


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(ValueError, match="subsample"):
        audited(lgb_dp.NewtonBoost(1.0, DELTA, subsample=0.5))
    with pytest.raises(ValueError, match="epsilon = inf"):
        audited(lgb_dp.MBoost(np.inf))
    with pytest.raises(TypeError, match="trainer"):
        audited(lgb_dp.DPLGBMClassifier())
    for n_runs in (2, 1 << 31, 10**400):
        with pytest.raises(ValueError, match="n_runs"):
            audited(lgb_dp.DPBoost(1.0), n_runs=n_runs)
    with pytest.raises(ValueError, match="confidence"):
        audited(lgb_dp.DPBoost(1.0), confidence=1.0)


def test_an_audit_does_not_spend_a_budget_or_change_its_trainer():
    budget = lgb_dp.Budget(1.0, 1e-4)
    trainer = lgb_dp.NewtonBoost(0.5, DELTA, budget=budget)
    before = dict(vars(trainer))
    audited(trainer, n_runs=40, num_boost_round=1)
    assert vars(trainer) == before
    assert budget.spent == lgb_dp.Budget(1.0, 1e-4).spent


@pytest.mark.parametrize("mu", [0.0, 0.5, 2.0])
def test_the_parametric_bound_has_its_confidence(mu):
    draws = np.random.default_rng(5)
    bounds = [
        mu_lower_bound(draws.normal(mu, 1, 30) * 3, draws.normal(0, 1, 30) * 3, 0.9) for _ in range(100)
    ]
    above = np.mean(np.array(bounds) > mu)
    assert stats.binom.sf(above * 100, 100, 0.1) > 1e-4
    assert np.median(bounds) > mu - 1.0


def test_the_assumption_free_bound_is_below_the_truth_and_comes_near():
    draws = np.random.default_rng(6)
    epsilon = 1.5
    truth = np.exp(epsilon) / (1 + np.exp(epsilon))
    bounds = [
        epsilon_lower_bound(1.0 * (draws.random(2000) < truth), 1.0 * (draws.random(2000) > truth), 0.0, 0.9)
        for _ in range(50)
    ]
    assert stats.binom.sf(np.sum(np.array(bounds) > epsilon), 50, 0.1) > 1e-4
    assert np.median(bounds) > 1.0
    assert epsilon_lower_bound(np.zeros(50), np.zeros(50), 0.0, 0.9) == 0.0
