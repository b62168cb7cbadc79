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
