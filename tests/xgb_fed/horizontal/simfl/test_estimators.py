"""Horizontal estimators that train by SimFL."""

import pickle

import numpy as np
import pytest
import xgboost
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.exceptions import NotFittedError

from xgb_fed import HorizontalXGBClassifier, HorizontalXGBRegressor, NoPartiesWarning

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")


def parts(loader, counts, seed=0):
    X, y = loader(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    ends = np.cumsum(counts)
    return [(X[rows], y[rows]) for rows in np.split(order, ends)]


def test_binary_classifier_of_text_labels():
    one, two, test = parts(load_breast_cancer, (200, 200))
    names = np.array(["malignant", "benign"])
    model = HorizontalXGBClassifier(20, max_depth=3, random_state=0, method="simfl")
    model.fit(parties=[(one[0], names[one[1]]), (two[0], names[two[1]])])
    assert model.classes_.tolist() == ["benign", "malignant"]
    assert model.score(test[0], names[test[1]]) > 0.9
    p = model.predict_proba(test[0])
    assert np.allclose(p.sum(axis=1), 1)
    assert np.array_equal(model.predict(test[0]), model.classes_[(p[:, 1] > 0.5).astype(int)])
    assert model.n_features_in_ == 30


def test_ten_classes_none_of_which_two_parties_share():
    X, y = load_digits(return_X_y=True)
    low = y < 5
    model = HorizontalXGBClassifier(30, max_depth=4, random_state=0, method="simfl")
    model.fit(parties=[(X[low], y[low]), (X[~low], y[~low])])
    assert model.classes_.tolist() == list(range(10))
    assert model.get_booster().num_boosted_rounds() == 30
    assert model.predict_proba(X).shape == (len(y), 10)
    assert model.score(X, y) > 0.8


def test_regressor_and_its_common_base_score():
    one, two, test = parts(load_diabetes, (150, 150))
    model = HorizontalXGBRegressor(40, max_depth=2, learning_rate=0.1, random_state=0, method="simfl").fit(
        parties=[one, two]
    )
    assert model.score(test[0], test[1]) > 0.25
    stump = HorizontalXGBRegressor(1, learning_rate=1e-9, random_state=0, method="simfl").fit(
        parties=[one, two]
    )
    assert np.allclose(stump.predict(test[0]), np.concatenate([one[1], two[1]]).mean(), rtol=1e-5)


def test_saved_model_is_native(tmp_path):
    one, two, test = parts(load_breast_cancer, (200, 200))
    model = HorizontalXGBClassifier(10, random_state=0, method="simfl").fit(parties=[one, two])
    path = tmp_path / "model.json"
    model.save_model(path)
    native = xgboost.Booster(model_file=path)
    assert np.allclose(native.predict(xgboost.DMatrix(test[0])), model.predict_proba(test[0])[:, 1])
    stock = xgboost.XGBClassifier()
    stock.load_model(path)
    if not hasattr(stock, "n_classes_"):
        stock.n_classes_ = 2  # XGBoost 2.0 reads it from models that its own classifier has saved, no others
    assert np.allclose(stock.predict_proba(test[0]), model.predict_proba(test[0]))
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict_proba(test[0]), model.predict_proba(test[0]))


def test_early_stopping_predicts_with_the_best_round():
    one, two, test = parts(load_breast_cancer, (100, 100))
    model = HorizontalXGBClassifier(
        300, learning_rate=1.0, early_stopping_rounds=3, random_state=0, method="simfl"
    )
    model.fit(parties=[one, two], eval_set=[test])
    best = model.best_iteration
    assert best < len(model.evals_result()["validation_0"]["logloss"]) < 300
    margin = model.get_booster().predict(
        xgboost.DMatrix(test[0]), output_margin=True, iteration_range=(0, best + 1)
    )
    assert np.allclose(model.predict(test[0], output_margin=True), margin)


def test_clone_and_errors():
    one, two, _ = parts(load_breast_cancer, (200, 200))
    model = HorizontalXGBClassifier(5, random_state=0, method="simfl", known_features=1)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        model.predict(one[0])
    with pytest.warns(NoPartiesWarning, match="without parties"):
        model.fit(*one)
    with pytest.raises(ValueError, match="at least two"):
        model.fit()
    model.fit(parties=[one, two])
    with pytest.raises(ValueError, match=r"3 features, but HorizontalXGBClassifier.*expecting 30"):
        model.predict(one[0][:, :3])
