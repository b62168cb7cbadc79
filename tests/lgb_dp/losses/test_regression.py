"""No row adds more than the joint bound to the sums of the losses of regression, and counts are bounded."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lgb_dp
from gbdt_kernels.trees import leaf_sums
from label_histograms import numbers
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import STEPS
from lgb_dp.losses.registry import loss_of
from lgb_dp.losses.regression import LOG_LINK_HESSIAN_LIMIT, MIN_THRESHOLD, hessian_limits, residual_table

shares = st.sampled_from([0.0, 0.05, 0.5, 0.95])
OWN = {
    "poisson": st.just({}),
    "gamma": st.just({}),
    "tweedie": st.builds(lambda p: {"tweedie_variance_power": p}, st.floats(1.0, 1.999)),
    "huber": st.builds(lambda a: {"alpha": a}, st.floats(1e-3, 100)),
    "quantile": st.builds(lambda a: {"alpha": a}, st.floats(0.01, 0.99)),
    "regression_l1": st.just({}),
}


def scale_of(objective, own, low=0.5, high=40.0):
    return LabelScale(objective, 1, low, high, 1.0, own)


def squared_length(g, h, loss):
    """Exact squared length of a contribution in stds of noise that makes the release 1-GDP."""
    sigma_g, sigma_h = map(Fraction, loss.stds(1.0))
    return Fraction(int(g)) ** 2 / sigma_g**2 + Fraction(int(h)) ** 2 / sigma_h**2


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(OWN)), st.data(), numbers, numbers, st.integers(0, 1024), shares)
def test_no_row_adds_more_than_its_weight_times_the_bound(objective, data, score, label, weight, share):
    scale = scale_of(objective, data.draw(OWN[objective]))
    loss = loss_of(scale, None, share, 1.0)
    target = loss.targets(np.array([label]), scale)  # whatever it is: bounds do not rest on labels that fit
    clip = data.draw(st.one_of(st.floats(1e-9, 1e9), st.sampled_from([1.0, 0.05])))
    pairs = loss.pairs(target, clip)
    sums = leaf_sums(pairs, np.array([[score]]), np.array([weight], np.int32), np.zeros(1, np.uint16), 1)
    bound = Fraction(weight) ** 2 * (1 + Fraction(1, 10**12))
    assert squared_length(*sums[0, 0], loss) <= bound


@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_every_entry_of_the_tables_keeps_to_the_bound_and_some_meet_it(share):
    poisson = loss_of(scale_of("poisson", {}), None, share, 1.0)
    gradient = np.arange(-STEPS, STEPS + 1)
    tables = [(np.column_stack([gradient, hessian_limits(share)]), poisson)]
    for objective, own in [("huber", {"alpha": 1.0}), ("quantile", {"alpha": 0.9}), ("regression_l1", {})]:
        loss = loss_of(scale_of(objective, own), None, share, 1.0)
        tables.append((residual_table(loss.alpha, share), loss))
    for table, loss in tables:
        sigma_g, sigma_h = loss.stds(1.0)
        length = (table[:, 0] / sigma_g) ** 2 + (table[:, 1] / sigma_h) ** 2
        assert 0.99 < length.max() <= 1 + 1e-9
        for entry in np.argsort(length)[-40:]:
            assert squared_length(*table[entry], loss) <= 1 + Fraction(1, 10**12)
        assert (table[:, 1] >= 0).all()
    assert hessian_limits(0.0).max() <= LOG_LINK_HESSIAN_LIMIT * STEPS


def test_residual_tables_are_those_of_the_smoothed_losses():
    residual = np.arange(-STEPS, STEPS + 1) / STEPS
    huber = residual_table(None, 0.0) / STEPS
    np.testing.assert_allclose(huber[:, 0], residual, atol=1 / STEPS)
    np.testing.assert_allclose(huber[:, 1], np.sqrt(1 - residual**2), atol=1.01 / STEPS)
    for alpha in (0.1, 0.5, 0.8):
        g, h = residual_table(alpha, 0.0).T / STEPS
        np.testing.assert_allclose([g[0], g[-1]], [-alpha, 1 - alpha], atol=1 / STEPS)
        assert h[0] == h[-1] == 0
        np.testing.assert_allclose(np.diff(g), 0.5 / STEPS, atol=1.01 / STEPS)
        assert 0.49 < h.max() <= 0.5


@pytest.mark.parametrize("objective", ["poisson", "gamma", "tweedie", "quantile", "huber", "regression_l1"])
@pytest.mark.parametrize("noise", [0.0, 1e-3, 1e9])
def test_a_start_is_finite_whatever_was_released(objective, noise):
    own = {"tweedie": {"tweedie_variance_power": 1.5}, "quantile": {"alpha": 0.9}, "huber": {"alpha": 2.0}}
    scale = scale_of(objective, own.get(objective, {}))
    loss = loss_of(scale, None, 0.0, 1.0)
    n_counts = loss.n_counts(1)
    for counts in (
        np.zeros(n_counts),
        -np.ones(n_counts) * 1e6,
        np.eye(n_counts)[0] * 1e6,
        np.eye(n_counts)[-1],
    ):
        start = loss.start(counts, noise)
        found = [
            start.n_rows,
            *start.prior,
            start.clip,
            start.value_unit,
            start.hessian_unit,
            start.row_hessian,
        ]
        assert np.isfinite(found).all()
        assert start.n_rows >= 1
        assert min(start.clip, start.value_unit, start.hessian_unit, start.row_hessian) > 0
        low, high = (np.log(0.5 / 40), 0.0) if objective in ("poisson", "gamma", "tweedie") else (-1.0, 1.0)
        assert low - 1e-9 <= start.prior[0] <= high + 1e-9


def test_a_huber_threshold_is_from_the_least_to_the_width_of_all_labels():
    """In halves of the width of the label's bounds: no residual is longer than 2."""
    for alpha, threshold in ((1e9, 2.0), (19.75 * 1.5, 1.5), (19.75 * MIN_THRESHOLD, MIN_THRESHOLD)):
        scale = scale_of("huber", {"alpha": alpha})
        assert scale.scale == 19.75
        assert loss_of(scale, None, 0.0, 1.0).threshold == threshold


def test_a_clip_that_is_given_is_a_share_of_the_largest_gradient():
    loss = loss_of(scale_of("poisson", {}, 0.0, 40.0), 0.25, 0.0, 1.0)
    assert loss.start(np.ones(22), 0.0).clip == pytest.approx(0.25)
    gamma = loss_of(scale_of("gamma", {}, 0.5, 40.0), 0.25, 0.0, 1.0)
    counts = np.ones(gamma.n_counts(1))
    assert gamma.start(counts, 0.0).clip == pytest.approx(0.25 * 79)
    for objective, own in [("huber", {"alpha": 1.0}), ("quantile", {"alpha": 0.5}), ("regression_l1", {})]:
        with pytest.raises(lgb_dp.InvalidArgumentError, match="gradient_clip"):
            loss_of(scale_of(objective, own), 0.25, 0.0, 1.0)
