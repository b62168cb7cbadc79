"""Gradients of the rows that are trained on: XGBoost's, or a function's that is called once per round."""

import numpy as np
import pytest

from gbdt_hosts.xgboost.targets import Targets
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.objectives import XGBoostObjective
from xgb_fed.vertical.training.round_gradients import RoundGradients, has_floor

Y = np.array([0.0, 1.0, 1.0], dtype=np.float32)
FIRST = np.zeros((3, 1), dtype=np.float32)
SQUARED, LOGISTIC = XGBoostObjective("reg:squarederror"), XGBoostObjective("binary:logistic")


def test_a_function_is_called_once_for_the_first_round():
    calls = []

    def own(margin, data):
        calls.append(margin.copy())
        return margin - data.get_label(), np.ones_like(margin)

    gradients = RoundGradients(SQUARED, Targets(Y), FIRST, 0, own)
    assert len(calls) == 1
    assert gradients.n_draws == 0
    g, _ = gradients.at(FIRST, 0)
    assert len(calls) == 1
    np.testing.assert_array_equal(g[:, 0], -Y)
    gradients.at(FIRST, 1)  # as a round with the same margins
    assert len(calls) == 2
    other = RoundGradients(SQUARED, Targets(Y), FIRST, 0, lambda m, d: (2 * m, np.ones_like(m)))
    assert gradients.digest != other.digest is not None


def test_a_closed_form_is_computed_when_it_is_asked_for():
    gradients = RoundGradients(LOGISTIC, Targets(Y), FIRST, 0)
    assert gradients.digest is None
    g, h = gradients.at(FIRST, 0)
    np.testing.assert_allclose(g[:, 0], 0.5 - Y)
    np.testing.assert_allclose(h[:, 0], 0.25)


def test_faults_of_a_function_show_before_training():
    with pytest.raises(InvalidDataError, match="negative hessians"):
        RoundGradients(SQUARED, Targets(Y), FIRST, 0, lambda m, d: (m, m - 1))
    with pytest.raises(InvalidDataError, match="infinite"):
        RoundGradients(SQUARED, Targets(Y), FIRST, 0, lambda m, d: (m + np.inf, m + 1))


def test_hessians_of_a_function_may_be_tiny():
    assert has_floor(SQUARED, lambda m, d: (m, m))
    assert not has_floor(SQUARED, None)
