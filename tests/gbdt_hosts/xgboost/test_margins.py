"""Base scores, predictions and objectives are those that XGBoost writes and computes."""

import numpy as np
import pytest

from gbdt_hosts.xgboost.margins import margins_of, objective_config, predictions_of


@pytest.mark.parametrize("score", [0.3, 1.3128658e1, -3.75, 1e-7])
def test_base_scores_are_read_to_the_last_bit(score):
    exact = np.array([score], dtype=np.float32)
    np.testing.assert_array_equal(margins_of({"objective": "reg:squarederror"}, exact), exact)


def test_predictions_of_margins():
    margin = np.array([[-1.0], [0.0], [2.0]], dtype=np.float32)
    mean = predictions_of({"objective": "count:poisson"}, margin)
    np.testing.assert_allclose(mean, np.exp(margin[:, 0]), rtol=1e-6)
    assert predictions_of({"objective": "binary:hinge"}, margin).tolist() == [0, 0, 1]
    three = np.array([[1, 0, 3], [2, 1, 0]], dtype=np.float32)
    assert predictions_of({"objective": "multi:softmax", "num_class": 3}, three).tolist() == [2, 0]
    assert predictions_of({"objective": "multi:softprob", "num_class": 3}, three[:0]).shape == (0, 3)


def test_an_objective_as_a_model_has_it():
    config = objective_config({"objective": "reg:tweedie", "tweedie_variance_power": 1.25})
    assert config["tweedie_regression_param"]["tweedie_variance_power"] == "1.25"
    with pytest.raises(ValueError, match="tweedie_variance_power"):
        objective_config({"objective": "reg:tweedie", "tweedie_variance_power": 2.5})
