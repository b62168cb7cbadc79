"""MBoost: its sensitivities, its ledger, exact training, and what becomes of a model."""

import dataclasses

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from gbdt_kernels.trees import BinLayout, DenseCodes, candidate_risks, level_histograms
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay import privacy_loss
from small_training import binary_data, dataset, field, leaf_values, train

import lgb_dp
from lgb_dp.mboost import trainer as mboost
from lgb_dp.mboost.trainer import BOOST_STEPS, ROUNDING, risk_sensitivity, stopped_at_purity

X, Y = binary_data()
EVERY_TEST = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


# The sensitivity of a risk.


@st.composite
def neighbours(draw):
    """Codes with missing ones, weights by class, the largest weight; the last row is the added one."""
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = rng.integers(0, 5, size=(n, 2)).astype(np.uint8)
    if draw(st.booleans()):
        codes[:] = 1
    largest = int(draw(st.sampled_from([1, 7, BOOST_STEPS])))
    weight = rng.choice([largest, largest, largest // 2, 0], n)
    positive = rng.random(n) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    positive[-1] = draw(st.booleans())
    return codes, np.where(positive, weight, 0), np.where(positive, 0, weight), largest


def layout():
    subsets = np.random.default_rng(5).random((3, 10)) < 0.5
    return BinLayout(np.array([4, 4]), np.array([False, True]), subsets)


def risks(codes, positive, negative, n_rows, alpha, cap, prior):
    sums = (positive.astype(np.int32), negative.astype(np.int32))
    rows, starts = np.arange(n_rows, dtype=np.int32), np.array([0, n_rows])
    histogram = level_histograms(DenseCodes(codes), rows, starts, *sums, layout())
    per_node = (np.array([value], dtype=float) for value in (alpha, cap, prior))
    return candidate_risks(histogram, layout(), *per_node)[0]


def sensitivity(alpha, cap, prior, largest):
    return float(risk_sensitivity(*(np.array([v], dtype=float) for v in (alpha, cap, prior)), largest)[0])


@settings(max_examples=300, deadline=None)
@given(
    neighbours(),
    st.sampled_from([0.0, 0.001, 0.5, 1.0]),
    st.sampled_from([1.0, 1.5, 5.0, 100.0]),
    st.sampled_from([0.0, 0.01, 1.0]),
)
def test_adding_a_row_raises_every_risk_by_at_most_the_sensitivity(data, alpha, cap, smoothing):
    codes, positive, negative, largest = data
    n = len(codes)
    parts = alpha, cap * largest, smoothing * cap * largest
    change = risks(codes, positive, negative, n, *parts) - risks(codes, positive, negative, n - 1, *parts)
    assert change.min() >= -1e-9 * largest
    assert change.max() <= sensitivity(*parts, largest)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_sensitivity_is_attained(alpha, smoothing):
    """Candidates that put a new positive row into a pure child, and into one with no negative row."""
    m = 100
    codes = np.zeros((m + 1, 2), dtype=np.uint8)
    codes[m] = 2
    negative = np.r_[np.ones(m, int), 0]
    parts = alpha, float(m), smoothing * m
    change = risks(codes, 1 - negative, negative, m + 1, *parts) - risks(
        codes, 1 - negative, negative, m, *parts
    )
    wide = sensitivity(*parts, 1)
    lone = 2 * alpha * (np.sqrt((1 + smoothing * m) * smoothing * m) - smoothing * m)
    # In the root itself (all of a candidate's rows in one child) the full width, elsewhere the lone row's.
    codes[m] = 0
    full = risks(codes, 1 - negative, negative, m + 1, *parts) - risks(
        codes, 1 - negative, negative, m, *parts
    )
    assert full.max() == pytest.approx(wide, abs=4 * ROUNDING)
    assert change.min() == pytest.approx(lone, abs=1e-9)


def test_without_cap_and_prior_it_is_the_papers_corollary():
    for alpha in (0.1, 0.5, 1.0):
        for m in (1, 100, 10_000):
            paper = 2 * alpha * np.sqrt(m) + 2 * (1 - alpha)
            assert sensitivity(alpha, m, 0.0, 1) == pytest.approx(paper, abs=4 * ROUNDING)


# The privacy loss of whole trainings.


@st.composite
def trainings(draw):
    """Neighbouring data sets, the added row last, and settings of every kind."""
    n = draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = np.column_stack([rng.choice([-2.9, -1, 0, 2.9, np.nan], n), rng.integers(0, 5, n)])
    n_classes = draw(st.sampled_from([2, 3]))
    label = rng.integers(0, n_classes, n).astype(float)
    if draw(st.booleans()):
        rows[:-1], label[:-1] = rows[0], label[0]
    weight = rng.choice([0.0, 0.3, 2.0], n) if draw(st.booleans()) else None
    start = rng.choice([-100.0, 0.0, 0.5, 100.0], (n, n_classes if n_classes > 2 else 1))
    trainer = {
        "alpha": draw(st.sampled_from([0.01, 0.5, 1.0, "calibrated"])),
        "smoothing": draw(st.sampled_from([0.0, 0.1])),
        "weight_share": draw(st.sampled_from([0.0, 0.2])),
        "leaf_share": draw(st.sampled_from([0.01, 0.3])),
        "leaf_bound": draw(st.sampled_from([0.5, 100.0])),
        "leverage": draw(st.sampled_from(["public", "noised"])),
        "n_rows": draw(st.sampled_from([None, 1e-3, 40.0, 2.0**40])),
    }
    params = {"max_depth": draw(st.integers(1, 3)), "learning_rate": draw(st.sampled_from([0.1, 1.0]))}
    params |= (
        {"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": n_classes}
    )
    columns = rows, label, weight, start if draw(st.booleans()) else None
    return columns, trainer, params, draw(st.integers(1, 3)), draw(st.integers(0, 2**32 - 1))


def first_rows(columns, n):
    rows, label, weight, start = (column if column is None else column[:n] for column in columns)
    return lgb_dp.Dataset(
        rows,
        label,
        bounds={0: (-3, 3)},
        categories={1: range(5)},
        max_bin=4,
        weight=weight,
        weight_bound=None if weight is None else 2.0,
        init_score=start,
    )


def loss_of(monkeypatch, columns, trainer, params, n_rounds, seed, epsilon=3.0):
    n = len(columns[0])
    data = first_rows(columns, n), first_rows(columns, n - 1)
    # The same public subsets of categories in both trainings.
    callback = lgb_dp.MBoost(epsilon, random_state=1, **trainer)
    return privacy_loss(monkeypatch, seed, *data, callback, params, n_rounds)


@EVERY_TEST
@given(case=trainings())
def test_no_neighbours_and_outputs_lose_more_than_epsilon(monkeypatch, case):
    lost, epsilon = loss_of(monkeypatch, *case)
    assert epsilon <= 3.0
    assert lost <= epsilon


def worst_case(monkeypatch, epsilon=3.0, n=40, n_features=200):
    """Loss where nearly all of ε pays for one split of a pure node, and a row of the other class is added.

    One feature sets that row apart: by it the risk stays, by all others it rises by Δ.
    """
    rows = np.full((n + 1, n_features), -1.0)
    rows[n, 0] = 1.0
    label = np.r_[np.zeros(n), 1.0]
    trainer = lgb_dp.MBoost(epsilon, alpha=1.0, smoothing=0.0, leaf_share=1e-6, n_rows=n, random_state=1)
    both = (lgb_dp.Dataset(rows[:k], label[:k], bounds=(-3, 3), max_bin=2) for k in (n + 1, n))
    return privacy_loss(monkeypatch, 0, *both, trainer, {"objective": "binary", "max_depth": 1}, 1)[0]


def test_the_worst_neighbours_come_close_to_epsilon(monkeypatch):
    assert 0.96 * 3.0 < worst_case(monkeypatch) <= 3.0


@pytest.mark.parametrize("name", ["risk_sensitivity", "selection_scale"])
def test_a_tenth_too_little_noise_in_a_split_would_be_found_out(monkeypatch, name):
    original = getattr(mboost, name)
    factor = 0.9 if name == "risk_sensitivity" else 1.1
    monkeypatch.setattr(mboost, name, lambda *args: factor * original(*args))
    assert worst_case(monkeypatch) > 3.0


def mutated(columns, rng):
    """A case like another one: the added row and one other drawn anew."""
    rows, label, weight, start = (None if column is None else column.copy() for column in columns)
    for i in {int(rng.integers(len(rows))), len(rows) - 1}:
        other = int(rng.integers(len(rows)))
        rows[i] = (
            rows[other] if rng.random() < 0.3 else (rng.choice([-2.9, -1, 0, 2.9, np.nan]), rng.integers(5))
        )
        label[i] = rng.choice(label) if rng.random() < 0.5 else rng.integers(2)
        if weight is not None:
            weight[i] = rng.choice([0.0, 0.3, 2.0])
        if start is not None:
            start[i] = rng.choice([-100.0, -1.0, 0.0, 1.0, 100.0])
    return rows, label, weight, start


def climb(monkeypatch, trainer, n_rounds, weighted, started, rng, n_steps, n=15):
    """Largest loss found by going from case to case whenever it does not fall."""
    columns = (
        np.column_stack([rng.choice([-2.9, 2.9, np.nan], n), rng.integers(0, 5, n)]),
        np.zeros(n),
        np.full(n, 2.0) if weighted else None,
        np.zeros((n, 1)) if started else None,
    )
    params = {"objective": "binary", "max_depth": 2, "learning_rate": 1.0}
    seed, largest = 0, 0.0
    for _ in range(n_steps):
        new = mutated(columns, rng), seed if rng.random() < 0.5 else int(rng.integers(2**32))
        lost, epsilon = loss_of(monkeypatch, new[0], trainer, params, n_rounds, new[1])
        assert lost <= epsilon
        if lost >= largest:
            (columns, seed), largest = new, lost
    return largest


@pytest.mark.slow
@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize(("weighted", "started"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(
    "settings_of",
    [
        {"alpha": 1.0, "smoothing": 0.0, "n_rows": 1e-3},
        {"alpha": 0.1, "smoothing": 0.1, "weight_share": 0.2},
        {"alpha": "calibrated", "weight_share": 0.3, "leaf_bound": 50.0, "leverage": "noised"},
    ],
)
def test_a_directed_search_finds_no_loss_above_epsilon(monkeypatch, settings_of, weighted, started, n_rounds):
    rng = np.random.default_rng(n_rounds)
    assert climb(monkeypatch, settings_of, n_rounds, weighted, started, rng, 300) > 0.5


@pytest.mark.slow
@settings(EVERY_TEST, max_examples=1500)
@given(case=trainings())
def test_a_long_random_search_finds_no_loss_above_epsilon(monkeypatch, case):
    lost, epsilon = loss_of(monkeypatch, *case)
    assert lost <= epsilon


@pytest.mark.parametrize("released", [np.zeros(8), np.full(8, -50.0), np.full(8, 7.0)])
def test_boosting_weights_keep_to_the_bound_that_the_released_trees_give(monkeypatch, released):
    """Whatever the leaves were, no row's weight exceeds ψ⁻¹ of the largest score that they allow."""
    seen = []
    grow = mboost._MBoostTraining._grow_tree

    def record(self, k, sign, weight, largest):
        seen.append((weight.max(), largest))
        tree = grow(self, k, sign, weight, largest)
        return dataclasses.replace(tree, leaf_value=released + tree.leaf_value)

    monkeypatch.setattr(mboost._MBoostTraining, "_grow_tree", record)
    train(dataset(X, Y), lgb_dp.MBoost(5.0, alpha=1.0), n_rounds=4, max_depth=3)
    assert all(weight <= largest for weight, largest in seen)
    assert seen[0] == (BOOST_STEPS // 2, BOOST_STEPS // 2)
    assert BOOST_STEPS // 2 < seen[1][1] <= BOOST_STEPS


# The ledger.


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


# Structure: nothing depends on private counts.


def test_every_candidate_can_be_chosen_even_with_a_single_row():
    data = lgb_dp.Dataset(np.full((1, 2), -2.9), label=[1.0], bounds=(-3, 3), max_bin=4)
    seen = set()
    for _ in range(150):
        booster = train(data, lgb_dp.MBoost(0.01), n_rounds=1, max_depth=1)
        seen.add(tuple(field(booster, name)[0] for name in ("split_feature", "threshold", "decision_type")))
    assert len(seen) == 2 * 3 * 2


def test_trees_are_complete_on_pure_and_tiny_data():
    booster = train(dataset(X[:3], np.ones(3)), lgb_dp.MBoost(1.0), n_rounds=3, max_depth=3)
    assert all(tree["num_leaves"] == 8 for tree in booster.dump_model()["tree_info"])


def test_empty_leaves_are_noised_like_any_other(monkeypatch):
    asked = []
    noise = mboost.discrete_laplace
    monkeypatch.setattr(
        mboost, "discrete_laplace", lambda n, s, e, random: asked.append((n, s)) or noise(n, s, e, random)
    )
    train(dataset(X[:3], Y[:3]), lgb_dp.MBoost(1.0, n_rows=3), n_rounds=1, max_depth=3)
    assert asked == [(16, BOOST_STEPS // 2)]


def test_leaves_and_counts_are_those_of_the_noised_class_weights(monkeypatch):
    """h = ψ(u), u = (P + s) / (P + N + 2s) with s the scale of the noise, clipped and times the rate."""
    noise = np.array([10, -4, -900, 7, 0, 0, 3, -1]) * BOOST_STEPS
    monkeypatch.setattr(mboost, "discrete_laplace", lambda n, *_: noise[:n])
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
    monkeypatch.setattr(mboost, "discrete_laplace", lambda n, *_: np.zeros(n, dtype=np.int64))
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


# Objective calibration.


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
    monkeypatch.setattr(mboost, "discrete_laplace", lambda n, *_: np.zeros(n, dtype=np.int64))
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


# Without privacy.


def best_split(x, weight, sign, alpha, edges):
    """Smallest risk over thresholds, by the definition."""
    loss = lgb_dp.MLoss(alpha)

    def risk(mask):
        total = weight[mask].sum()
        return total * loss.bayes_risk(weight[mask & (sign > 0)].sum() / total) if total else 0.0

    return min(risk(x <= edge) + risk(x > edge) for edge in edges)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_exact_training_takes_the_best_split(alpha):
    one = X[:, :1]
    booster = train(
        dataset(one, Y), lgb_dp.MBoost(np.inf, alpha=alpha), n_rounds=1, max_depth=1, learning_rate=1.0
    )
    edges = np.linspace(-3, 3, 9)[1:-1]
    chosen = field(booster, "threshold")[0]
    weight, sign = np.full(len(Y), 0.5), 2 * Y - 1
    assert best_split(one[:, 0], weight, sign, alpha, [chosen]) == pytest.approx(
        best_split(one[:, 0], weight, sign, alpha, edges)
    )


def test_exact_training_is_deterministic_and_said_not_to_be_private():
    a, b = (train(dataset(X, Y), lgb_dp.MBoost(np.inf), n_rounds=5, max_depth=4) for _ in range(2))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert np.mean((a.predict(X) > 0.5) == Y) > 0.9
    assert not a.privacy.private
    assert a.privacy.epsilon == np.inf
    assert "without privacy" in a.privacy.reasons[0]
    later = lgb.train(
        {"objective": "binary", "max_depth": 2, "verbosity": -1},
        dataset(X, Y),
        1,
        init_model=a,
        callbacks=[lgb_dp.MBoost(1.0)],
    )
    assert later.privacy.epsilon == np.inf
    assert not later.privacy.private


def test_exact_training_with_the_papers_coefficient_lowers_the_surrogate():
    loss = lgb_dp.MLoss(1.0)
    trainer = lgb_dp.MBoost(np.inf, alpha=1.0, leverage="noised", leaf_bound=2.0)
    booster = train(dataset(X, Y), trainer, n_rounds=20, max_depth=2, learning_rate=1.0)
    values = [
        loss.surrogate((2 * Y - 1) * booster.predict(X, raw_score=True, num_iteration=t)).mean()
        for t in range(1, 21)
    ]
    assert values[0] < 1
    assert (np.diff(values) < 0).all()


def test_pure_and_empty_nodes_pass_their_weights_on():
    levels = [
        np.array([[5, 5]]),
        np.array([[5, 0], [0, 5]]),
        np.array([[2, 0], [3, 0], [0, 0], [0, 5]]),
    ]
    assert stopped_at_purity(levels).tolist() == [[5, 0], [5, 0], [0, 5], [0, 5]]
    levels[1] = np.array([[5, 5], [0, 0]])
    levels[2] = np.array([[4, 1], [1, 4], [0, 0], [0, 0]])
    assert stopped_at_purity(levels).tolist() == [[4, 1], [1, 4], [5, 5], [5, 5]]


def test_a_pure_node_is_not_split_without_privacy():
    """Four levels, but the first separates the classes: two values only."""
    rows = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    booster = train(dataset(rows, [0, 0, 1, 1]), lgb_dp.MBoost(np.inf), n_rounds=1, max_depth=4)
    assert len(np.unique(leaf_values(booster))) == 2
    assert booster.predict([[-3], [-2], [-1], [1], [2], [3]]).round().tolist() == [0, 0, 0, 1, 1, 1]


# What becomes of a model.


def awkward_data(n=500):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"number": rng.normal(size=n).clip(-3, 3), "code": rng.integers(0, 5, n)})
    frame.loc[::7, "number"] = np.nan
    label = ((frame["number"].fillna(1) > 0) ^ (frame["code"] == 2)).astype(float).to_numpy()
    data = lgb_dp.Dataset(
        frame,
        label,
        bounds={"number": (-3, 3)},
        categories={"code": range(5)},
        weight=rng.random(n),
        weight_bound=1.0,
    )
    return frame, label, data


@pytest.mark.parametrize("epsilon", [20.0, np.inf])
def test_missing_values_categories_and_weights_predict_natively_as_trained(tmp_path, epsilon):
    frame, label, data = awkward_data()
    trainer = lgb_dp.MBoost(epsilon, alpha=0.3)
    booster = train(data, trainer, n_rounds=4, max_depth=3)
    own = trainer.booster_.predict(frame)
    booster.save_model(tmp_path / "m.txt")
    native = lgb.Booster(model_file=tmp_path / "m.txt")
    np.testing.assert_allclose(native.predict(frame), own)
    assert np.mean((own > 0.5) == label) > 0.8
    assert lgb_dp.privacy_of(tmp_path / "m.txt").epsilon == booster.privacy.epsilon
    shap = native.predict(frame, pred_contrib=True)
    np.testing.assert_allclose(shap.sum(axis=1), native.predict(frame, raw_score=True), atol=1e-6)


def test_training_scores_are_those_of_the_model():
    """Boosting weights come from the trainer's own scores; they must be what the model predicts."""
    scores = []
    grow = mboost._MBoostTraining.grow_iteration

    def record(self):
        scores.append(self.predictions(self._rows, self.codes).copy())
        return grow(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mboost._MBoostTraining, "grow_iteration", record)
        booster = train(dataset(X, Y), lgb_dp.MBoost(5.0), n_rounds=3)
    for t in (1, 2):
        expected = booster.predict(X, raw_score=True, num_iteration=t)
        np.testing.assert_allclose(scores[t][:, 0], expected, rtol=1e-12, atol=1e-15)


def test_sparse_rows_train_as_dense_ones():
    dense = np.where(np.random.default_rng(0).random(X.shape) < 0.6, 0.0, X)
    sparse = scipy.sparse.csr_matrix(dense)
    models = [train(dataset(rows, Y), lgb_dp.MBoost(np.inf), max_depth=3) for rows in (dense, sparse)]
    np.testing.assert_array_equal(models[0].predict(dense), models[1].predict(dense))


def test_multi_class_learns_and_sigmoid_is_one():
    label = (X[:, 0] > -0.5).astype(float) + (X[:, 0] > 0.5)
    for objective in ("multiclass", "multiclassova"):
        booster = train(
            dataset(X, label), lgb_dp.MBoost(200.0, alpha=0.1), objective=objective, num_class=3, max_depth=2
        )
        assert np.mean(booster.predict(X).argmax(axis=1) == label) > 0.8
    assert "multiclassova num_class:3 sigmoid:1" in booster.model_to_string()
    binary = train(dataset(X, Y), lgb_dp.MBoost(1.0))
    raw = binary.predict(X, raw_score=True)
    np.testing.assert_allclose(binary.predict(X), 1 / (1 + np.exp(-raw)))


def test_continued_training_and_folds_compose():
    first = train(dataset(X, Y), lgb_dp.MBoost(1.0), n_rounds=2)
    params = {"objective": "binary", "max_depth": 2, "verbosity": -1}
    both = lgb.train(params, dataset(X, Y), 2, init_model=first, callbacks=[lgb_dp.MBoost(0.5)])
    assert both.privacy.epsilon == pytest.approx(1.5)
    data = dataset(X, Y)
    folds = lgb_dp.folds(3, data)
    result = lgb.cv(
        params, data, 2, folds=folds, callbacks=[lgb_dp.MBoost(0.5)], return_cvbooster=True, metrics="auc"
    )
    assert result["cvbooster"].boosters[0].privacy.epsilon == pytest.approx(1.0)


def test_label_bounds_name_the_classes():
    booster = train(dataset(X, np.where(Y > 0, 3.0, -1.0), label_bounds=(-1, 3)), lgb_dp.MBoost(np.inf))
    same = train(dataset(X, Y), lgb_dp.MBoost(np.inf))
    np.testing.assert_array_equal(booster.predict(X), same.predict(X))


# Bad input.


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("alpha", 0.0),
        ("alpha", 1.5),
        ("alpha", "auto"),
        ("leaf_share", 0.0),
        ("leaf_share", 1.0),
        ("weight_share", -0.1),
        ("weight_share", 0.7),
        ("smoothing", -1.0),
        ("smoothing", np.nan),
        ("leaf_bound", 0.0),
        ("leaf_bound", np.inf),
        ("leverage", "free"),
        ("n_rows", 0),
        ("n_rows", np.inf),
    ],
)
def test_arguments_are_checked(argument, value):
    with pytest.raises(ValueError, match=f"^{argument} must"):
        lgb_dp.MBoost(1.0, **{argument: value})


@pytest.mark.parametrize("epsilon", [0, -1, np.nan, -np.inf])
def test_epsilon_is_checked(epsilon):
    with pytest.raises(ValueError, match="epsilon must be positive"):
        lgb_dp.MBoost(epsilon)
    with pytest.raises(ValueError, match="epsilon must be positive and finite"):
        lgb_dp.DPBoost(np.inf)


def test_regression_is_refused():
    data = dataset(X, Y, label_bounds=(0, 1))
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="objective='regression'"):
        train(data, lgb_dp.MBoost(1.0), objective="regression")
