"""Scikit-learn's own checks of estimators, on the oldest supported release and the newest."""

import inspect
import pickle

import lightgbm
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import lgb_dp
from lgb_dp.estimators.base import EXPECTED_FAILED_CHECKS
from small_training import binary_data

pytestmark = pytest.mark.filterwarnings("ignore")  # the checks give no bounds: the models are not private
MODELS = [
    lgb_dp.DPLGBMClassifier(epsilon=50.0, n_estimators=5, max_depth=2, n_jobs=1, random_state=0),
    lgb_dp.DPLGBMRegressor(epsilon=50.0, n_estimators=5, max_depth=2, n_jobs=1, random_state=0),
]
FAILING = dict(EXPECTED_FAILED_CHECKS)
if "__sklearn_tags__" not in vars(lightgbm.LGBMModel):
    FAILING["check_estimator_tags_renamed"] = (
        "LightGBM before 4.6 has the tags of scikit-learn before 1.6 only"
    )
DECLARATION = {"expected_failed_checks": lambda model: FAILING, "xfail_strict": True}
ACCEPTED = inspect.signature(parametrize_with_checks).parameters
"""Before scikit-learn 1.6, the suite reads the estimator's ``_xfail_checks`` instead of a declaration."""


DECLARED = {name: DECLARATION[name] for name in DECLARATION if name in ACCEPTED}


@parametrize_with_checks(MODELS[:1], **DECLARED)
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(MODELS[1:], **DECLARED)
def test_check_the_other_estimator(estimator, check):
    check(estimator)


def test_only_weights_are_declared():
    assert all("weight_bound" in reason for reason in EXPECTED_FAILED_CHECKS.values())


def is_tagged_non_deterministic(model):
    if hasattr(model, "_get_tags"):  # scikit-learn before 1.6
        return model._get_tags()["non_deterministic"]
    return model.__sklearn_tags__().non_deterministic


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_without_seed_is_tagged_as_not_deterministic(model):
    assert not is_tagged_non_deterministic(model)
    assert is_tagged_non_deterministic(type(model)())


X, Y = binary_data(300)


def model(**keywords):
    return lgb_dp.DPLGBMClassifier(**{"epsilon": 5.0, "n_estimators": 4, **keywords})


def fitted(**keywords):
    return model(**keywords).fit(X, Y.astype(int), bounds=(-3, 3))


@pytest.mark.parametrize(
    ("keyword", "value", "line"),
    [
        ("lambda_l2", 7.5, "[lambda_l2: 7.5]"),
        ("reg_lambda", 7.5, "[lambda_l2: 7.5]"),
        ("eta", 0.25, "[learning_rate: 0.25]"),
        ("shrinkage_rate", 0.25, "[learning_rate: 0.25]"),
        ("num_leaves", 8, "[max_depth: 3]"),
        ("objective", "binary", "[objective: binary]"),
        ("objective", "multiclass", "[objective: multiclass]"),
    ],
)
def test_honoured_keywords_reach_the_trainer(keyword, value, line):
    assert line in fitted(**{keyword: value}).booster_.model_to_string()


def test_one_against_the_rest_is_an_objective_of_dpboost():
    text = fitted(objective="ovr", method="dpboost").booster_.model_to_string()
    assert "[objective: multiclassova]" in text


def test_another_name_of_a_setting_counts_as_the_setting():
    several = lgb_dp.DPLGBMClassifier(epsilon=5.0, num_boost_round=3, nthread=1, verbosity=-1, max_depth=-1)
    several.fit(X, Y.astype(int), bounds=(-3, 3))
    assert several.booster_.num_trees() == 3
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="random_state"):
        seeded = fitted(seed=3)
    assert not seeded.privacy_.private


def test_num_leaves_stands_in_for_the_depth_of_every_method():
    for method in ("newton", "dpboost", "mboost"):
        assert "[max_depth: 2]" in fitted(method=method, num_leaves=4).booster_.model_to_string()
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="num_leaves=10"):
        fitted(num_leaves=10)


@pytest.mark.parametrize(
    "keywords",
    [
        {"subsample": 1.0},
        {"subsample_freq": 0},
        {"subsample_for_bin": 200000},
        {"min_child_samples": 20},
        {"min_child_weight": 1e-3},
        {"min_split_gain": 0.0},
        {"colsample_bytree": 1.0},
        {"reg_alpha": 0.0},
        {"boosting_type": "gbdt"},
        {"class_weight": None},
        {"num_leaves": 31},
        {"device": "cpu"},
        {"force_col_wise": True},
        {"n_jobs": None},
        {"n_jobs": -1},
        {"max_bins": 63},
        {"metric": "auc"},
        {"early_stopping_round": None},
    ],
    ids=str,
)
def test_keywords_that_change_nothing_are_accepted(keywords):
    model(**keywords).check_settings()


@pytest.mark.parametrize(
    ("keywords", "reason"),
    [
        ({"subsample": 0.5}, "rows.*trainer"),
        ({"bagging_freq": 1}, "rows are drawn"),
        ({"min_child_samples": 5}, "private count would leak"),
        ({"min_split_gain": 0.1}, "private gain would leak"),
        ({"colsample_bytree": 0.5}, "splits are drawn"),
        ({"reg_alpha": 1.0}, "use lambda_l2"),
        ({"boosting_type": "dart"}, "grown.*trainer"),
        ({"class_weight": "balanced"}, "weight_bound"),
        ({"is_unbalance": True}, "weight_bound"),
        ({"scale_pos_weight": 3.0}, "weight_bound"),
        ({"device_type": "gpu"}, "on the CPU"),
        ({"linear_tree": True}, "releases of its own"),
        ({"categorical_feature": [0]}, "categories"),
        ({"objective": "poisson"}, "accepted are"),
        ({"objective": "regression"}, "DPLGBMClassifier"),
        ({"predict_contrib": True}, "predict_contrib"),
    ],
    ids=str,
)
def test_keywords_that_cannot_be_honoured_are_refused_with_the_reason(keywords, reason):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=reason) as caught:
        model(**keywords).check_settings()
    assert next(iter(keywords)) in str(caught.value)


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("lamda_l2", "lambda_l2"),
        ("n_estimator", "n_estimators"),
        ("epsilom", "epsilon"),
        ("max_dept", "max_depth"),
    ],
)
def test_misspelt_keywords_get_a_suggestion(misspelt, meant):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=f"{misspelt}.*unknown; did you.*{meant}"):
        model(**{misspelt: 1}).check_settings()


def test_a_name_like_no_other_gets_no_suggestion():
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=r"zzzzzz=1 is not supported: .* unknown$"):
        model(zzzzzz=1).check_settings()


def test_two_values_of_one_setting_are_refused():
    for keywords in ({"reg_lambda": 1.0, "lambda_l2": 2.0}, {"lambda": 1.0, "lambda_l2": 2.0}):
        with pytest.raises(lgb_dp.InvalidArgumentError, match="same setting"):
            model(**keywords).check_settings()
    model(reg_lambda=1.0, lambda_l2=1.0).check_settings()


def test_objectives_must_fit_the_labels():
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="binary"):
        model(objective="binary").fit(X, y, bounds=(-3, 3), classes=[0, 1, 2])
    assert fitted(objective="multiclass").predict_proba(X).shape == (300, 2)
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="lambdarank"):
        lgb_dp.DPLGBMRegressor(objective="lambdarank").check_settings()


def test_parameters_round_trip_with_keywords():
    given = model(num_leaves=8, min_child_samples=20)
    assert given.get_params()["num_leaves"] == 8
    for other in (clone(given), pickle.loads(pickle.dumps(given))):
        assert other.get_params() == given.get_params()
    assert given.set_params(num_leaves=4, reg_lambda=2.0) is given
    assert (given.get_params()["num_leaves"], given.reg_lambda) == (4, 2.0)
    assert clone(given).get_params()["num_leaves"] == 4
    assert "num_leaves=4" in repr(given)
    given.set_params(no_such=1)
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="no_such"):
        given.check_settings()


def test_importances_are_those_of_the_released_model():
    by_split, by_gain = fitted(), fitted(importance_type="gain")
    np.testing.assert_array_equal(
        by_split.feature_importances_, by_split.booster_.feature_importance("split")
    )
    np.testing.assert_array_equal(by_gain.feature_importances_, by_gain.booster_.feature_importance("gain"))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="importance_type"):
        fitted(importance_type="cover")
