"""The scikit-learn estimators of private training across parties."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import lgb_dp
from federated_training import BOUNDS, X, Y, parties, rows_of
from lgb_dp.federated import FederatedDPLGBMClassifier, FederatedDPLGBMRegressor, FederatedDPLGBMSurvival

SETTINGS = {"epsilon": 50.0, "n_estimators": 20, "n_jobs": 1}
PLACES = [rows_of(place, 3) for place in range(3)]
pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")


def pairs(y):
    return [(X[rows], y[rows]) for rows in PLACES]


def test_classes_are_those_that_were_declared():
    y = np.where(Y > 0, "ill", "well")
    model = FederatedDPLGBMClassifier(**SETTINGS).fit(pairs(y), classes=["ill", "well"], bounds=BOUNDS)
    assert model.classes_.tolist() == ["ill", "well"]
    assert model.score(X, y) > 0.75
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert model.n_features_in_ == 3
    assert model.privacy_.neighbouring == "add or remove one row at one party"
    assert {row["from"] for row in model.traffic_.to_dicts()} == {
        "coordinator",
        "party 0",
        "party 1",
        "party 2",
    }


def test_three_classes():
    y = np.digitize(X[:, 0], [-0.3, 0.3])
    model = FederatedDPLGBMClassifier(**SETTINGS).fit(pairs(y), classes=[0, 1, 2], bounds=BOUNDS)
    assert model.predict_proba(X).shape == (len(X), 3)
    assert model.score(X, y) > 0.6


def test_parties_bring_their_own_declarations():
    model = FederatedDPLGBMClassifier(**SETTINGS, max_depth=2, learning_rate=0.3).fit(parties())
    assert model.booster_.num_trees() == 20
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"bounds.*pairs"):
        FederatedDPLGBMClassifier(**SETTINGS).fit(parties(), bounds=BOUNDS)


def test_regression():
    model = FederatedDPLGBMRegressor(**SETTINGS).fit(pairs(X[:, 0]), label_bounds=(-1, 1), bounds=BOUNDS)
    assert model.score(X, X[:, 0]) > 0.3


def test_times():
    time, seen = np.exp(X[:, 0]), np.exp(1 + X[:, 1])
    y = np.rec.fromarrays([time <= seen, np.minimum(time, seen)], names=["event", "time"])
    model = FederatedDPLGBMSurvival(**SETTINGS, scale=0.3)
    model.fit(pairs(y), label_bounds=(0.01, 50), bounds=BOUNDS)
    assert model.score(X, y) > 0.7
    median = model.predict(X)
    np.testing.assert_allclose(model.predict_quantile(X, 0.5), median)
    np.testing.assert_allclose(model.predict_survival_function(X[:1], median[:1]), 0.5)
    assert "0.3" in model.booster_.model_to_string().split("tree_sizes")[-1]
    with pytest.raises(lgb_dp.InvalidArgumentError, match="y must hold times"):
        model.fit(pairs(time), label_bounds=(0.01, 50), bounds=BOUNDS)
    with pytest.raises(NotFittedError):
        FederatedDPLGBMSurvival().predict_quantile(X, 0.5)


def test_targets_without_bounds_are_refused():
    with pytest.raises(lgb_dp.federated.PartyRefusedError, match="label_bounds must be declared"):
        FederatedDPLGBMRegressor(**SETTINGS).fit(pairs(X[:, 0]), bounds=BOUNDS)


def test_what_is_not_a_sequence_of_parties_is_refused():
    with pytest.raises(lgb_dp.ArgumentTypeError, match=r"parties.*sequence"):
        FederatedDPLGBMClassifier().fit(X)
