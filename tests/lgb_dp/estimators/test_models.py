"""The scikit-learn estimators among scikit-learn's tools."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import lgb_dp
from small_training import binary_data

X, Y = binary_data(600)
BOUNDS = (-3, 3)


def classifier(**kwargs):
    """Default settings but for the number of trees: a hundred are enough for these tests."""
    return lgb_dp.DPLGBMClassifier(**{"epsilon": 50.0, "n_estimators": 100, **kwargs})


def fitted(**kwargs):
    return classifier(**kwargs).fit(X, Y.astype(int), bounds=BOUNDS)


def test_classifier_learns_and_reports():
    model = fitted()
    assert model.score(X, Y) > 0.8
    assert model.predict_proba(X).shape == (600, 2)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.classes_.tolist() == [0, 1]
    assert model.privacy_.private
    assert 50.0 * (1 - 1e-6) < model.privacy_.epsilon <= 50.0
    assert model.privacy_.delta == 1e-5
    assert model.feature_importances_.shape == (4,)
    assert model.n_features_in_ == 4


def test_mboost_is_a_method_for_classes():
    model = fitted(method="mboost", alpha=0.1, n_estimators=3, max_depth=3)
    assert model.score(X, Y) > 0.8
    assert "leaf class weights" in {row["release"] for row in model.privacy_.ledger}
    assert model.privacy_.private
    letters = np.array(["a", "b", "c"])[(X[:, 0] > -0.5).astype(int) + (X[:, 0] > 0.5)]
    several = lgb_dp.DPLGBMClassifier(epsilon=100.0, method="mboost", alpha=0.1, n_estimators=2, max_depth=2)
    assert several.fit(X, letters, bounds=BOUNDS, classes=["a", "b", "c"]).score(X, letters) > 0.8
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="regression"):
        lgb_dp.DPLGBMRegressor(method="mboost").fit(X, X[:, 0], bounds=BOUNDS, label_bounds=(-3, 3))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"method": "mboost", "gdf": True}, "gdf"),
        ({"method": "mboost", "trees_per_ensemble": 5}, "trees_per_ensemble"),
        ({"method": "mboost", "alpha": 2.0}, "alpha"),
        ({"alpha": 0.5}, "alpha"),
    ],
)
def test_arguments_of_another_method_are_not_ignored(arguments, named):
    with pytest.raises(ValueError, match=named):
        fitted(**arguments)


def test_regressor_learns_within_public_label_bounds():
    target = 5 + 2 * X[:, 0]
    model = lgb_dp.DPLGBMRegressor(epsilon=50.0, n_estimators=100).fit(
        X, target, bounds=BOUNDS, label_bounds=(-1, 11)
    )
    assert model.score(X, target) > 0.5
    assert model.privacy_.private


def test_clone_pickle_and_parameters_round_trip():
    model = fitted(max_depth=3)
    assert clone(model).get_params() == model.get_params()
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    assert copy.privacy_ == model.privacy_


def test_strings_as_classes_when_they_are_public():
    names = np.where(Y == 1, "yes", "no")
    model = classifier().fit(X, names, bounds=BOUNDS, classes=["no", "yes"])
    assert model.privacy_.private
    assert set(model.predict(X)) == {"no", "yes"}
    with pytest.raises(ValueError, match="among the classes"):
        model.set_params(label_overflow="raise").fit(
            X, np.where(Y == 1, "maybe", "no"), bounds=BOUNDS, classes=["no", "yes"]
        )


def test_classes_read_from_the_data_void_the_report():
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="classes"):
        model = classifier(epsilon=1.0).fit(X, np.where(Y == 1, "b", "a"), bounds=BOUNDS)
    assert not model.privacy_.private


def test_one_class_trains_when_the_classes_are_public_and_raises_when_not():
    assert classifier(epsilon=1.0).fit(X, np.zeros(600, int), bounds=BOUNDS).classes_.tolist() == [0, 1]
    with (
        pytest.raises(ValueError, match="at least two"),
        pytest.warns(lgb_dp.PrivacyLeakWarning, match="classes"),
    ):
        classifier(epsilon=1.0).fit(X, np.full(600, 7), bounds=BOUNDS)
    with pytest.raises(ValueError, match="at least two"):
        classifier(epsilon=1.0).fit(X, Y, bounds=BOUNDS, classes=[1])


def test_multiclass():
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    model = classifier(epsilon=200.0).fit(X, y, bounds=BOUNDS, classes=[0, 1, 2])
    assert model.predict_proba(X).shape == (600, 3)
    assert model.score(X, y) > 0.5


def test_data_frames_and_sparse_matrices():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = classifier().fit(frame, Y.astype(int), bounds={c: BOUNDS for c in "abcd"})
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.score(frame, Y) > 0.8
    sparse = scipy.sparse.csr_matrix(X)
    assert classifier().fit(sparse, Y.astype(int), bounds=BOUNDS).score(sparse, Y) > 0.8
    with pytest.raises(ValueError, match="3 features"):
        model.predict(X[:, :3])


def test_evaluation_sets_and_weights():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = classifier().fit(
            X,
            Y.astype(int),
            bounds=BOUNDS,
            sample_weight=np.ones(600),
            weight_bound=2.0,
            eval_set=[(X, Y.astype(int))],
            eval_metric="auc",
            public_eval_set=True,
        )
    assert len(model.evals_result_["valid_0"]["auc"]) == model.n_estimators == 100


def test_dpboost_has_no_delta():
    model = fitted(method="dpboost", n_estimators="auto", epsilon=5.0)
    assert (model.privacy_.epsilon, model.privacy_.delta) == (5.0, 0.0)
    assert model.booster_.num_trees() == 20


def test_pickles_hold_no_rows():
    marked = X.copy()
    marked[:, 0] = 0.123456789
    model = classifier(n_estimators=20).fit(marked, Y.astype(int), bounds=(-3, 3))
    dump = pickle.dumps(model)
    assert np.float64(0.123456789).tobytes() not in dump
    assert len(dump) < 50_000


def test_evaluation_rows_are_private_unless_marked_public():
    with pytest.warns(lgb_dp.NotPrivateWarning):
        classifier(epsilon=1.0).fit(X, Y.astype(int), bounds=(-3, 3), eval_set=[(X, Y)])


def fitted_attributes(model):
    return {name for name in vars(model) if name.endswith("_")}


def stop_after_the_first_tree(env):
    if env.iteration == 1:
        raise KeyboardInterrupt


@pytest.mark.parametrize("make", [lgb_dp.DPLGBMClassifier, lgb_dp.DPLGBMRegressor])
@pytest.mark.filterwarnings("ignore::lgb_dp.NotPrivateWarning")
def test_side_door_an_aborted_fit_leaves_nothing(make):
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 2)), rng.integers(0, 2, 60)
    public = {"bounds": (0, 1), **({"label_bounds": (0, 1)} if make is lgb_dp.DPLGBMRegressor else {})}
    model = make(n_estimators=3).fit(pd.DataFrame(X, columns=["a", "b"]), y, **public)
    assert {"booster_", "evals_result_", "n_features_in_", "feature_names_in_"} <= fitted_attributes(model)
    for second in (model, make(n_estimators=3)):
        second.set_params(epsilon=9.0)
        with pytest.raises(KeyboardInterrupt):
            second.fit(X, y, eval_set=[(X, y)], callbacks=[stop_after_the_first_tree], **public)
        assert fitted_attributes(second) == set()
        with pytest.raises(NotFittedError):
            _ = second.privacy_


def test_an_estimator_continues_its_own_model():
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 2)), rng.integers(0, 2, 60)
    model = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(X, y, bounds=(0, 1))
    first = model.privacy_.epsilon
    model.fit(X, y, bounds=(0, 1), init_model=model)
    assert model.booster_.num_trees() == 4
    assert model.privacy_.epsilon > first


def test_a_matrix_forgets_the_names_of_the_table_before():
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 2)), rng.integers(0, 2, 60)
    model = lgb_dp.DPLGBMClassifier(n_estimators=1).fit(pd.DataFrame(X, columns=["a", "b"]), y, bounds=(0, 1))
    assert model.fit(X, y, bounds=(0, 1)).n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
