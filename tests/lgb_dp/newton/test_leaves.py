"""Leaf values and counts of a release."""

import numpy as np

from lgb_dp.newton.leaves import denominators, leaf_counts, leaf_values
from lgb_dp.newton.releases.trees import LeafRelease
from lgb_dp.newton.settings import SHRINKAGE

RELEASE = LeafRelease(np.array([[4.0], [-90.0], [1.0]]), np.array([[7.0], [8.0], [-5.0]]), 2.0)


def test_values_are_bounded_newton_steps():
    denominator = denominators(RELEASE, 1.0)
    np.testing.assert_allclose(denominator[:, 0], np.array([8.0, 9.0, 1.0]) + SHRINKAGE * 2.0)
    for least, counted in ((1.0, 2.0), (5.0, 5.0)):
        found = denominators(RELEASE, 1.0, least)
        np.testing.assert_allclose(found - denominator, SHRINKAGE * (counted - 2.0))
    value = leaf_values(RELEASE, denominator, 3.0)
    np.testing.assert_allclose(value[:, 0], [-4.0 / denominator[0, 0], 3.0, -1.0 / denominator[2, 0]])


def test_counts_are_of_all_rows_and_positive():
    held = LeafRelease(np.zeros((3, 1)), np.array([[1.0], [0.0], [0.0]]), 2.0)
    assert leaf_counts(RELEASE, None, 0.25)[:, 0].tolist() == [28, 32, 1]
    assert leaf_counts(RELEASE, held, 0.25)[:, 0].tolist() == [32, 32, 1]
    assert leaf_counts(RELEASE, None, 1e-12).sum() < 2**31
