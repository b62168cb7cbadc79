"""The scikit-learn estimators of private training with columns apart."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import lgb_dp
from gbdt_commons.errors import VeilboostError
from gbdt_parties.identity.certificates import make_authority, make_certificate
from lgb_dp.federated import read_ledger
from lgb_dp.vertical import ColumnParty, VerticalDPLGBMClassifier, VerticalDPLGBMRegressor, train

pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")
rng = np.random.default_rng(3)
X = rng.uniform(-1, 1, (600, 4))
SCORE = X[:, 0] + X[:, 2]
SETTINGS = {"epsilon": 50.0, "n_estimators": 20, "n_jobs": 1}


def bank(**kw):
    return ColumnParty(X[:, 2:], name="bank", bounds=(-1, 1), **kw)


def made(folder, name):
    return make_certificate(folder / name, folder / "ca", name)


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


@pytest.mark.parametrize("kind", [VerticalDPLGBMClassifier, VerticalDPLGBMRegressor])
def test_fit_hands_on_all_that_train_takes_of_a_run(tmp_path, kind):
    """Its identity, its progress and its ledger; before, `train` alone took them."""
    make_authority(tmp_path / "ca")
    prints = {name: f"sha256:{made(tmp_path, name).fingerprint}" for name in ("shop", "bank")}
    party = bank(tls=tmp_path / "bank", allowed=[prints["shop"]])
    y, declared = (SCORE > 0).astype(float), {"bounds": (-1, 1)}
    if kind is VerticalDPLGBMRegressor:
        y, declared = SCORE, {"bounds": (-1, 1), "label_bounds": (-2, 2)}
    identity = {"tls": str(tmp_path / "shop"), "allowed": [prints["bank"]]}
    ledger = {"folder": tmp_path / "ledger", "budget": (50.5, 1e-5), "patience": 1.0}

    def fitted(**how):
        run = {**identity, **ledger, **how}
        return kind(**SETTINGS).fit(X[:, :2], y, parties=[party], **declared, **run)

    model = fitted(checkpoint=tmp_path / "run")
    assert model.traffic_.bytes_from("shop") > 0
    assert (fitted(checkpoint=tmp_path / "run").predict(X) == model.predict(X)).all()
    with pytest.raises(lgb_dp.BudgetExceededError, match=r"budget \(epsilon = 50.5"):
        fitted()
    assert read_ledger(tmp_path / "ledger").epsilon == 50.5
    for how, match in (
        ({"name": "mill"}, "not that of the party's"),
        ({"allowed": ["bank"]}, "without its fingerprint"),
        ({"allowed": ["bank"], "trust_authority": True}, "of the party's budget"),
    ):
        with pytest.raises(VeilboostError, match=match):
            fitted(**how)


def test_fit_takes_the_arguments_of_train_by_the_same_names():
    given = set(inspect.signature(train).parameters)
    apart = {"params", "train_set", "num_boost_round", "callbacks", "trees_per_round", "traffic"}
    for kind in (VerticalDPLGBMClassifier, VerticalDPLGBMRegressor):
        assert given - apart <= set(inspect.signature(kind.fit).parameters)


def test_tables_are_taken_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    party = ColumnParty(frame[["c", "d"]], name="bank", bounds=(-1, 1))
    model = VerticalDPLGBMClassifier(**SETTINGS)
    model.fit(frame[["a", "b"]], (SCORE > 0).astype(int), parties=[party], bounds=(-1, 1))
    assert (model.predict(frame[list("dcba")]) == model.predict(frame)).all()


def test_a_classifier_of_three_texts(monkeypatch):
    """Probabilities are the model's, each class against all others, over their sum; one label is missing."""
    y = np.array(["ill", "well", "in between"], dtype=object)[np.digitize(SCORE, [-0.5, 0.5])]
    y[0] = None
    model = VerticalDPLGBMClassifier(epsilon=50.0, n_estimators=5, n_jobs=1)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X[:, :2], y, parties=[bank()], classes=["well", "ill", "in between"], bounds=(-1, 1))
    assert model.classes_.tolist() == ["ill", "in between", "well"]
    of_booster = model.booster_.predict(X)
    assert model.booster_.num_trees() == 15
    assert of_booster.shape == (600, 3)
    np.testing.assert_allclose(
        model.predict_proba(X), of_booster / (of_booster[:, :1] + of_booster[:, 1:2] + of_booster[:, 2:])
    )
    assert (model.predict(X) == model.classes_[of_booster.argmax(axis=1)]).all()
    assert model.privacy_.private
    assert 49.9 < model.privacy_.epsilon <= 50.0
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(X) == model.predict_proba(X)).all()
    assert clone(model).get_params() == model.get_params()
    monkeypatch.setattr(model.booster_, "predict", lambda X: np.zeros((len(X), 3)))
    np.testing.assert_allclose(model.predict_proba(X[:2]), 1 / 3)
    for predict in (model.predict, model.predict_proba):
        with pytest.raises(lgb_dp.UnsupportedParameterError, match="booster has 3 classes"):
            predict(X[:9, :2], parties=[bank().with_rows(X[:9, 2:])])


def test_numbers_of_classes_and_targets_without_bounds_are_refused():
    for n_classes, match in ((1, "at least two labels"), (65, "num_class must be between 1 and 64, got 65")):
        with pytest.raises(lgb_dp.InvalidArgumentError, match=match):
            VerticalDPLGBMClassifier().fit(
                X[:, :2], SCORE > 0, parties=[bank()], classes=range(n_classes), bounds=(-1, 1)
            )
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
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"ids.*party 'bank'"):
        model.predict(X[:9, :2], parties=[asked], ids=ids[1:10])
