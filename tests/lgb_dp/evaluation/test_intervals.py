"""Intervals hold the value behind a noisy table about as often as they say, whatever the noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgb_dp.evaluation.intervals import Estimate, auc_estimate, mean_estimate, share_estimate

COUNTS = st.lists(st.floats(-50, 500), min_size=2, max_size=12)


@given(COUNTS, COUNTS, st.floats(0, 30))
def test_a_figure_is_in_its_interval_and_in_its_range(first, second, std):
    n = min(len(first), len(second))
    low, high = np.array(first[:n]), np.array(second[:n])
    values = np.linspace(0, 1, n)
    share = share_estimate(float(high.sum()), float(low.sum()), n, n, std)
    mean = mean_estimate(high, values, values / 10, std, (0.0, 1.0))
    for one in (auc_estimate(high, low, std), share, mean):
        assert 0 <= one.low <= one.value <= one.high <= 1


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0.9, 0.0, 12345.6), "0.9000 (0.0000 to 12345.6000)"),
        ((2.51e-7, 1e-7, 0.0451), "2.51e-07 (1e-07 to 0.0451)"),
    ],
)
def test_figures_of_small_labels_have_digits(numbers, text):
    assert str(Estimate(*numbers)) == text


def test_an_area_is_that_of_all_pairs():
    positive, negative = np.array([1.0, 2.0, 7.0]), np.array([6.0, 3.0, 1.0])
    scores = np.repeat([0, 1, 2] * 2, [*positive.astype(int), *negative.astype(int)])
    labels = np.repeat([1, 0], 10)
    pairs = scores[labels == 1][:, None] - scores[labels == 0]
    in_order = (pairs > 0).mean() + (pairs == 0).mean() / 2
    assert auc_estimate(positive, negative, 0.0).value == pytest.approx(in_order)


def test_an_interval_of_very_many_rows_has_a_width():
    one = auc_estimate(np.array([1e9, 1.2345e9]), np.array([1.2345e9, 1e9]), 0.0)
    assert one.high - one.low >= 0.001


def test_noise_that_hides_everything_leaves_the_whole_range():
    rng = np.random.default_rng(0)
    positive, negative = rng.normal(0, 100, 8), rng.normal(40, 100, 8)
    assert auc_estimate(positive, negative, 100.0).high - auc_estimate(positive, negative, 100.0).low > 0.9
    one = share_estimate(float(positive.sum()), float(negative.sum()), 8, 8, 100.0)
    assert (one.low, one.high) == (0.0, 1.0)
    assert mean_estimate(positive, np.arange(8.0), np.zeros(8), 100.0, (0.0, 7.0)).high == 7.0


@pytest.mark.parametrize(("n_rows", "positives", "std"), [(300, 0.3, 4), (3000, 0.07, 4), (3000, 0.5, 30)])
def test_intervals_cover_what_they_say(n_rows, positives, std):
    rng = np.random.default_rng(7)
    n_bins, edges = 16, np.linspace(-2, 3, 15)
    loss = np.linspace(0.05, 2.0, n_bins)
    all_scores = np.concatenate([rng.normal(size=200_000), rng.normal(1.2, 1, size=200_000)])
    cells = np.searchsorted(edges, all_scores).reshape(2, -1)
    true = [np.bincount(one, minlength=n_bins) / cells.shape[1] for one in cells]
    area = auc_estimate(true[1] * 1e9, true[0] * 1e9, 0.0).value
    mean = float((1 - positives) * true[0] @ loss + positives * true[1] @ loss)
    covered = np.zeros(3)
    for _ in range(300):
        n_high = rng.binomial(n_rows, positives)
        tables = [
            rng.multinomial(n, share) + np.rint(rng.normal(0, std, n_bins))
            for n, share in zip((n_rows - n_high, n_high), true, strict=True)
        ]
        both = np.concatenate(tables)
        found = (
            auc_estimate(tables[1], tables[0], std),
            share_estimate(tables[1].sum(), tables[0].sum(), n_bins, n_bins, std),
            mean_estimate(both, np.tile(loss, 2), np.zeros(2 * n_bins), std, (0.0, 2.0)),
        )
        values = (area, positives, mean)
        covered += [one.low <= value <= one.high for one, value in zip(found, values, strict=True)]
    assert (covered >= 0.92 * 300).all()
