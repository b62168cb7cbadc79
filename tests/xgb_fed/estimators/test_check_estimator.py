"""Scikit-learn's own checks of the federated estimators, which it fits without parties."""

import inspect

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import xgb_fed

pytestmark = pytest.mark.filterwarnings("ignore")  # the checks give no parties
SMALL = {"n_estimators": 2, "max_depth": 2, "random_state": 0}
MODELS = [
    xgb_fed.VerticalXGBClassifier(**SMALL, cipher=xgb_fed.Plain()),
    xgb_fed.VerticalXGBRegressor(**SMALL, cipher=xgb_fed.Plain()),
    xgb_fed.HorizontalXGBClassifier(**SMALL),
    xgb_fed.HorizontalXGBRegressor(**SMALL),
]
DECLARATION = {"expected_failed_checks": lambda model: model._expected_failed_checks}
ACCEPTED = inspect.signature(parametrize_with_checks).parameters
"""Before scikit-learn 1.6, the suite reads the estimator's ``_xfail_checks`` instead of a declaration."""


DECLARED = {name: DECLARATION[name] for name in DECLARATION if name in ACCEPTED}


@parametrize_with_checks([MODELS[0], MODELS[3]], **DECLARED)
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(MODELS[1:3], **DECLARED)
def test_check_the_other_estimators(estimator, check):
    check(estimator)


def test_only_weights_are_declared():
    for model in MODELS:
        assert all("weigh" in reason for reason in model._expected_failed_checks.values())
    assert not any(model._expected_failed_checks for model in MODELS[2:])
