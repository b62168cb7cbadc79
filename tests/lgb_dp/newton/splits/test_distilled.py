"""Surrogate rows follow released histograms, and greedy trees follow the model, whatever happens to it."""

import lightgbm as lgb
import numpy as np
import pytest
import scipy.sparse

import lgb_dp
from gbdt_kernels.trees import DenseCodes
from growers import grower_of
from lgb_dp.losses.labels import LabelScale
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.trees import LeafRelease, PublicTree, ReleasedTree
from lgb_dp.newton.splits import distilled as distilled_splits
from lgb_dp.newton.splits.distilled import (
    DistilledSplits,
    SurrogateScores,
    start_scores,
    surrogate_rows,
    values_of_codes,
)
from lgb_dp.newton.splits.feature_histograms import FeatureHistograms
from lgb_dp.newton.splits.tree_kinds import TreeKinds
from newton_training import QUIET, X, Y, boosted, live_booster, training_scores
from small_bins import Bins
from small_training import dataset

BINS = Bins([33, 33, 5, 1], categorical=[2])
RNG = np.random.default_rng(3)


@pytest.fixture
def distilled(monkeypatch):
    """Structures are distilled whatever there is to learn from, on few surrogate rows."""
    monkeypatch.setattr(TreeKinds, "greedy_leads", True)
    monkeypatch.setattr("lgb_dp.newton.core.distilled_depth", lambda *facts: (3, True))
    monkeypatch.setattr(distilled_splits, "N_SURROGATE_ROWS", 500)


# Surrogate rows.


def histograms(std=0.0):
    counts = [
        np.r_[np.zeros(10), np.full(13, 40.0), np.zeros(10), 20.0],
        np.r_[np.arange(33.0), 0.0],
        np.array([10.0, 0.0, 30.0, 0.0, 60.0, 0.0]),
        np.array([700.0, 0.0]),
    ]
    return FeatureHistograms([c + std * RNG.normal(size=len(c)) for c in counts], std)


WEIGHTS = histograms().threshold_weights()


def test_surrogate_rows_have_the_released_distribution_and_independent_columns():
    codes = surrogate_rows(histograms(), BINS, SecureRandom(1)).codes
    assert codes.shape == (distilled_splits.N_SURROGATE_ROWS, 4)
    for f, counts in enumerate(histograms().counts[:3]):
        share = np.bincount(codes[:, f], minlength=len(counts)) / len(codes)
        np.testing.assert_allclose(share, counts / counts.sum(), atol=0.015)
    assert not codes[:, 3].any()
    assert np.abs(np.corrcoef(codes[:, :3].T) - np.eye(3)).max() < 0.03


def test_values_of_codes_have_these_codes():
    data = lgb_dp.Dataset(
        np.c_[X[:, :2], np.arange(len(X)) % 3], Y, bounds={0: (-3, 3), 1: (0, 1)}, categories={2: [0, 4, 7]}
    ).construct()
    codes = RNG.integers(0, data.bins.n_bins + 1, (400, 3)).astype(np.uint8)
    values = values_of_codes(DenseCodes(codes), data.bins)
    np.testing.assert_array_equal(data.bins.transform(values).codes, codes)


# Scores of the surrogate rows.


def released(number, value=None, depth=2, seed=None):
    rng = np.random.default_rng(number if seed is None else seed)
    n_nodes = 2**depth - 1
    goes_left = rng.integers(0, 2, (n_nodes, 256)).astype(np.uint8)
    tree = PublicTree(rng.integers(0, 3, n_nodes).astype(np.int32), goes_left, np.full(n_nodes, -1))
    return ReleasedTree(number, tree, rng.normal(size=(2**depth, 2)) if value is None else value)


def added(codes, trees):
    total = np.zeros((codes.n_rows, 2))
    for one in trees:
        node = np.zeros(codes.n_rows, dtype=int)
        for _ in range(2):
            node = (
                2 * node
                + 2
                - one.tree.goes_left[node, codes.codes[np.arange(len(node)), one.tree.feature[node]]]
            )
        total += one.value[node - 3]
    return total


def test_scores_follow_the_model_through_rollbacks_and_interrupts(monkeypatch):
    codes = surrogate_rows(histograms(), BINS, SecureRandom(1))
    start = RNG.normal(size=(codes.n_rows, 2))
    scores, model = SurrogateScores(codes, start, 3), []

    def assert_follows():
        scores.follow(model)
        np.testing.assert_allclose(scores.score, start + added(codes, model), atol=1e-12)
        np.testing.assert_allclose(scores.step, added(codes, model[-3:]), atol=1e-12)

    assert_follows()
    for number in range(1, 8):
        model.append(released(number))
        if number != 5:
            assert_follows()
    del model[-2:]
    assert_follows()
    model[-1] = released(9)
    assert_follows()
    del model[-1]
    model += [released(10), released(11)]
    assert_follows()
    with monkeypatch.context() as patch:
        patch.setattr(SurrogateScores, "add", interrupted_add)
        model.append(released(12))
        with pytest.raises(KeyboardInterrupt):
            scores.follow(model)
    assert_follows()
    model.clear()
    assert_follows()


def interrupted_add(scores, tree):
    scores.score += 1.0
    raise KeyboardInterrupt


# Greedy trees.


def splits_after(objective, n_outputs, values_of, n_rounds=40, depth=2):
    """The splits of a training run whose trees' values are a function of the tree."""
    codes = surrogate_rows(histograms(), BINS, SecureRandom(1))
    model, random, trees = [], SecureRandom(0), []
    start = np.zeros((codes.n_rows, n_outputs))
    splits = DistilledSplits(BINS, depth, depth, n_rounds, 4, WEIGHTS, objective, codes, start, model)
    for number in range(1, n_rounds + 1):
        tree = splits.draw(random)
        value = values_of(tree, n_outputs)
        zero = np.zeros_like(value)
        splits.learn(tree, LeafRelease(zero, zero + 10.0, 1.0), value)
        model.append(ReleasedTree(number, tree, value))
        trees.append(tree)
    return trees


def on_the_second_feature(tree, n_outputs):
    """Values of leaves whose path has a split of the second feature: 1 left of the last one, -1 right."""
    value = np.zeros((len(tree.feature) + 1, n_outputs))
    for leaf in range(len(value)):
        node = leaf + len(tree.feature)
        while node:
            parent = (node - 1) // 2
            if tree.feature[parent] == 1:
                value[leaf] = 1.0 if node == 2 * parent + 1 else -1.0
                break
            node = parent
    return value


@pytest.mark.parametrize(("objective", "n_outputs"), [("binary", 1), ("regression", 1), ("multiclass", 3)])
def test_greedy_trees_split_what_the_last_trees_added(monkeypatch, objective, n_outputs):
    monkeypatch.setattr(TreeKinds, "greedy_leads", True)

    def values_of(tree, n_outputs):
        value = on_the_second_feature(tree, n_outputs)
        value[:, 1:] = 0
        return value

    trees = splits_after(objective, n_outputs, values_of, n_rounds=100)
    greedy = [i for i, tree in enumerate(trees) if (tree.cell == -1).all()]
    assert greedy == [9, 11, 13, 15, *(i for i in range(16, 100) if i % 10)]
    # Each node tries two of the three features.
    roots = [trees[i].feature[0] for i in greedy]
    assert np.mean([root == 1 for root in roots]) > 0.5
    assert 3 not in np.concatenate([tree.feature for tree in trees])


def test_greedy_trees_end_with_their_trial_unless_they_lead():
    trees = splits_after("binary", 1, on_the_second_feature, n_rounds=100)
    assert [i for i, tree in enumerate(trees) if (tree.cell == -1).all()] == [9, 11, 13, 15]


def test_without_a_trial_greedy_trees_are_drawn_from_the_start():
    codes = surrogate_rows(histograms(), BINS, SecureRandom(1))
    start = np.zeros((codes.n_rows, 1))
    splits = DistilledSplits(BINS, 2, 3, 100, 4, WEIGHTS, "binary", codes, start, [], has_trial=False)
    random, kinds = SecureRandom(0), []
    for number in range(12, 32):
        splits.round = number
        kinds.append(len(splits.draw(random).feature))
        assert splits.rate_factor > 1
    assert kinds == [7 if number % 10 else 3 for number in range(12, 32)]


def test_the_rate_falls_where_greedy_trees_lead(monkeypatch):
    codes = surrogate_rows(histograms(), BINS, SecureRandom(1))
    splits = DistilledSplits(BINS, 2, 3, 100, 4, WEIGHTS, "binary", codes, np.zeros((codes.n_rows, 1)), [])
    assert splits.depth == 3
    rates = {}
    for leads in (False, True):
        monkeypatch.setattr(TreeKinds, "greedy_leads", leads)
        for number in range(100):
            splits.round = number
            rates.setdefault(leads, []).append(splits.rate_factor)
    assert set(rates[False]) == set(rates[True][:16]) == {0.7}
    assert rates[True][16] == pytest.approx(1.5)
    np.testing.assert_allclose(np.diff(rates[True][16:]), -1.35 / 84)


def test_a_model_that_stands_still_keeps_random_splits(monkeypatch):
    monkeypatch.setattr(TreeKinds, "greedy_leads", True)
    trees = splits_after("binary", 1, lambda tree, n: np.zeros((len(tree.feature) + 1, n)))
    features = np.concatenate([tree.feature for tree in trees])
    assert np.bincount(features, minlength=4)[:3].min() > 0.2 * len(features)


def test_only_releases_and_words_matter(monkeypatch):
    monkeypatch.setattr(TreeKinds, "greedy_leads", True)
    one, two = (splits_after("multiclass", 3, on_the_second_feature) for _ in range(2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.feature, b.feature)
        np.testing.assert_array_equal(a.goes_left, b.goes_left)


# Training runs.


def data_of(kind):
    if kind == "sparse":
        return dataset(scipy.sparse.csr_matrix(np.where(np.abs(X) < 0.5, 0, X)), Y)
    if kind == "missing and categories":
        table = np.c_[np.where(X[:, :2] > 1, np.nan, X[:, :2]), np.digitize(X[:, 2], [-0.5, 0.5])]
        return lgb_dp.Dataset(table, Y, bounds={0: (-3, 3), 1: (-3, 3)}, categories={2: range(3)})
    if kind == "weights":
        return dataset(X, Y, weight=np.where(X[:, 3] > 0, 2.0, 0.5), weight_bound=2.0)
    if kind == "groups":
        return dataset(X, Y, groups=np.arange(len(X)) // 2, rows_per_group=2)
    return dataset(X, Y)


@pytest.mark.parametrize("kind", ["sparse", "missing and categories", "weights", "groups"])
def test_all_kinds_of_data_train_within_the_budget(distilled, kind):
    data = data_of(kind)
    report = boosted(data, epsilon=8.0, n_rounds=20).privacy
    assert [row["release"] for row in report.ledger] == ["label counts", "feature histograms", "leaf sums"]
    assert report.epsilon <= 8.0
    assert report.epsilon == pytest.approx(8.0, rel=1e-6)
    assert report.spent[0] == pytest.approx(report.epsilon, rel=1e-6)


def test_rollbacks_changed_rates_and_early_stopping(distilled):
    booster = live_booster(60)
    for _ in range(30):
        booster.update()
    for _ in range(3):
        booster.rollback_one_iter()
    booster.reset_parameter({"learning_rate": 0.01})
    for _ in range(10):
        booster.update()
    grower = grower_of(booster)
    np.testing.assert_allclose(training_scores(booster)[:, 0], booster.predict(X, raw_score=True), atol=1e-9)
    surrogate = grower.beginning.splits.surrogate
    surrogate.follow(grower.released)
    codes = DenseCodes(grower.beginning.splits.codes)
    values = values_of_codes(codes, grower.data.bins)
    np.testing.assert_allclose(surrogate.score[:, 0], booster.predict(values, raw_score=True), atol=1e-9)
    data = dataset(X, Y)
    valid = data.create_valid(X[:200], Y[:200], public=True)
    stopped = boosted(
        data,
        valid_sets=[valid],
        params={"learning_rate": 1.0},
        n_rounds=200,
        callbacks=[lgb.early_stopping(3, verbose=False)],
    )
    assert stopped.best_iteration < 200


@pytest.mark.parametrize("objective", ["binary", "regression", "multiclass"])
def test_continued_training_starts_from_the_models_predictions(distilled, objective):
    params = {
        "objective": objective,
        "verbosity": -1,
        **({"num_class": 3} if objective == "multiclass" else {}),
    }
    y = {"binary": Y, "regression": 5 * X[:, 0], "multiclass": np.digitize(X[:, 0], [-0.5, 0.5])}[objective]
    bounds = {"label_bounds": (-15, 15)} if objective == "regression" else {}
    first = boosted(dataset(X, y, **bounds), n_rounds=12, params=params)
    trainer = lgb_dp.NewtonBoost(20.0, 1e-5, rounds=13)  # no release of the mean after the last tree
    second = lgb.train(
        params, dataset(X, y, **bounds), 12, init_model=first, callbacks=[trainer], keep_training_booster=True
    )
    grower = grower_of(second)
    surrogate = grower.beginning.splits.surrogate
    surrogate.follow(grower.released)
    values = values_of_codes(DenseCodes(grower.beginning.splits.codes), grower.data.bins)
    scale = grower.label_scale
    expected = second.predict(values, raw_score=True).reshape(surrogate.score.shape)
    np.testing.assert_allclose(surrogate.score * scale.scale + scale.centre, expected, atol=1e-9)
    assert np.ptp(expected) > 0.1


def test_scores_that_no_model_predicts_start_at_zero_and_infinite_ones_are_finite():
    data = dataset(X, Y).construct()
    codes = DenseCodes(np.zeros((3, 4), dtype=np.uint8))
    scale = LabelScale("binary", 1, 0.0, 1.0)
    np.testing.assert_array_equal(start_scores(codes, data.bins, None, scale), np.zeros((3, 1)))

    class Predictor:
        def predict(self, values, raw_score):
            assert raw_score
            return np.array([np.inf, np.nan, -np.inf])

    assert np.isfinite(start_scores(codes, data.bins, Predictor(), scale)).all()


def test_constraints_hold(distilled):
    booster = boosted(params={"monotone_constraints": [1, 0, 0, 0]}, n_rounds=40)
    rows = np.repeat(X[:50], 13, axis=0)
    rows[:, 0] = np.tile(np.linspace(-3, 3, 13), 50)
    score = booster.predict(rows, raw_score=True).reshape(50, 13)
    assert (np.diff(score, axis=1) >= -1e-9).all()


def test_a_given_depth_is_kept_and_other_structures_release_no_histograms(distilled):
    assert max(len(t[0].feature) for t in deep_booster().trees) == 2**5 - 1
    for structure in ("random", "cyclic"):
        ledger = boosted(structure=structure, n_rounds=6).privacy.ledger
        assert [row["release"] for row in ledger] == ["label counts", "leaf sums"]


def deep_booster():
    booster = live_booster(10, params={**QUIET, "max_depth": 5})
    for _ in range(10):
        booster.update()
    return grower_of(booster)
