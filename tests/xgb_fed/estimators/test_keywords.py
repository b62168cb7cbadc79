"""XGBoost's keywords in the federated estimators: accepted where they change nothing, otherwise refused."""

import numpy as np
import pytest
from sklearn.base import clone

import xgb_fed

X = np.random.default_rng(0).normal(size=(60, 4))
Y = (X[:, 0] + X[:, 2] > 0).astype(int)


pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")


def fitted(**keywords):
    model = xgb_fed.VerticalXGBClassifier(n_estimators=1, max_depth=1, cipher=xgb_fed.Plain(), **keywords)
    return model.fit(X[:, :2], Y, parties=[xgb_fed.LocalParty(X[:, 2:], "bank")])


def horizontal(**keywords):
    model = xgb_fed.HorizontalXGBClassifier(
        n_estimators=1, max_depth=1, random_state=0, method="simfl", **keywords
    )
    return model.fit(parties=[(X[:30], Y[:30]), (X[30:], Y[30:])])


NEUTRAL = {
    "monotone_constraints": (0, 0),
    "interaction_constraints": None,
    "tree_method": "hist",
    "device": "cpu",
    "n_jobs": 2,
    "nthread": 1,
    "verbosity": 0,
    "booster": "gbtree",
    "grow_policy": "depthwise",
    "colsample_bylevel": 1,
    "num_parallel_tree": 1,
    "enable_categorical": False,
    "multi_strategy": "one_output_per_tree",
    "missing": np.nan,
}


@pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")
def test_keywords_that_change_nothing_are_accepted():
    for fit in (fitted, horizontal):
        assert fit(**NEUTRAL).predict_proba(X[:, :2] if fit is fitted else X).shape == (60, 2)


@pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")
@pytest.mark.parametrize("fit", [fitted, horizontal])
@pytest.mark.parametrize(
    ("keyword", "value", "words"),
    [
        ("grow_policy", "best", "grow_policy="),
        ("missing", 0.0, "missing="),
        ("tree_method", "exact", "'hist' is accepted"),
        ("device", "cuda", "'cpu' is accepted"),
        ("reg_lamda", 1.0, "did you mean reg_lambda"),
        ("zzzzzz", 1, "zzzzzz=1 is not supported"),
        ("num_class", 3, "follows from the labels"),
    ],
)
def test_other_keywords_are_refused_by_name(fit, keyword, value, words):
    with pytest.raises(xgb_fed.UnsupportedParameterError, match=words):
        fit(**{keyword: value})


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("monotone_constraints", (1, 0)),
        ("monotone_constraints", "(1,0)"),
        ("interaction_constraints", [[0, 1]]),
        ("grow_policy", "lossguide"),
        ("max_leaves", 3),
        ("colsample_bylevel", 0.5),
        ("colsample_bynode", 0.5),
        ("num_parallel_tree", 2),
    ],
)
def test_keywords_of_vertical_training_are_refused_by_name_elsewhere(keyword, value):
    assert fitted(**{keyword: value}).model_.num_boosted_rounds() == 1
    for method in ("simfl", "exact"):
        kind = xgb_fed.HorizontalXGBClassifier(1, method=method, **{keyword: value})
        with pytest.raises(xgb_fed.UnsupportedParameterError, match=f"^{keyword}=.*vertical training only"):
            kind.fit(parties=[(X[:30], Y[:30]), (X[30:], Y[30:])])


def test_another_name_of_a_setting_counts_as_the_setting():
    model = fitted(eta=0.125)
    np.testing.assert_array_equal(
        model.predict_proba(X[:, :2]), fitted(learning_rate=0.125).predict_proba(X[:, :2])
    )
    with pytest.raises(xgb_fed.InvalidArgumentError, match="given twice"):
        fitted(eta=0.125, learning_rate=0.25)


@pytest.mark.parametrize(
    "kind",
    [
        xgb_fed.VerticalXGBClassifier,
        xgb_fed.VerticalXGBRegressor,
        xgb_fed.HorizontalXGBClassifier,
        xgb_fed.HorizontalXGBRegressor,
    ],
)
def test_parameters_round_trip_with_keywords(kind):
    model = kind(tree_method="hist", max_depth=3)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(device="cpu", max_depth=2).get_params()["device"] == "cpu"
    assert clone(model).max_depth == 2
