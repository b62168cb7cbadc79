"""Scikit-learn's own checks of estimators, on the oldest supported release and the newest."""

import inspect

import lightgbm
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import lgb_dp
from lgb_dp.estimators.tags import EXPECTED_FAILED_CHECKS

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


@parametrize_with_checks(MODELS, **{name: DECLARATION[name] for name in DECLARATION if name in ACCEPTED})
def test_check_estimator(estimator, check):
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
