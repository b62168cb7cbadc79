"""Rows of times keep to the joint bound, whatever is censored; derivatives are those of the likelihood."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, ndtr

import lgb_dp
from gbdt_kernels.trees import leaf_sums, time_pairs
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import STEPS
from lgb_dp.losses.registry import loss_of
from lgb_dp.losses.survival import LAWS, OWN_SCALE, log_survival, quantile_of
from lgb_dp.losses.times import TIMES

EDGES = np.array([-np.inf, -800.0, -38.0, -3.0, -1e-4, 0.0, 1e-4, 0.7, 30.0, 60.0, np.inf])
numbers = st.one_of(st.floats(-50, 50), st.sampled_from(EDGES.tolist()), st.floats(allow_nan=True))


def loss(law, share=0.0, scale=0.0):
    return loss_of(LabelScale(f"aft_{law}", 1, 0.5, 40.0, 1.0, {OWN_SCALE: scale}), None, share, 1.0)


@pytest.mark.parametrize("low", [1e-300, 2.3e-308])
def test_bounds_whose_ratio_vanishes_are_refused(low):
    with pytest.raises(InvalidArgumentError, match="label_bounds"):
        loss_of(LabelScale("aft_normal", 1, low, 1e100, 1.0, {OWN_SCALE: 0.0}), None, 0.0, 1.0)


def targets(lower, upper):
    target = np.empty(len(lower), dtype=TIMES)
    target["lower"], target["upper"] = lower, upper
    return target


def derivatives(law, lower, upper, score=0.0, scale=1.0, by_scale=False):
    lower, upper = np.asarray(lower, float), np.asarray(upper, float)
    found = np.empty((2, len(lower)))
    time_pairs(np.full(len(lower), score), lower, upper, LAWS.index(law), 1 / scale, 1.0, by_scale, *found)
    return found


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(LAWS),
    numbers,
    numbers,
    st.floats(-100, 100),
    st.integers(0, 1024),
    st.sampled_from([0.0, 0.5, 0.95]),
    st.one_of(st.floats(1e-6, 1e6), st.floats(-1e6, -1e-6)),
)
def test_no_row_adds_more_than_its_weight_times_the_bound(law, lower, upper, score, weight, share, clip):
    # Bounds do not rest on times in the right order, nor on a scale: a negative one asks by its logarithm.
    one = loss(law, share)
    pairs = one.pairs(targets([lower], [upper]), clip)
    (sums,) = leaf_sums(pairs, np.array([[score]]), np.array([weight], np.int32), np.zeros(1, np.uint16), 1)
    g, h = (Fraction(int(x)) / Fraction(std) for x, std in zip(sums[0], one.stds(1.0), strict=True))
    assert g**2 + h**2 <= Fraction(weight) ** 2 * (1 + Fraction(1, 10**12))


def test_the_logistic_law_keeps_to_the_bound_without_cutting():
    grid = np.concatenate([EDGES, np.linspace(-12, 12, 161)])
    lower, upper = np.array([pair for pair in itertools.product(grid, grid) if pair[0] <= pair[1]]).T
    g, h = derivatives("logistic", lower, upper)
    assert np.abs(g).max() <= 1
    assert h.min() >= 0
    assert (g**2 + (h / 0.5) ** 2).max() <= 1 + 1e-12
    assert h.max() == pytest.approx(0.5)


def log_likelihood(law, lower, upper, score, scale):
    z = [(np.asarray(end) - score) / scale for end in (lower, upper)]
    with np.errstate(divide="ignore"):
        survived = [np.exp(log_survival(law, one)) for one in z]
    return np.log(survived[0] - survived[1])


@pytest.mark.parametrize("law", LAWS)
def test_derivatives_are_those_of_the_likelihood(law):
    lower = np.array([-np.inf, -np.inf, -1.0, 0.3, 0.5, -2.0, 1.0])
    upper = np.array([-0.5, 1.2, 0.4, np.inf, 1.7, np.inf, 1.4])
    score, scale, step = 0.2, 0.6, 1e-4

    def at(moved, factor=1.0):
        return -log_likelihood(law, lower, upper, score + moved, scale * factor)

    g, h = derivatives(law, lower, upper, score, scale)
    np.testing.assert_allclose(g / scale, (at(step) - at(-step)) / (2 * step), rtol=1e-5)
    np.testing.assert_allclose(h / scale**2, (at(step) - 2 * at(0) + at(-step)) / step**2, rtol=1e-4)
    by_scale, came = derivatives(law, lower, upper, score, scale, by_scale=True)
    slope = (at(0, np.exp(step)) - at(0, np.exp(-step))) / (2 * step)
    np.testing.assert_allclose(by_scale, slope, rtol=1e-5, atol=1e-9)
    assert came.tolist() == np.isfinite(upper).tolist()
    # An event that was observed is the limit of ever narrower intervals, and loses log s for the density.
    event = np.array([-0.8, 0.9])
    narrow = derivatives(law, event - 0.002, event + 0.002, score, scale)
    np.testing.assert_allclose(derivatives(law, event, event, score, scale), narrow, rtol=1e-3, atol=1e-3)
    narrow = derivatives(law, event - 0.002, event + 0.002, score, scale, by_scale=True)
    np.testing.assert_allclose(
        derivatives(law, event, event, score, scale, by_scale=True), narrow, rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("law", LAWS)
def test_medians_and_quantiles_are_those_of_the_law(law):
    assert np.exp(log_survival(law, np.zeros(1))) == pytest.approx(0.5)
    for share in (0.01, 0.5, 0.9):
        distance = quantile_of(law, 0.7, share)
        assert 1 - np.exp(log_survival(law, np.array([distance / 0.7])))[0] == pytest.approx(share)
    other = {"logistic": expit(-2.0), "normal": ndtr(-2.0), "extreme": 0.5 ** np.exp(2.0)}[law]
    assert np.exp(log_survival(law, np.array([2.0]))) == pytest.approx(other)


@settings(max_examples=100, deadline=None)
@given(numbers, numbers, st.integers(0, 1024))
def test_a_row_is_counted_for_no_more_than_its_weight(lower, upper, weight):
    counts = loss("normal").label_counts(targets([lower], [upper]), np.array([weight], np.int32), 1)
    assert (counts >= 0).all()
    assert sum(int(n) ** 2 for n in counts) <= (STEPS * weight) ** 2


@pytest.mark.parametrize("law", LAWS)
def test_the_start_finds_median_and_scale_of_all_rows(law):
    random = np.random.default_rng(0)
    uniform, one = random.uniform(size=20_000), loss(law)
    z = np.array([quantile_of(law, 1.0, share) for share in uniform])
    time, seen = -1.5 + 0.5 * z, np.log(random.uniform(0.05, 1.0, len(z)))
    target = targets(np.minimum(time, seen), np.where(time <= seen, time, np.inf))
    counts = one.label_counts(target, np.ones(len(z), np.int32), 1) / STEPS
    start = one.start(counts, 0.0)
    assert start.prior[0] == pytest.approx(-1.5, abs=0.12)
    assert start.clip == pytest.approx(0.25, rel=0.15)  # half of the law's
    level = start.level
    for _ in range(6):  # steps to the scale itself, from sums over all rows
        own = np.full((len(z), 1), -1.5), np.ones(len(z), np.int32), np.zeros(len(z), np.uint16)
        g, h = leaf_sums(one.pairs(target, level.clip), *own, 1)[0, 0]
        level = type(level)(-level.scale(float(g), float(h), 0.0), level.events, level.information)
    assert -level.clip == pytest.approx(0.5, rel=0.1)


def test_objectives_are_texts_with_a_scale():
    assert lgb_dp.AFT() == "aft_logistic(auto)"
    assert lgb_dp.AFT("normal", 0.5) == "aft_normal(0.5)"
    with pytest.raises(InvalidArgumentError, match="distribution"):
        lgb_dp.AFT("gamma")
    with pytest.raises(InvalidArgumentError, match="scale"):
        lgb_dp.AFT(scale=0.0)
