"""What released leaf sums say about candidate splits."""

import numpy as np
import pytest

from lgb_dp.newton.splits.gains import REGULARISATION, SplitGains

HESSIAN, SIGMA = 100.0, 5.0
RNG = np.random.default_rng


def noted(effect, n_trees, n_cells=8, sigma=SIGMA, n_categories=0, seed=0, depth=1):
    """Estimates after trees whose node's contrast is ``effect(cell, left, rng)`` Newton units."""
    rng = RNG(seed)
    gains = SplitGains(np.full(n_cells, n_categories), np.zeros(n_cells, dtype=bool))
    n_leaves = 2**depth
    for _ in range(n_trees):
        cell = rng.integers(0, n_cells, n_leaves - 1)
        left = np.zeros((n_leaves - 1, 256), dtype=np.uint8)
        left[:, : max(n_categories, 1)] = rng.integers(0, 2, (n_leaves - 1, max(n_categories, 1)))
        signal = np.zeros(n_leaves)
        for node in range(n_leaves - 1):
            below = _leaves_below(node, n_leaves)
            half = len(below) // 2
            delta = effect(cell[node], left[node], rng)
            signal[below[:half]] += HESSIAN * delta / 2
            signal[below[half:]] -= HESSIAN * delta / 2
        gradient = (signal + sigma * rng.normal(size=n_leaves))[:, None]
        gains.note(cell, left, gradient, np.full((n_leaves, 1), HESSIAN), sigma)
    return gains.estimate()


def _leaves_below(node, n_leaves):
    first = last = node
    while first < n_leaves - 1:
        first, last = 2 * first + 1, 2 * last + 2
    return np.arange(first, last + 1) - (n_leaves - 1)


def test_one_release_by_hand():
    gains = SplitGains(np.array([0]), np.array([False]))
    g, h = np.array([[30.0], [-50.0]]), np.array([[80.0], [120.0]])
    gains.note(np.array([0]), np.zeros((1, 256), np.uint8), g, h, SIGMA)
    a, b = h[:, 0] + REGULARISATION * SIGMA
    x, n2 = 30 / a + 50 / b, SIGMA**2 * (1 / a**2 + 1 / b**2)
    e, height = (80 / a + 120 / b) / 2, a * b / (a + b)
    same = ((x / e) ** 2 - n2 / e**2) * e**2 * height
    assert gains.estimate() == pytest.approx([same])


def test_before_the_first_release_nothing_is_known():
    assert SplitGains(np.array([0, 3]), np.array([False, False])).estimate().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("n_categories", [0, 5])
def test_estimates_are_what_splits_explain(n_categories):
    def effect(cell, left, rng):
        sign = 2.0 * left[2] - 1 if n_categories else 1.0
        return 0.8 * sign * (cell == 3)

    found = noted(effect, 400, n_categories=n_categories)
    explained = (HESSIAN * 0.8) ** 2 / (2 * (HESSIAN + REGULARISATION * SIGMA))
    assert found[3] == pytest.approx(explained, rel=0.1)
    assert np.delete(found, 3).max() < 0.05 * explained


def test_a_signal_that_drowns_in_every_single_release_is_found():
    found = noted(lambda cell, left, rng: 0.5 * (cell == 2), 6000, sigma=100.0)
    assert found.argmax() == 2
    assert np.sort(found)[-2] < 0.3 * found[2]


def test_an_effect_whose_sign_depends_on_the_rest_of_the_tree_is_found():
    found = noted(lambda cell, left, rng: rng.choice([-0.8, 0.8]) * (cell == 5), 400)
    explained = (HESSIAN * 0.8) ** 2 / (2 * (HESSIAN + REGULARISATION * SIGMA))
    assert found[5] == pytest.approx(explained, rel=0.2)
    assert np.delete(found, 5).max() < 0.05 * explained


def test_deep_trees_and_releases_taken_in_at_several_times():
    effect = lambda cell, left, rng: 0.6 * (cell == 1)  # noqa: E731
    found = noted(effect, 300, depth=3)
    assert found.argmax() == 1
    rng, cells = RNG(0), np.zeros(3, dtype=bool)
    once, often = SplitGains(np.zeros(3, int), cells), SplitGains(np.zeros(3, int), cells)
    for _ in range(20):
        tree = rng.integers(0, 3, 3), np.zeros((3, 256), np.uint8)
        sums = rng.normal(size=(4, 2)) * 30, np.full((4, 2), HESSIAN)
        once.note(*tree, *sums, SIGMA)
        often.note(*tree, *sums, SIGMA)
        often.estimate()
    np.testing.assert_allclose(once.estimate(), often.estimate(), atol=1e-9)
    np.testing.assert_array_equal(once.estimate(), once.estimate())


def test_neighbouring_thresholds_share_what_is_learned():
    follows = np.array([False, True, True, False])
    gains = SplitGains(np.zeros(4, dtype=int), follows)
    rng = RNG(1)
    for _ in range(50):
        for cell, delta in enumerate((0.0, 0.8, 0.0, 0.0)):
            noise = rng.normal(size=2) * SIGMA
            g = (np.array([50.0, -50.0]) * delta + noise)[:, None]
            gains.note(np.array([cell]), np.zeros((1, 256), np.uint8), g, np.full((2, 1), HESSIAN), SIGMA)
    found = gains.estimate()
    assert found[1] > found[0] > 0.01 * found[1] > found[3]
    assert found[2] > 0.01 * found[1]
