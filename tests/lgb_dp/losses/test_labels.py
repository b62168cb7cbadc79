"""Labels on their public scale."""

import numpy as np
import pytest

import lgb_dp
from lgb_dp.losses.labels import LabelScale
from small_training import binary_data, dataset, train

X, Y = binary_data()


def test_the_centre_of_a_regression_is_that_of_the_public_bounds():
    data = lgb_dp.Dataset(X, label=np.full(len(X), 7.0), bounds=(-3, 3), label_bounds=(0, 20))
    booster = train(
        data, lgb_dp.DPBoost(1e-4, glc=False), n_rounds=1, objective="regression", learning_rate=1e-9
    )
    np.testing.assert_allclose(booster.predict(X), 10.0, atol=1e-6)


def test_label_scale_needs_no_labels():
    assert LabelScale("regression", 1, 0.0, 10.0).centre == 5.0
    assert LabelScale("binary", 1, 0.0, 1.0).centre == 0.0


@pytest.mark.parametrize("bounds", [(-1.7e308, 1.7e308), (0, 5e-324)])
def test_label_bounds_that_overflow_or_vanish_raise(bounds):
    with pytest.raises(ValueError, match="label_bounds"):
        dataset(X, Y, label_bounds=bounds)
