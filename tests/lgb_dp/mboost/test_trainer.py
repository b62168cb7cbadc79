"""What MBoost charges, what its trees are made of, and how it calibrates alpha."""

import numpy as np
import pytest

import lgb_dp
from lgb_dp.mboost import trainer as mboost
from lgb_dp.mboost.trainer import BOOST_STEPS
from lgb_dp.mechanisms import noise as mechanisms
from small_training import binary_data, dataset, field, leaf_values, train

X, Y = binary_data()


@pytest.mark.parametrize("n_rows", [None, 400])
@pytest.mark.parametrize("weight_share", [0.0, 0.25])
def test_every_release_is_charged_once_and_they_add_up_to_epsilon(n_rows, weight_share):
    trainer = lgb_dp.MBoost(2.0, n_rows=n_rows, weight_share=weight_share)
    report = train(dataset(X, Y), trainer, n_rounds=3, max_depth=3).privacy
    assert report.private
    assert report.delta == 0
    assert 2.0 * (1 - 1e-9) < report.epsilon <= 2.0
    counts = {}
    for row in report.ledger:
        counts[row["release"]] = counts.get(row["release"], 0) + row["count"]
    expected = {f"splits of level {level}": 3 for level in (1, 2, 3)} | {"leaf class weights": 3}
    if weight_share:
        expected |= {f"weights of level {level}": 3 for level in (2, 3)}
    if n_rows is None:
        expected |= {"number of rows": 1}
    assert counts == expected
    by_hand = sum(row["epsilon"] * row["count"] for row in report.ledger)
    assert report.epsilon == pytest.approx(by_hand, rel=1e-12)
    shares = {row["release"]: row["epsilon"] * 3 / 2.0 for row in report.ledger}
    paid = 1.0 if n_rows else 1 - mboost.COUNT_SHARE
    assert shares["leaf class weights"] == pytest.approx(0.3 * paid)
    assert 3 * shares["splits of level 1"] == pytest.approx((0.7 - weight_share) * paid)


def test_multi_class_trainings_share_the_budget():
    label = (X[:, 0] > 0).astype(float) + (X[:, 1] > 0)
    booster = train(
        dataset(X, label), lgb_dp.MBoost(1.0), n_rounds=2, objective="multiclass", num_class=3, max_depth=2
    )
    assert booster.num_trees() == 6
    assert 1.0 * (1 - 1e-9) < booster.privacy.epsilon <= 1.0


def test_an_interrupted_training_reports_what_was_spent():
    trainer = lgb_dp.MBoost(1.0, n_rows=400)

    def stop(env):
        if env.iteration == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(dataset(X, Y), trainer, n_rounds=4, callbacks=[stop])
    assert trainer.booster_.privacy.epsilon == pytest.approx(0.5)


def test_empty_leaves_are_noised_like_any_other(monkeypatch):
    asked = []
    noise = mechanisms.discrete_laplace
    monkeypatch.setattr(
        mechanisms, "discrete_laplace", lambda n, s, e, random: asked.append((n, s)) or noise(n, s, e, random)
    )
    train(dataset(X[:3], Y[:3]), lgb_dp.MBoost(1.0, n_rows=3), n_rounds=1, max_depth=3)
    assert asked == [(16, BOOST_STEPS // 2)]


def test_leaves_and_counts_are_those_of_the_noised_class_weights(monkeypatch):
    """h = ψ(u), u = (P + s) / (P + N + 2s) with s the scale of the noise, clipped and times the rate."""
    noise = np.array([10, -4, -900, 7, 0, 0, 3, -1]) * BOOST_STEPS
    monkeypatch.setattr(mechanisms, "discrete_laplace", lambda n, *_: noise[:n])
    data = dataset(X, Y)
    trainer = lgb_dp.MBoost(1.0, alpha=0.5, n_rows=400, leaf_bound=1.2)
    booster = train(data, trainer, n_rounds=1, learning_rate=0.3)
    leaf = booster.predict(X, pred_leaf=True).ravel()
    sums = np.array([[Y[leaf == i].sum() / 2, (1 - Y[leaf == i]).sum() / 2] for i in range(4)])
    sums = np.maximum(sums + noise.reshape(4, 2) / BOOST_STEPS, 0)
    scale = 0.5 / booster.privacy.ledger[-1]["epsilon"]
    u = (sums[:, 0] + scale) / (sums.sum(axis=1) + 2 * scale)
    expected = 0.3 * np.clip(lgb_dp.MLoss(0.5).link(u), -1.2, 1.2)
    np.testing.assert_allclose(leaf_values(booster), expected, rtol=1e-9)
    np.testing.assert_array_equal(field(booster, "leaf_count"), np.rint(2 * sums.sum(axis=1)).clip(1))


def test_the_noised_coefficient_is_the_papers(monkeypatch):
    monkeypatch.setattr(mechanisms, "discrete_laplace", lambda n, *_: np.zeros(n, dtype=np.int64))
    trainer = lgb_dp.MBoost(1.0, alpha=0.5, n_rows=len(X), leverage="noised", leaf_bound=2.0)
    booster = train(dataset(X, Y), trainer, n_rounds=1, learning_rate=0.7)
    public = lgb_dp.MBoost(1.0, alpha=0.5, n_rows=len(X), leaf_bound=2.0)
    raw = booster.predict(X, raw_score=True)
    # h up to its factor; leaves of ψ do not exceed M here, so h = ψ(u).
    leaf = booster.predict(X, pred_leaf=True).ravel()
    scale = 0.5 / booster.privacy.ledger[-1]["epsilon"]
    h = np.empty(len(X))
    for i in range(4):
        positive, all_rows = Y[leaf == i].sum() / 2, (leaf == i).sum() / 2
        h[leaf == i] = public_link((positive + scale) / (all_rows + 2 * scale), public)
    coefficient = 0.7 * 4 * 0.5 * np.mean(0.5 * (2 * Y - 1) * h) / 2.0**2
    np.testing.assert_allclose(raw, coefficient * h, rtol=1e-6)


def public_link(u, trainer):
    return np.clip(lgb_dp.MLoss(trainer.alpha).link(u), -trainer.leaf_bound, trainer.leaf_bound)


def alphas_and_caps(monkeypatch, trainer, **params):
    seen = []
    risks = mboost.candidate_risks
    monkeypatch.setattr(
        mboost,
        "candidate_risks",
        lambda histograms, layout, alpha, cap, *rest: (
            seen.append((alpha.copy(), cap.copy(), histograms.copy()))
            or risks(histograms, layout, alpha, cap, *rest)
        ),
    )
    train(dataset(X, Y), trainer, n_rounds=1, max_depth=3, **params)
    return seen


def test_the_public_schedule_is_two_to_minus_depth(monkeypatch):
    seen = alphas_and_caps(monkeypatch, lgb_dp.MBoost(1.0, weight_share=0.0, n_rows=400))
    for level, (alpha, cap, _) in enumerate(seen):
        np.testing.assert_array_equal(alpha, np.full(2**level, 0.5**level))
        np.testing.assert_array_equal(cap, np.full(2**level, 400 * BOOST_STEPS / 2))


def test_paid_calibration_is_the_share_of_the_noised_weight(monkeypatch):
    monkeypatch.setattr(mechanisms, "discrete_laplace", lambda n, *_: np.zeros(n, dtype=np.int64))
    seen = alphas_and_caps(monkeypatch, lgb_dp.MBoost(1.0, weight_share=0.2, n_rows=400))
    assert seen[0][0].tolist() == [1.0]
    for alpha, cap, histograms in seen[1:]:
        weight = histograms[:, :9].sum(axis=(1, 2))
        expected = np.maximum(weight, BOOST_STEPS // 2) / np.maximum(weight, BOOST_STEPS // 2).sum()
        np.testing.assert_allclose(alpha, expected)
        assert (cap <= 400 * BOOST_STEPS / 2).all()
        assert (cap >= weight).all() or cap.max() == 400 * BOOST_STEPS / 2


def test_a_fixed_alpha_stays(monkeypatch):
    seen = alphas_and_caps(monkeypatch, lgb_dp.MBoost(1.0, alpha=0.3, weight_share=0.2))
    assert all((alpha == 0.3).all() for alpha, _, _ in seen)
