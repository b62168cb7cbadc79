"""Gradients of XGBoost's objectives, without a public call for them."""

import inspect

import numpy as np
import pytest
import xgboost

from gbdt_hosts.xgboost import gradients
from gbdt_hosts.xgboost.gradients import XGBoostGradients, custom_gradients
from gbdt_hosts.xgboost.targets import Targets
from native_trees import read_trees
from targets import LABELS, MARGIN, N, X, params_of, targets_of


def grown(params, targets):
    """Booster and data set of which the columns were cut before anything else was known of the rows."""
    data = xgboost.QuantileDMatrix(X, max_bin=16)
    other = targets.matrix()
    info = {name: getattr(other, f"get_{name}")() for name in ("label", "weight")}
    info |= {"label_lower_bound": targets.lower, "label_upper_bound": targets.upper}
    info |= {"group": targets.query_sizes, "base_margin": MARGIN[:, 0]}
    data.set_info(**{name: value for name, value in info.items() if value is not None})
    settings = {**params, "max_depth": 3, "max_bin": 16, "nthread": 1, "base_score": 0.5}
    return xgboost.Booster(settings, cache=[data]), data


@pytest.mark.parametrize("objective", LABELS)
def test_xgboost_grows_the_tree_of_these_gradients(objective):
    targets, params = targets_of(objective), params_of(objective)
    g, h = XGBoostGradients(params, targets)(MARGIN, 2)
    assert g.shape == h.shape == (N, 1)
    assert g.dtype == h.dtype == np.float32
    theirs, data = grown(params, targets)
    theirs.update(data, 2)
    step = {"max_delta_step": 0.7} if objective == "count:poisson" else {}
    ours, data = grown({"objective": "reg:squarederror", **step}, Targets(targets.label))
    which = {"iteration": 2} if "iteration" in inspect.signature(ours.boost).parameters else {}
    ours.boost(data, grad=g[:, 0].copy(), hess=h[:, 0].copy(), **which)
    (a,), (b,) = read_trees(ours), read_trees(theirs)
    assert len(a["left_children"]) > 3
    for key in ("left_children", "split_indices", "base_weights", "loss_changes", "sum_hessian"):
        assert a[key] == b[key], key


def test_rows_are_told_apart_by_two_columns_where_one_is_too_short(monkeypatch):
    targets = targets_of("reg:gamma")
    expected = XGBoostGradients(params_of("reg:gamma"), targets)(MARGIN, 0)
    monkeypatch.setattr(gradients, "COLUMN_BITS", 3)
    got = XGBoostGradients(params_of("reg:gamma"), targets)(MARGIN, 0)
    np.testing.assert_array_equal(got, expected)


def test_gradients_beside_large_hessians_are_exact():
    """(m − y)·w with a weight beyond 2^31."""
    targets = Targets(np.zeros(3, dtype=np.float32), np.array([1, 3, 2e12], dtype=np.float32))
    margin = np.array([[0.3], [-1.7], [1.1]], dtype=np.float32)
    g, h = XGBoostGradients(params_of("reg:squarederror"), targets)(margin, 0)
    np.testing.assert_array_equal(g[:, 0], margin[:, 0] * targets.weight)
    np.testing.assert_array_equal(h[:, 0], targets.weight)


def test_gradients_of_a_user():
    targets = targets_of("reg:squarederror")
    data = targets.matrix()

    def square(margin, rows):
        assert rows is data
        assert margin.shape == (N,)
        return (margin - rows.get_label()) * rows.get_weight(), rows.get_weight()

    g, h = custom_gradients(square, data, MARGIN)
    np.testing.assert_array_equal(
        np.stack([g, h]), XGBoostGradients(params_of("reg:squarederror"), targets)(MARGIN, 0)
    )
    for wrong in (
        lambda margin, _: margin,
        lambda margin, _: (margin, margin[1:]),
        lambda margin, _: (margin, margin, margin),
    ):
        with pytest.raises(ValueError, match="gradients and hessians"):
            custom_gradients(wrong, data, MARGIN)
