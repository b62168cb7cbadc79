"""The sensitivity of a risk holds for all neighbours and is attained."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lgb_dp.mboost.trainer import BOOST_STEPS, ROUNDING, risk_sensitivity
from mboost_training import risks


@st.composite
def neighbours(draw):
    """Codes with missing ones, weights by class, the largest weight; the last row is the added one."""
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = rng.integers(0, 5, size=(n, 2)).astype(np.uint8)
    if draw(st.booleans()):
        codes[:] = 1
    largest = int(draw(st.sampled_from([1, 7, BOOST_STEPS])))
    weight = rng.choice([largest, largest, largest // 2, 0], n)
    positive = rng.random(n) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    positive[-1] = draw(st.booleans())
    return codes, np.where(positive, weight, 0), np.where(positive, 0, weight), largest


def sensitivity(alpha, cap, prior, largest):
    return float(risk_sensitivity(*(np.array([v], dtype=float) for v in (alpha, cap, prior)), largest)[0])


@settings(max_examples=300, deadline=None)
@given(
    neighbours(),
    st.sampled_from([0.0, 0.001, 0.5, 1.0]),
    st.sampled_from([1.0, 1.5, 5.0, 100.0]),
    st.sampled_from([0.0, 0.01, 1.0]),
)
def test_adding_a_row_raises_every_risk_by_at_most_the_sensitivity(data, alpha, cap, smoothing):
    codes, positive, negative, largest = data
    n = len(codes)
    parts = alpha, cap * largest, smoothing * cap * largest
    change = risks(codes, positive, negative, n, *parts) - risks(codes, positive, negative, n - 1, *parts)
    assert change.min() >= -1e-9 * largest
    assert change.max() <= sensitivity(*parts, largest)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_sensitivity_is_attained(alpha, smoothing):
    """Candidates that put a new positive row into a pure child, and into one with no negative row."""
    m = 100
    codes = np.zeros((m + 1, 2), dtype=np.uint8)
    codes[m] = 2
    negative = np.r_[np.ones(m, int), 0]
    parts = alpha, float(m), smoothing * m
    change = risks(codes, 1 - negative, negative, m + 1, *parts) - risks(
        codes, 1 - negative, negative, m, *parts
    )
    wide = sensitivity(*parts, 1)
    lone = 2 * alpha * (np.sqrt((1 + smoothing * m) * smoothing * m) - smoothing * m)
    # In the root itself (all of a candidate's rows in one child) the full width, elsewhere the lone row's.
    codes[m] = 0
    full = risks(codes, 1 - negative, negative, m + 1, *parts) - risks(
        codes, 1 - negative, negative, m, *parts
    )
    assert full.max() == pytest.approx(wide, abs=4 * ROUNDING)
    assert change.min() == pytest.approx(lone, abs=1e-9)


def test_without_cap_and_prior_it_is_the_papers_corollary():
    for alpha in (0.1, 0.5, 1.0):
        for m in (1, 100, 10_000):
            paper = 2 * alpha * np.sqrt(m) + 2 * (1 - alpha)
            assert sensitivity(alpha, m, 0.0, 1) == pytest.approx(paper, abs=4 * ROUNDING)


@st.composite
def bayes_risks(draw):
    """Any symmetric concave L with L(0) = 0 and L(½) = 1: a mixture of the min(u, 1 - u, c) / c, c ≤ ½."""
    corners = draw(st.lists(st.floats(0.001, 0.5), min_size=1, max_size=5))
    weights = np.array(draw(st.lists(st.floats(0.01, 1), min_size=len(corners), max_size=len(corners))))

    def risk(u):
        pieces = [min(u, 1 - u, c) / c for c in corners]
        return float(np.dot(weights, pieces) / weights.sum())

    return risk


def matsushita(u):
    return 2 * np.sqrt(u * (1 - u))


def gini(u):
    return 4 * u * (1 - u)


def information(u):
    return 0.0 if u in (0, 1) else -u * np.log2(u) - (1 - u) * np.log2(1 - u)


def empirical(u):
    return 2 * min(u, 1 - u)


PRINTED = st.sampled_from([matsushita, gini, information, empirical])


def perspective(risk, x, y):
    return y * risk(min(x / y, 1.0)) if y else 0.0


@settings(max_examples=500, deadline=None)
@given(
    bayes_risks() | PRINTED,
    st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.integers(0, 2)), min_size=1, max_size=15),
    st.tuples(st.floats(0, 1), st.booleans(), st.integers(0, 2)),
)
def test_replacing_a_row_moves_any_bayes_risk_by_at_most_the_papers_theorem_3(risk, rows, other):
    """Δ ≤ (m+1) L(1/(m+1)) for m rows of weights in [0, 1]; weight, class and leaf of one may all change."""

    def total(sample):
        sums = np.zeros((3, 2))
        for weight, positive, leaf in sample:
            sums[leaf, int(positive)] += weight
        return sum(perspective(risk, p, p + n) for n, p in sums)

    change = abs(total(rows) - total([other, *rows[1:]]))
    assert change <= perspective(risk, 1.0, len(rows) + 1.0) + 1e-9


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([matsushita, gini, information]), st.integers(2, 10**4))
def test_the_bound_grows_with_the_weight_of_the_loss_as_the_papers_lemma_4_says(risk, m):
    """d/dm of m L(1/m) is w(a)/(2m²) for some a in (0, 1/m), with w = -L''."""
    u = 1 / m
    weight = {
        matsushita: lambda a: 0.5 * (a * (1 - a)) ** -1.5,
        gini: lambda a: 8.0,
        information: lambda a: 1 / (a * (1 - a) * np.log(2)),
    }[risk]
    slope = {
        matsushita: (1 - 2 * u) / np.sqrt(u * (1 - u)),
        gini: 4 - 8 * u,
        information: np.log2((1 - u) / u),
    }[risk]
    growth = risk(u) - u * slope  # the derivative of m L(1/m)
    mean = 2 * growth / u**2
    # w falls on (0, ½] and is unbounded at 0, or constant: some a below u has this weight.
    assert mean >= weight(u) * (1 - 1e-3)
    assert risk is not gini or mean == pytest.approx(8.0, rel=1e-3)


@pytest.mark.parametrize("m", [1, 2, 10, 1000, 10**6])
def test_the_bounds_of_printed_losses_are_those_of_the_papers_lemma_5(m):
    bound = {risk: perspective(risk, 1.0, m + 1.0) for risk in (matsushita, gini, information, empirical)}
    assert bound[matsushita] == pytest.approx(2 * np.sqrt(m))
    assert bound[gini] == pytest.approx(4 * m / (m + 1))
    assert bound[gini] <= 4
    assert bound[information] <= np.log2(m + 1) + 1 / np.log(2)
    assert bound[empirical] == 2
