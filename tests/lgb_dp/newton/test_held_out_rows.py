"""Held-out rows bound the learning rate, cost nothing, and train nothing."""

import numpy as np
import pytest
import scipy.sparse

import lgb_dp
from growers import grower_of
from lgb_dp.newton.held_out_rows import HeldOutSteps, can_hold_out
from lgb_dp.newton.releases.trees import LeafRelease
from lgb_dp.newton.splits import distilled as distilled_splits
from lgb_dp.newton.splits.distilled import FeatureHistograms
from lgb_dp.newton.splits.learned import OPENING_SHARE
from newton_training import X, Y, boosted, live_booster, training_scores
from small_training import dataset, field


@pytest.fixture
def held_out(monkeypatch):
    """Rows are held out whatever they can tell."""
    monkeypatch.setattr("lgb_dp.newton.core.distilled_depth", lambda *facts: (3, False))
    monkeypatch.setattr("lgb_dp.newton.core.can_hold_out", lambda *facts: True)
    monkeypatch.setattr(distilled_splits, "N_SURROGATE_ROWS", 500)


def release(gradient, hessian, std=1e-6):
    return LeafRelease(np.array(gradient)[:, None], np.array(hessian)[:, None], std)


def after(n_rounds, *releases, value=(0.5, -0.5)):
    steps = HeldOutSteps(n_rounds, salt=7)
    for _ in range(round(OPENING_SHARE * n_rounds)):
        assert steps.largest_rate(np.array(value)[:, None], release([9e6, 9e6], [1e6, 1e6])) == np.inf
    return [steps.largest_rate(np.array(value)[:, None], one) for one in releases][-1]


def test_the_largest_rate_is_a_share_of_the_best_for_held_out_rows():
    # 10⁶ rows each: full steps of ±½ are what their sums ask for.
    asked = release([-0.5e6, 0.5e6], [1e6, 1e6])
    assert after(1000, *[asked] * 200) == pytest.approx(0.2, abs=0.01)
    too_far = release([-0.1e6, 0.1e6], [1e6, 1e6])
    assert after(1000, *[too_far] * 200) == pytest.approx(0.04, abs=0.005)
    assert after(1000, *[asked] * 200, *[too_far] * 500) == pytest.approx(0.04, abs=0.005)


def test_nothing_is_learned_where_held_out_rows_lose_by_it():
    wrong = release([0.5e6, -0.5e6], [1e6, 1e6])
    assert after(1000, *[wrong] * 200) == 0.0


def test_no_rate_is_too_large_where_the_noise_hides_the_best_one():
    assert after(1000, release([0.0, 0.0], [1.0, 1.0], std=1e4)) > 1000
    assert after(1000, release([5.0, 5.0], [-1.0, -1.0])) == np.inf


def histograms(*counts):
    return FeatureHistograms([np.array([*c, 0.0]) for c in counts], 1.0)


def test_rows_are_held_out_where_equal_ones_are_few_and_noise_is_small():
    many, two = [10.0] * 40, [200.0, 200.0]
    assert can_hold_out(histograms(many, two), balanced=4 * 2000.0, depth=2, std=10.0)
    assert not can_hold_out(histograms(two, [90.0, 10.0, 300.0]), balanced=4 * 2000.0, depth=2, std=10.0)
    assert not can_hold_out(histograms([*many, 40.0]), balanced=4 * 2000.0, depth=2, std=10.0)
    assert not can_hold_out(histograms(many), balanced=4 * 2000.0, depth=2, std=2000.0)
    assert not can_hold_out(histograms(many), balanced=4 * 1500.0, depth=2, std=0.0)
    assert not can_hold_out(histograms([100.0]), balanced=4 * 2000.0, depth=2, std=0.1)


def test_numbers_of_cells_fit_16_bits():
    """At depth 16 a run of 105 million rows ended in an OverflowError."""
    many, plenty = histograms([10.0] * 40), 2000.0 * 2**16
    assert can_hold_out(many, balanced=plenty, depth=15, std=0.1)
    assert not can_hold_out(many, balanced=plenty, depth=16, std=0.1)


@pytest.mark.parametrize(
    "kind",
    ["dense", "sparse", "several classes", "groups", pytest.param("subsample", marks=pytest.mark.slow)],
)
def test_the_budget_is_what_it_is_without(held_out, kind):
    params, settings, data = {}, {}, dataset(X, Y)
    if kind == "sparse":
        data = dataset(scipy.sparse.csr_matrix(np.where(np.abs(X) < 0.5, 0, X)), Y)
    if kind == "several classes":
        params, data = {"objective": "multiclass", "num_class": 3}, dataset(X, np.arange(len(X)) % 3)
    if kind == "groups":
        data = dataset(X, Y, groups=np.arange(len(X)) // 2, rows_per_group=2)
    if kind == "subsample":
        settings = {"subsample": 0.5}
    booster = boosted(data, epsilon=8.0, n_rounds=12, params=params, **settings)
    counts = {row["release"]: row["count"] for row in booster.privacy.ledger}
    assert counts == {"label counts": 1, "feature histograms": 1, "leaf sums": 12}
    assert 7.9 < booster.privacy.spent[0] <= 8.0 * (1 + 1e-9)


def test_scores_follow_the_model_through_rollbacks(held_out):
    booster = live_booster(40)
    for _ in range(12):
        booster.update()
    grower = grower_of(booster)
    assert grower.beginning.steps.salt is not None
    for _ in range(3):
        booster.rollback_one_iter()
    booster.update()
    np.testing.assert_allclose(training_scores(booster)[:, 0], booster.predict(X, raw_score=True), atol=1e-9)


def test_without_privacy_too(held_out):
    with pytest.warns(lgb_dp.NotPrivateWarning):
        booster = boosted(dataset(scipy.sparse.csr_matrix(X), Y), epsilon=np.inf, n_rounds=12)
    assert booster.predict(X).std() > 0.05
    assert abs(field(booster, "leaf_count").sum() - len(X)) < 20  # rounded leaf by leaf


def test_a_given_rate_holds_no_rows_out(held_out):
    booster = boosted(n_rounds=6, params={"learning_rate": 0.1})
    assert booster.num_trees() == 6
    assert "learning_rate: 0.1" in booster.model_to_string()
