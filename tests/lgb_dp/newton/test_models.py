"""What NewtonBoost learns, and that its models are native."""

import pickle

import lightgbm as lgb
import numpy as np
import pytest
import scipy.sparse

import lgb_dp
from newton_training import DELTA, QUIET, X, Y, boosted, training_scores
from small_training import dataset, field


def accuracy(booster, features=X, label=Y):
    return float(((booster.predict(features) > 0.5) == label).mean())


@pytest.mark.parametrize("structure", ["auto", "random", "cyclic"])
def test_it_learns_a_binary_label(structure):
    booster = boosted(structure=structure)
    assert accuracy(booster) > 0.85
    assert booster.num_trees() == 60


def test_it_learns_a_regression_within_label_bounds():
    target = 5 + 2 * X[:, 0]
    data = dataset(X, target, label_bounds=(-1, 11))
    booster = boosted(data, params={"objective": "regression"})
    assert 1 - np.var(booster.predict(X) - target) / np.var(target) > 0.7


def test_it_learns_several_classes_on_one_structure():
    label = (X[:, 0] > 0).astype(float) + (X[:, 1] > 0)
    booster = boosted(dataset(X, label), params={"objective": "multiclass", "num_class": 3}, epsilon=50.0)
    assert (booster.predict(X).argmax(axis=1) == label).mean() > 0.7
    for t in range(0, booster.num_trees(), 3):
        same = [field(booster, "threshold", tree=t + k).tolist() for k in range(3)]
        assert same[0] == same[1] == same[2]
    assert booster.privacy.ledger[-1]["count"] == 60  # one release for the trees of three classes


def test_categories_and_missing_values():
    rng = np.random.default_rng(0)
    city = rng.integers(0, 6, len(X)).astype(float)
    hole = np.where(rng.random(len(X)) < 0.3, np.nan, X[:, 0])
    label = np.where(np.isnan(hole), city % 2, (city % 2 + (hole > 1)) > 0).astype(float)
    features = np.column_stack([city, hole])
    data = lgb_dp.Dataset(features, label, bounds={1: (-3, 3)}, categories={0: range(6)}, max_bin=16)
    booster = boosted(data, epsilon=50.0, n_rounds=200)
    assert accuracy(booster, features, label) > 0.85
    unseen = np.array([[99.0, np.nan], [np.nan, np.nan]])
    assert np.isfinite(booster.predict(unseen)).all()


@pytest.mark.parametrize("structure", ["auto", "cyclic"])
def test_native_predictions_are_those_of_training(structure):
    sparse = scipy.sparse.random(400, 5, density=0.3, random_state=1, format="csr")
    label = (np.asarray(sparse.sum(axis=1)).ravel() > 0.7).astype(float)
    for features in (sparse, sparse.toarray()):
        data = lgb_dp.Dataset(features, label, bounds=(0, 1), max_bin=16)
        trainer = lgb_dp.NewtonBoost(5.0, DELTA, structure=structure)
        seen = {}

        def remember(env, seen=seen):
            seen["raw"] = training_scores(env.model)

        booster = lgb.train(QUIET, data, 20, callbacks=[trainer, remember])
        np.testing.assert_allclose(booster.predict(features, raw_score=True), seen["raw"][:, 0], atol=1e-9)


def test_weights_steer_the_model():
    weight = np.where(Y == 1, 2.0, 0.0)
    booster = boosted(dataset(X, Y, weight=weight, weight_bound=2.0))
    assert booster.predict(X).min() > 0.5
    assert booster.privacy.private


def test_the_model_is_native_and_carries_its_guarantee(tmp_path):
    booster = boosted(n_rounds=10)
    booster.save_model(tmp_path / "m.txt")
    loaded = lgb.Booster(model_file=str(tmp_path / "m.txt"))
    np.testing.assert_array_equal(loaded.predict(X), booster.predict(X))
    assert lgb_dp.privacy_of(tmp_path / "m.txt") == booster.privacy
    assert pickle.loads(pickle.dumps(booster)).privacy == booster.privacy
    contributions = booster.predict(X, pred_contrib=True)
    np.testing.assert_allclose(contributions.sum(axis=1), booster.predict(X, raw_score=True), atol=1e-9)
