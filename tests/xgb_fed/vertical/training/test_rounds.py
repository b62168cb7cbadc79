"""Quantiles of residuals as leaf values."""

import numpy as np
import pytest

from gbdt_hosts.xgboost.targets import Targets
from xgb_fed.vertical.training.rounds import leaf_quantiles, quantile, weighted_quantile


def test_quantiles_of_few_numbers():
    values = np.array([4, 1, 3, 2], dtype=np.float32)
    assert quantile(values, 0.5) == 2.5
    assert quantile(values[:3], 0.5) == 3
    assert quantile(values, 0.0) == quantile(values, 0.2) == 1
    assert quantile(values, 1.0) == quantile(values, 0.8) == 4
    assert quantile(values, 0.3) == pytest.approx(1.5)
    assert quantile(values[:1], 0.9) == 4


def test_weighted_quantiles_are_values():
    values, weight = np.array([4, 1, 3, 2], dtype=np.float32), np.array([1, 1, 1, 5], dtype=np.float32)
    assert weighted_quantile(values, weight, 0.5) == 2
    assert weighted_quantile(values, weight, 0.1) == 1
    assert weighted_quantile(values, weight, 0.8) == 3
    assert weighted_quantile(values, weight, 1.0) == 4


def test_leaves_take_the_residuals_of_their_rows():
    label = np.array([1, 2, 3, 10, 20, 30, 99], dtype=np.float32)
    leaf = np.array([3, 3, 3, 1, 1, 1, 5])
    rows = np.array([True, True, True, True, False, True, False])
    margin = np.ones(7, dtype=np.float32)
    targets = Targets(label)
    assert leaf_quantiles(leaf, rows, margin, targets, 0.5) == {1: 19, 3: 1}
    weighted = Targets(label, np.array([1, 1, 9, 9, 1, 1, 1], dtype=np.float32))
    assert leaf_quantiles(leaf, rows, margin, weighted, 0.5) == {1: 9, 3: 2}
    assert leaf_quantiles(leaf, np.zeros(7, dtype=bool), margin, targets, 0.5) == {}
