"""LightGBM's methods and fitted attributes, on private estimators."""

import warnings

import lightgbm
import matplotlib
import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

import lgb_dp
from small_training import binary_data

matplotlib.use("Agg")
X, Y = binary_data(300)
LABELS = Y.astype(int)
BOUNDS = (-3, 3)
EVALUATED = {"eval_set": [(X[:100], LABELS[:100])], "public_eval_set": True}


def fitted(n_classes=2, **arguments):
    labels = LABELS if n_classes == 2 else np.digitize(X[:, 0], [-0.5, 0.5])
    model = lgb_dp.DPLGBMClassifier(epsilon=20.0, n_estimators=6, max_depth=2)
    return model.fit(X, labels, bounds=BOUNDS, classes=range(n_classes), **arguments)


def regressor(**arguments):
    model = lgb_dp.DPLGBMRegressor(epsilon=20.0, n_estimators=6, max_depth=2)
    return model.fit(X, X[:, 0], bounds=BOUNDS, label_bounds=(-3, 3), **arguments)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("how", ["raw_score", "pred_leaf", "pred_contrib"])
def test_predictions_of_other_kinds_are_the_boosters(n_classes, how):
    model = fitted(n_classes)
    expected = model.booster_.predict(X, **{how: True})
    for predict in (model.predict, model.predict_proba):
        np.testing.assert_array_equal(predict(X, **{how: True}), expected)


def test_contributions_add_up_to_the_raw_score():
    for model in (fitted(), regressor()):
        contributions = model.predict(X, pred_contrib=True)
        assert contributions.shape == (300, 5)
        np.testing.assert_allclose(contributions.sum(axis=1), model.predict(X, raw_score=True), atol=1e-9)
    sparse = fitted().predict(scipy.sparse.csr_matrix(X), pred_contrib=True)
    assert sparse.shape == (300, 5)


def test_some_iterations_can_be_predicted_with():
    for model in (fitted(), regressor()):
        first = model.predict(X, raw_score=True, num_iteration=2)
        rest = model.predict(X, raw_score=True, start_iteration=2)
        assert not np.allclose(first, first + rest)
        np.testing.assert_allclose(first + rest, model.predict(X, raw_score=True), atol=1e-12)
    assert fitted().predict(X, num_iteration=1).shape == (300,)


def test_fitted_attributes():
    model = fitted(feature_name=list("abcd"), eval_names=["held out"], eval_metric=["auc"], **EVALUATED)
    assert model.feature_name_ == list("abcd")
    assert (model.n_classes_, model.n_features_, model.n_features_in_) == (2, 4, 4)
    assert (model.n_estimators_, model.n_iter_, model.objective_) == (6, 6, "binary")
    assert model.best_iteration_ <= 0
    assert list(model.evals_result_) == list(model.best_score_) == ["held out"]
    assert model.best_score_["held out"]["auc"] == model.evals_result_["held out"]["auc"][-1]
    assert regressor().objective_ == "regression"


@pytest.mark.parametrize(
    "name", ["feature_name_", "n_classes_", "best_iteration_", "best_score_", "n_estimators_", "objective_"]
)
def test_an_unfitted_model_has_no_fitted_attributes(name):
    with pytest.raises(NotFittedError):
        getattr(lgb_dp.DPLGBMClassifier(), name)


def test_early_stopping_on_public_rows_sets_the_best_iteration():
    stop = lightgbm.early_stopping(1, verbose=False)
    model = fitted(callbacks=[stop], eval_metric="auc", **EVALUATED)
    assert 1 <= model.best_iteration_ <= 6
    np.testing.assert_array_equal(
        model.predict(X, raw_score=True),
        model.booster_.predict(X, raw_score=True, num_iteration=model.best_iteration_),
    )
    assert model.privacy_.private


def test_evaluation_sets_in_every_form_agree():
    pair = (X[:100], LABELS[:100])
    forms = [{"eval_set": pair}, {"eval_set": [pair]}, {"eval_X": pair[0], "eval_y": pair[1]}]
    forms += [{"eval_X": (pair[0], X), "eval_y": (pair[1], LABELS)}]
    sizes = []
    for form in forms:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sizes.append(len(fitted(public_eval_set=True, **form).evals_result_))
    assert sizes == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"eval_X": X}, "together"),
        ({"eval_set": [(X, LABELS)], "eval_X": X, "eval_y": LABELS}, "eval_set"),
        ({"eval_X": (X, X), "eval_y": (LABELS,)}, "eval_y"),
        ({"eval_set": [X]}, "pairs"),
        ({"eval_names": ["a", "b"], **EVALUATED}, "eval_names"),
        ({"eval_sample_weight": [None, None], **EVALUATED}, "eval_sample_weight"),
        ({"eval_metric": lambda a, b, c, d: None, **EVALUATED}, "4 arguments"),
    ],
    ids=lambda value: value if isinstance(value, str) else ", ".join(value),
)
def test_bad_evaluation_arguments_are_named(arguments, words):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=words):
        fitted(**arguments)


def test_custom_metrics_and_weights_of_evaluation_sets():
    weight = np.linspace(0, 1, 100)

    def error(labels, predictions):
        return "error", np.mean((predictions > 0.5) != labels), False

    def weighted(labels, predictions, weights):
        return "weighted", np.average((predictions > 0.5) != labels, weights=weights), False

    metrics = [error, weighted, "binary_error"]
    result = fitted(eval_metric=metrics, eval_sample_weight=[weight], **EVALUATED).evals_result_["valid_0"]
    np.testing.assert_allclose(result["weighted"], result["binary_error"], rtol=1e-6)
    assert result["error"] != result["weighted"]


def test_initial_scores_void_unless_public():
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="init_score"):
        assert not fitted(init_score=X[:, 0]).privacy_.private
    assert fitted(init_score=X[:, 0], public_init_score=True).privacy_.private
