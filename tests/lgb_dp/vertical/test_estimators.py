"""The scikit-learn estimators of private training with columns apart."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import lgb_dp
from lgb_dp.vertical import ColumnParty, VerticalDPLGBMClassifier, VerticalDPLGBMRegressor

pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")
rng = np.random.default_rng(3)
X = rng.uniform(-1, 1, (600, 4))
SCORE = X[:, 0] + X[:, 2]
SETTINGS = {"epsilon": 50.0, "n_estimators": 20, "n_jobs": 1}


def bank(**kw):
    return ColumnParty(X[:, 2:], name="bank", bounds=(-1, 1), **kw)


def test_a_classifier_of_texts():
    y = np.where(SCORE > 0, "ill", "well")
    model = VerticalDPLGBMClassifier(**SETTINGS)
    model.fit(X[:, :2], y, parties=[bank()], classes=["ill", "well"], bounds=(-1, 1))
    assert model.classes_.tolist() == ["ill", "well"]
    assert model.score(X, y) > 0.8
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert model.n_features_in_ == 4
    assert model.privacy_.private
    assert model.traffic_.bytes_from("bank") > 0
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X) == model.predict(X)).all()
    assert clone(model).get_params() == model.get_params()


def test_a_regressor():
    model = VerticalDPLGBMRegressor(**SETTINGS)
    model.fit(X[:, :2], SCORE, parties=[bank()], label_bounds=(-2, 2), bounds=(-1, 1))
    assert model.score(X, SCORE) > 0.4


def test_tables_are_taken_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    party = ColumnParty(frame[["c", "d"]], name="bank", bounds=(-1, 1))
    model = VerticalDPLGBMClassifier(**SETTINGS)
    model.fit(frame[["a", "b"]], (SCORE > 0).astype(int), parties=[party], bounds=(-1, 1))
    assert (model.predict(frame[list("dcba")]) == model.predict(frame)).all()


def test_three_classes_and_targets_without_bounds_are_refused():
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="3 labels"):
        VerticalDPLGBMClassifier().fit(X[:, :2], SCORE > 0, parties=[bank()], classes=[0, 1, 2])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="label_bounds must be given"):
        VerticalDPLGBMRegressor().fit(X[:, :2], SCORE, parties=[bank()], bounds=(-1, 1))
