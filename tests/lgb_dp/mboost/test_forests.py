"""The random forests of the M-loss paper: public structure, noised votes, their ledger."""

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from dp_training import grower
from lgb_dp.boosting.levels import random_structure
from lgb_dp.data.weights import WEIGHT_STEPS
from lgb_dp.mboost import forests as random_forest
from lgb_dp.mechanisms import noise as mechanisms
from lgb_dp.mechanisms.rng import SecureRandom
from small_training import binary_data, dataset, field, leaf_values, train

X, Y = binary_data()
FORESTS = [lgb_dp.RandomForestLaplace, lgb_dp.RandomForestExponential]


@pytest.mark.parametrize("forest", FORESTS)
def test_every_tree_gets_its_share_and_a_tree_only_votes(forest):
    booster = train(dataset(X, Y), forest(3.0), n_rounds=7, max_depth=3, learning_rate=0.1)
    assert booster.privacy.private
    assert 3.0 * (1 - 1e-9) < booster.privacy.epsilon <= 3.0
    assert {row["release"] for row in booster.privacy.ledger} == {"leaf votes"}
    assert all(set(np.abs(leaf_values(booster, t))) == {0.1} for t in range(7))


@pytest.mark.parametrize("forest", FORESTS)
def test_with_much_budget_leaves_vote_for_their_majority(forest):
    booster = train(dataset(X, Y), forest(1e5), n_rounds=9, max_depth=3)
    leaves = booster.predict(X, pred_leaf=True)
    for t in range(9):
        values = leaf_values(booster, t)
        for i in np.unique(leaves[:, t]):
            share = Y[leaves[:, t] == i].mean()
            assert share == 0.5 or np.sign(values[i]) == np.sign(share - 0.5)


def test_votes_follow_the_noise(monkeypatch):
    monkeypatch.setattr(
        mechanisms, "discrete_laplace", lambda n, *_: np.tile([10_000, 0], n // 2).astype(np.int64)
    )
    booster = train(dataset(X, Y), lgb_dp.RandomForestLaplace(1.0), n_rounds=1, learning_rate=1.0)
    assert (leaf_values(booster) == -1).all()
    monkeypatch.setattr(
        random_forest, "select", lambda utilities, *_: np.ones(len(utilities), dtype=np.int64)
    )
    booster = train(dataset(X, Y), lgb_dp.RandomForestExponential(1.0), n_rounds=1, learning_rate=1.0)
    assert (leaf_values(booster) == 1).all()


@pytest.mark.parametrize(
    ("forest", "name", "sensitivity"),
    [
        (lgb_dp.RandomForestLaplace, "release_laplace", lambda args: args[1]),
        (lgb_dp.RandomForestExponential, "selection_scale", lambda args: args[1]),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_row_moves_one_count_by_at_most_its_largest_weight(
    monkeypatch, forest, name, sensitivity, weighted
):
    votes = type(grower(dataset(X, Y), forest(1.0)))
    asked, counts = [], []
    original = getattr(random_forest, name)
    monkeypatch.setattr(random_forest, name, lambda *args: asked.append(args) or original(*args))
    cast = votes.votes
    monkeypatch.setattr(votes, "votes", lambda self, c: counts.append(c) or cast(self, c))
    weights = {"weight": np.linspace(0, 2, len(X)), "weight_bound": 2.0} if weighted else {}
    fewer = {"weight": weights["weight"][:-1], "weight_bound": 2.0} if weighted else {}
    for data in (dataset(X, Y, **weights), dataset(X[:-1], Y[:-1], **fewer)):
        with pytest.warns(lgb_dp.PrivacyLeakWarning):
            train(data, forest(1.0, random_state=1), n_rounds=1, max_depth=3)
    change = counts[0] - counts[1]
    assert np.count_nonzero(change) == 1
    assert change.sum() == (WEIGHT_STEPS if weighted else 1) == sensitivity(asked[0])


def test_structure_reads_no_rows():
    data, other = dataset(X, Y).construct(), dataset(X[:5] * 0.1, Y[:5]).construct()
    layout = data.bins.layout()
    one = random_structure(data.codes, layout, 4, SecureRandom(3))
    two = random_structure(other.codes, layout, 4, SecureRandom(3))
    np.testing.assert_array_equal(one.feature, two.feature)
    np.testing.assert_array_equal(one.goes_left, two.goes_left)


def test_features_are_drawn_evenly_and_those_without_candidates_never():
    rows = np.column_stack([X[:, :3], np.zeros(len(X))])
    bins = {"bounds": {0: (-3, 3), 1: (-3, 3), 2: (-3, 3)}, "max_bin": {0: 2, 1: 20, 2: 5}}
    data = lgb_dp.Dataset(rows, Y, **bins, categories={3: [0]}).construct()
    features = random_structure(data.codes, data.bins.layout(), 12, SecureRandom(4)).feature
    counts = np.bincount(features, minlength=4)
    assert counts[3] == 0
    assert (np.abs(counts[:3] - 4095 / 3) < 5 * np.sqrt(4095 * 2 / 9)).all()


@pytest.mark.parametrize("forest", FORESTS)
def test_ties_are_broken_both_ways(forest):
    """Leaves without rows vote for either class."""
    booster = train(dataset(X[:1], Y[:1]), forest(1e-3), n_rounds=3, max_depth=6, learning_rate=1.0)
    votes = np.concatenate([leaf_values(booster, t) for t in range(3)])
    assert 0.3 < (votes > 0).mean() < 0.7


@pytest.mark.parametrize("forest", FORESTS)
@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_several_classes_share_one_release(forest, objective):
    label = (X[:, 0] > -0.5).astype(float) + (X[:, 0] > 0.5)
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="random_state"):
        booster = train(
            dataset(X[:, :1], label),
            forest(1e4, random_state=0),
            n_rounds=41,
            max_depth=4,
            objective=objective,
            num_class=3,
        )
    assert booster.num_trees() == 123
    assert len(booster.privacy.ledger) == 41
    assert np.mean(booster.predict(X[:, :1]).argmax(axis=1) == label) > 0.8
    votes = sum(leaf_values(booster, k) for k in range(3))
    np.testing.assert_allclose(votes, 0.3)


def test_counts_are_the_noised_ones_or_none(tmp_path):
    booster = train(dataset(X, Y), lgb_dp.RandomForestExponential(1.0), n_rounds=2)
    assert (field(booster, "leaf_count") == 1).all()
    booster = train(dataset(X, Y), lgb_dp.RandomForestLaplace(1e5), n_rounds=2)
    assert field(booster, "leaf_count").sum() == pytest.approx(len(X), abs=4)
    booster.save_model(tmp_path / "m.txt")
    np.testing.assert_array_equal(lgb.Booster(model_file=tmp_path / "m.txt").predict(X), booster.predict(X))


@pytest.mark.parametrize("forest", FORESTS)
def test_what_has_no_effect_is_refused(forest):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="lambda_l2"):
        train(dataset(X, Y), forest(1.0), lambda_l2=1.0)
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="regression"):
        train(dataset(X, Y, label_bounds=(0, 1)), forest(1.0), objective="regression")
