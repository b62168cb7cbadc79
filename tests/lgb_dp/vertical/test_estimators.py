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


def test_rows_with_ids_in_any_order_are_trained_on_where_both_have_them():
    """The bank has rows in another order, and not all of them; in its order they would not fit the labels."""
    ids, order = [f"row-{k}" for k in range(600)], rng.permutation(600)[:550]
    party = ColumnParty(X[order, 2:], name="bank", bounds=(-1, 1), ids=[ids[k] for k in order])
    y = (SCORE > 0).astype(int)
    model = VerticalDPLGBMClassifier(**SETTINGS)
    model.fit(X[:, :2], y, parties=[party], ids=ids, bounds=(-1, 1))
    assert model.score(X, y) > 0.8
    asked = party.with_rows(X[:9, 2:], ids=ids[:9])
    assert (model.predict(X[:9, :2], parties=[asked], ids=ids[:9]) == model.predict(X[:9])).mean() > 0.7
    with pytest.raises(lgb_dp.InvalidArgumentError, match="ids are not those of party 'bank'"):
        model.predict(X[:9, :2], parties=[asked], ids=ids[1:10])
