"""Bad arguments of MBoost are named."""

import numpy as np
import pytest

import lgb_dp
from small_training import binary_data, dataset, train

X, Y = binary_data()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("alpha", 0.0),
        ("alpha", 1.5),
        ("alpha", "auto"),
        ("leaf_share", 0.0),
        ("leaf_share", 1.0),
        ("weight_share", -0.1),
        ("weight_share", 0.7),
        ("smoothing", -1.0),
        ("smoothing", np.nan),
        ("leaf_bound", 0.0),
        ("leaf_bound", np.inf),
        ("leverage", "free"),
        ("n_rows", 0),
        ("n_rows", np.inf),
    ],
)
def test_arguments_are_checked(argument, value):
    with pytest.raises(ValueError, match=f"^{argument} must"):
        lgb_dp.MBoost(1.0, **{argument: value})


@pytest.mark.parametrize("epsilon", [0, -1, np.nan, -np.inf])
def test_epsilon_is_checked(epsilon):
    with pytest.raises(ValueError, match=r"epsilon.*positive"):
        lgb_dp.MBoost(epsilon)
    with pytest.raises(ValueError, match="positive and finite"):
        lgb_dp.DPBoost(np.inf)


def test_regression_is_refused():
    data = dataset(X, Y, label_bounds=(0, 1))
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="objective='regression'"):
        train(data, lgb_dp.MBoost(1.0), objective="regression")
