"""The last release, of the level of predictions: its cost, when it is made, and the mean it gives."""

import contextlib
import math

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

import lgb_dp
from drawn_noise import gaussians_drawn
from lgb_dp.accounting.gaussian import gaussian_mu
from lgb_dp.losses.label_counts import LabelCounts
from lgb_dp.losses.level import FactorLevel, MeanLevel, unit_deviance, without_noise
from lgb_dp.losses.loss import HESSIAN_LIMIT, STEPS
from lgb_dp.losses.regression import LOG_LINK_HESSIAN_LIMIT, LogLinkLoss
from lgb_dp.mechanisms import noise as mechanisms
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.budget_plan import LEVEL_SHARE
from lgb_dp.newton.run_task import RunTask
from newton_training import DELTA
from small_training import dataset

RNG = np.random.default_rng(0)
N_ROWS = 20_000
X = RNG.uniform(-1, 1, (N_ROWS, 3))
MEAN = 0.3 * np.exp(0.8 * X[:, 0] + 0.5 * (X[:, 1] > 0))
COUNTS = RNG.poisson(MEAN * RNG.gamma(0.7, 1 / 0.7, N_ROWS)).clip(0, 50).astype(float)
AMOUNTS = (MEAN * np.exp(RNG.normal(0.0, 1.0, N_ROWS) - 0.5)).clip(0.01, 50)
LABELS = {
    "poisson": (COUNTS, (0, 50)),
    "gamma": (AMOUNTS, (0.01, 50)),
    "tweedie": (COUNTS, (0, 50)),
    "regression": (AMOUNTS.clip(0, 4), (0, 4)),
}
FACTOR = FactorLevel(clip=1.0, row_hessian=0.5, largest_doubt=1.0)

powers = st.sampled_from([1.0, 1.3, 1.5, 1.9, 2.0])
sizes = st.floats(0.01, 10.0)


def boosted(objective="poisson", epsilon=4.0, n_rounds=60, n_rows=N_ROWS, trainer=(), **data):
    label, bounds = LABELS[objective]
    rows = {"bounds": (-1, 1), "max_bin": 16, "label_bounds": bounds, **data}
    params = {"objective": objective, "verbosity": -1}
    private = lgb_dp.NewtonBoost(epsilon, DELTA, **dict(trainer))
    return lgb.train(params, dataset(X[:n_rows], label[:n_rows], **rows), n_rounds, callbacks=[private])


def without_level(monkeypatch):
    monkeypatch.setattr("lgb_dp.newton.trainer.RunTask", lambda **kw: RunTask(may_set_level=False, **kw))


def releases(booster):
    return {row["release"]: (row["mu"], row["count"]) for row in booster.privacy.ledger}


@given(sizes, sizes, powers)
def test_the_deviance_is_the_integral_of_the_gradient(label, mean, power):
    found = unit_deviance(np.array([label]), mean, power)[0]
    expected, _ = quad(lambda t: 2 * (label - t) / t**power, mean, label)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(sizes, st.floats(1.0, 2.0))
def test_no_power_has_a_deviance_below_zero(mean, power):
    """Rounding must not make it negative: its root is taken."""
    label = mean * np.array([1 - 2e-16, 1.0, 1 + 3e-16, 1 + 1e-9, 1.5])
    found = unit_deviance(label, mean, power)
    assert (found >= 0).all()
    assert found[:4] == pytest.approx(0, abs=1e-15)
    assert found[4] == pytest.approx(quad(lambda t: 2 * (label[4] - t) / t**power, mean, label[4])[0])


@pytest.mark.parametrize("power", [1.1, 1.3, 1.5, 1.9, 1 + 1e-13, 2 - 1e-13])
@pytest.mark.parametrize("label", range(6))
def test_labels_that_are_all_alike_have_no_level(power, label):
    """Whatever rounding makes of their deviance, which is 0."""
    loss = LogLinkLoss(power, 0.0, 50.0, None, 0.0)
    counts = np.zeros(loss.n_counts(1))
    counts[-1 - 2 * label] = 1000.0
    assert loss.start(counts, 1.0).level.largest_doubt == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("power", [1.0, 1.5])
def test_the_deviance_of_a_label_of_zero(power):
    """Twice the integral of ``t^(1 - ρ)`` from 0 to the mean."""
    found = unit_deviance(np.array([0.0, 2.0]), 0.25, power)
    assert found[0] == pytest.approx(2 * 0.25 ** (2 - power) / (2 - power))
    assert found[1] == pytest.approx(unit_deviance(np.array([2.0]), 0.25, power)[0])


@pytest.mark.parametrize(
    ("power", "mean", "clip", "wide"),
    [
        (1.0, 0.05, 0.01, 0.45),  # up to the point above the largest label
        (1.5, 0.05, 0.01, 0.45 / math.sqrt(0.05)),
        (2.0, 0.001, 0.01, 64.0),
        (1.0, 0.2, 0.01, 0.8),  # four hessians of the mean
        (1.0, 0.05, 0.7, 0.7),  # that of the trees
    ],
)
def test_the_clip_of_a_factor_reaches_the_next_point(power, mean, clip, wide):
    labels = LabelCounts(np.array([1e-3, 0.25, 0.5, 1.0]), np.array([10.0, 5.0, 0.0, 0.0]), np.zeros(5))
    level, hessian = FactorLevel.of(labels, power, mean, clip), mean ** (2 - power)
    assert level.clip == pytest.approx(wide)
    assert level.row_hessian == pytest.approx(hessian / wide)
    deviance = unit_deviance(labels.point[:2], mean, power) @ [2 / 3, 1 / 3]
    assert level.largest_doubt == pytest.approx(math.sqrt(0.008 * deviance / hessian))


def test_labels_at_the_last_point_have_none_above():
    labels = LabelCounts(np.array([0.0, 0.5, 1.0]), np.array([8.0, 1.0, 1.0]), np.zeros(4))
    assert FactorLevel.of(labels, 1.0, 0.15, 0.01).clip == pytest.approx(0.85)


def test_a_factor_is_released_up_to_its_largest_doubt():
    assert FACTOR.planned(5.0, 10.0) is FACTOR
    assert FACTOR.planned(5.1, 10.0) is None


def test_no_mean_is_moved_by_more_than_half_the_width_of_the_bounds():
    assert MeanLevel(50.0, 0.5, 50.0).shift(-1e6, 1e6, 0.0) == 1.0
    assert MeanLevel(50.0, 0.5, 50.0).shift(1e6, 1e6, 0.0) == -1.0


@given(st.lists(st.tuples(sizes, sizes), min_size=1, max_size=20), powers)
def test_predictions_times_the_factor_have_no_gradient(rows, power):
    label, m = np.array(rows).T

    def gradient(k):
        return ((k * m) ** (1 - power) * (k * m - label)).sum()

    shift = FACTOR.shift(gradient(1.0), (m ** (2 - power)).sum(), 0.0)
    assert abs(shift) <= math.log(2.0)
    if abs(shift) < math.log(2.0):
        scale = (m ** (1 - power) * (m + label)).sum() * 4
        assert gradient(math.exp(shift)) == pytest.approx(0.0, abs=1e-9 * scale)


@given(st.floats(-1e3, 1e3), st.floats(1.0, 1e3), st.floats(0.0, 1e3))
def test_noise_only_shortens_the_way_of_predictions(gradient, hessian, std):
    exact, found = without_noise(gradient, hessian, 0.0), without_noise(gradient, hessian, std)
    assert abs(found) <= abs(exact)
    assert found * exact >= 0
    if abs(gradient) <= std:
        assert found == 0


def test_the_mean_of_predictions_is_that_of_the_labels(monkeypatch):
    """Without the last release it is lower by the gradients that are cut off, a fortieth of rare counts."""
    monkeypatch.setitem(LABELS, "poisson", (RNG.poisson(MEAN / 5).astype(float), (0, 50)))
    label = LABELS["poisson"][0]

    def ratios():
        return [boosted(epsilon=50.0).predict(X).mean() / label.mean() for _ in range(3)]

    found = ratios()
    without_level(monkeypatch)
    assert max(ratios()) < 0.985
    assert found == pytest.approx([1.0] * 3, abs=0.01)


@given(st.floats(0.0, 1e6), st.floats(1.0, 1e9), st.floats(1.0, 50.0))
def test_the_clip_of_a_mean_is_as_wide_as_noise_allows(std, n_rows, widest):
    level = MeanLevel(widest, 0.5).planned(std, n_rows)
    if level is None:
        assert widest < 3 or 3 * std / (0.5 * n_rows) > 0.01 * (1 - 1e-9)
        return
    assert 3 <= level.clip <= widest
    assert level.clip * std / (0.5 * n_rows) <= 0.01 * (1 + 1e-9)
    assert level.shift(-0.1 * n_rows, 0.5 * n_rows, 0.0) == pytest.approx(min(0.2 * level.clip, 1.0))


@pytest.mark.parametrize("epsilon", [1.0, 50.0, math.inf])
def test_the_square_loss_predicts_the_mean_of_skewed_labels(epsilon, monkeypatch):
    label, trainer = LABELS["regression"][0], {"structure": "random"}

    def ratio():
        return boosted("regression", epsilon, 200, trainer=trainer).predict(X).mean() / label.mean()

    with pytest.warns(lgb_dp.NotPrivateWarning) if math.isinf(epsilon) else contextlib.nullcontext():
        assert ratio() == pytest.approx(1.0, abs=0.05 if epsilon == 1 else 0.01)
        without_level(monkeypatch)
        assert ratio() < 0.9


@pytest.mark.parametrize("weights", [{}, {"weight": np.linspace(0, 2, N_ROWS), "weight_bound": 2.0}])
@pytest.mark.parametrize(
    ("objective", "clip", "limit"),
    [("poisson", 1.0, LOG_LINK_HESSIAN_LIMIT), ("regression", 0.08, HESSIAN_LIMIT["regression"])],
)
def test_it_takes_its_share_of_the_budget(monkeypatch, objective, clip, limit, weights):
    drawn = gaussians_drawn(monkeypatch)
    booster, whole = boosted(objective, n_rounds=5, **weights), gaussian_mu(4.0, DELTA)
    found = releases(booster)
    assert list(found) == ["label counts", "leaf sums", "sums over all rows"]
    assert found["sums over all rows"] == (pytest.approx(whole * math.sqrt(LEVEL_SHARE)), 1)
    squares = sum(count * mu**2 for mu, count in found.values())
    assert whole**2 * (1 - 1e-9) < squares <= whole**2
    assert booster.privacy.epsilon <= 4.0
    assert booster.privacy.spent == (booster.privacy.epsilon, booster.privacy.delta)
    std = STEPS * (1024 if weights else 1) / found["sums over all rows"][0]
    assert drawn[-2:] == [(1, pytest.approx(clip * std)), (1, pytest.approx(limit * std))]


@pytest.mark.parametrize("objective", LABELS)
def test_a_row_more_moves_all_releases_by_no_more_than_mu(objective, monkeypatch):
    """The lengths of what a row adds to sums, in units of the noise, over a whole run."""
    monkeypatch.setattr("lgb_dp.boosting.training.SecureRandom", lambda state: SecureRandom(7))
    monkeypatch.setattr("lgb_dp.losses.level.MAX_COST", 1e12)
    monkeypatch.setattr("lgb_dp.losses.level.LARGEST_DOUBT", 1e12)
    seen = []
    for n in (600, 599):
        private = []

        def observe(values, release, private=private):
            private.append(values)
            return np.full_like(release(), 1)

        with mechanisms.observed(observe):
            booster = boosted(objective, epsilon=1.0, n_rounds=4, n_rows=n)
        assert "sums over all rows" in releases(booster)
        seen.append(private)
    lengths = [
        (((more.values - less.values).astype(float) / more.scale) ** 2).sum()
        for more, less in zip(*seen, strict=True)
    ]
    level = LEVEL_SHARE * gaussian_mu(1.0, DELTA) ** 2
    assert [one.values.size for one in seen[0][-2:]] == [1, 1]
    assert 0 < sum(lengths[-2:]) <= level * (1 + 1e-9)
    assert sum(lengths) <= gaussian_mu(1.0, DELTA) ** 2


@pytest.mark.parametrize("objective", ["poisson", "regression"])
def test_it_is_not_made_where_its_noise_costs_more_than_it_is_worth(monkeypatch, objective):
    few = releases(boosted(objective, epsilon=0.1, n_rounds=5, n_rows=600))
    assert list(few) == ["label counts", "leaf sums"]
    without_level(monkeypatch)
    assert releases(boosted(objective, epsilon=0.1, n_rounds=5, n_rows=600)) == few


def test_it_is_not_made_where_no_residual_is_cut():
    found = releases(boosted("regression", n_rounds=3, trainer={"gradient_clip": 1.0}))
    assert "sums over all rows" not in found


def test_it_is_made_after_the_last_tree_that_is_planned():
    found = releases(boosted(n_rounds=4, trainer={"rounds": 5}))
    assert found["leaf sums"][1] == 4
    assert "sums over all rows" not in found


def test_secret_samples_have_none(monkeypatch):
    """All rows would be asked."""
    monkeypatch.setattr("lgb_dp.newton.budget_plan.sampled_mu", lambda *args: 0.1)  # accounting of seconds
    monkeypatch.setattr("lgb_dp.accounting.cost.composed_epsilon", lambda mu, sampled, delta: 1.0)
    assert "sums over all rows" not in releases(boosted(n_rounds=3, trainer={"subsample": 0.5}))
