"""What one-feature trees say about each feature."""

import warnings

import lightgbm
import numpy as np
import pytest

import lgb_dp
from lgb_dp.newton.releases.trees import LeafRelease
from lgb_dp.newton.splits.feature_effects import FeatureEffects
from lgb_dp.newton.splits.random import CyclicSplits, SplitCells, leaf_of_codes
from small_bins import Bins

SIGMA = 10.0


class Population:
    """Rows of independent features; `effect` is the Newton value of each code of each feature."""

    def __init__(self, bins, effect, mass):
        self.bins, self.effect, self.mass = bins, effect, mass
        self.cells = SplitCells.of(bins)
        self.trees = CyclicSplits(bins, 4).trees
        self.left = [np.array(e, dtype=float) for e in effect]

    def release(self, tree, rng, sigma=SIGMA):
        f = int(tree.feature[0])
        leaf = leaf_of_codes(tree)[: self.bins.n_bins[f]]
        n = len(tree.feature) + 1
        h = np.bincount(leaf, self.mass[f], n)
        g = -np.bincount(leaf, self.mass[f] * self.left[f], n)
        noise = rng.normal(size=(2, n)) * sigma
        return LeafRelease((g + noise[0])[:, None], (h + 0.6 * noise[1])[:, None], sigma)

    def gains(self, n_passes, seed=0, sigma=SIGMA, step=0.0):
        rng = np.random.default_rng(seed)
        effects = FeatureEffects(self.trees, self.bins.n_bins, self.cells)
        for _ in range(n_passes):
            for tree in self.trees:
                release = self.release(tree, rng, sigma)
                value = -release.gradient / (np.maximum(release.hessian, 0) + sigma) * step
                effects.note(tree, release, value)
                f = int(tree.feature[0])
                self.left[f] = self.left[f] - value[leaf_of_codes(tree)[: self.bins.n_bins[f]], 0]
        return effects.gains()


def explained(mass, effect, threshold):
    """Loss that a split after code `threshold` explains, with no noise."""
    d = mass * effect
    left, p = d[: threshold + 1].sum(), mass[: threshold + 1].sum() / mass.sum()
    return (left - p * d.sum()) ** 2 / (mass.sum() * p * (1 - p))


def rare(step=0.0):
    """One feature of which 3% of the rows, in one range, have a strong effect; one without any."""
    mass = np.full(32, 60.0)
    mass[20:24] = 15.0
    effect = np.zeros(32)
    effect[20:24] = 3.0
    return Population(Bins([32, 32]), [effect, np.zeros(32)], [mass, mass])


def test_gains_without_noise_are_what_splits_explain():
    population = rare()
    gains = population.gains(1, sigma=1e-9)
    own = population.cells.feature == 0
    mass, effect, cells = population.mass[0], population.effect[0], population.cells
    ends = np.arange(1, 31, 2)  # last codes of the tree's groups
    expected = np.interp(cells.middle[own], ends, [explained(mass, effect, end) for end in ends])
    np.testing.assert_allclose(gains[own], expected, rtol=1e-6)
    assert gains[~own].max() < 1e-9


@pytest.mark.parametrize("step", [0.0, 0.5])
def test_a_rare_strong_effect_is_found_though_steps_remove_it(step):
    population = rare()
    gains = population.gains(5, step=step)
    own = population.cells.feature == 0
    best = np.flatnonzero(own)[gains[own].argmax()]
    assert 16 <= population.cells.first[best] <= 24
    assert gains[own].max() > 5 * gains[~own].max()


def test_steps_do_not_change_what_is_estimated():
    own = rare().cells.feature == 0
    still, moving = (rare().gains(6, sigma=0.01, step=step)[own] for step in (0.0, 0.6))
    np.testing.assert_allclose(still, moving, rtol=0.02, atol=1.0)


def test_categories_and_two_bins():
    effect = [np.array([0.0, 2.0, 0.0, 0.0, -2.0, 0.0]), np.array([0.5, -0.5])]
    mass = [np.full(6, 200.0), np.full(2, 600.0)]
    population = Population(Bins([6, 2], categorical=[0]), effect, mass)
    subset, threshold = population.gains(1, sigma=1e-9)
    assert threshold == pytest.approx(explained(mass[1], effect[1], 0), rel=1e-3)
    d = mass[0] * effect[0]
    assert subset == pytest.approx((d**2).sum() / 4 / (mass[0].sum() / 4), rel=1e-3)


def test_noise_alone_explains_little():
    mass = np.full(32, 50.0)
    population = Population(Bins([32] * 20), [np.zeros(32)] * 20, [mass] * 20)
    found = population.gains(3, sigma=20.0)
    strong = explained(mass, np.where(np.arange(32) < 16, 0.5, -0.5), 15)
    assert found.mean() < 0.05 * strong


def test_several_outputs_add_up():
    population = rare()
    rng = np.random.default_rng(0)
    one, two = (FeatureEffects(population.trees, population.bins.n_bins, population.cells) for _ in range(2))
    for tree in population.trees:
        release = population.release(tree, rng)
        doubled = [np.repeat(a, 2, axis=1) for a in (release.gradient, release.hessian)]
        value = np.zeros_like(release.gradient)
        one.note(tree, release, value)
        two.note(tree, LeafRelease(*doubled, release.std), np.repeat(value, 2, axis=1))
    np.testing.assert_allclose(two.gains(), 2 * one.gains())


def crowded_of(masses, sigma, bins=None, seed=0):
    bins = bins or Bins([len(mass) for mass in masses])
    population = Population(bins, [np.zeros(len(mass)) for mass in masses], masses)
    effects = FeatureEffects(population.trees, bins.n_bins, population.cells)
    rng = np.random.default_rng(seed)
    for tree in population.trees:
        effects.note(tree, population.release(tree, rng, sigma), np.zeros((len(tree.feature) + 1, 1)))
    return effects.crowded()


ONE_BIN, EVEN = np.array([1.0] * 31 + [1969.0]), np.full(32, 62.5)


def test_crowded_bins_are_found():
    assert crowded_of([ONE_BIN, ONE_BIN, ONE_BIN], sigma=5.0) == [0, 1, 2]
    assert crowded_of([EVEN, EVEN, EVEN], sigma=5.0) == []


def test_some_skewed_columns_among_others_are_as_they_are():
    assert crowded_of([ONE_BIN, EVEN, EVEN], sigma=5.0) == []
    assert crowded_of([ONE_BIN] * 5 + [EVEN], sigma=5.0) == [0, 1, 2, 3, 4]


def test_noise_and_columns_of_few_bins_say_nothing():
    assert all(crowded_of([ONE_BIN, EVEN], sigma=500.0, seed=seed) == [] for seed in range(50))
    assert crowded_of([np.array([5.0, 1995.0])] * 3, sigma=5.0) == []


@pytest.mark.parametrize("width", [1.0, 1e6])
def test_bounds_that_are_too_wide_are_warned_of(width):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (4000, 3))
    train = lgb_dp.Dataset(X, X[:, 0] > 0.5, bounds=(-width, width), max_bin=64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        private = lgb_dp.NewtonBoost(8.0, 1e-5, depth=4)
        lightgbm.train({"objective": "binary", "verbosity": -1}, train, 100, callbacks=[private])
    said = [str(w.message) for w in caught if w.category is lgb_dp.WideBoundsWarning]
    assert len(said) == (width > 1)
    assert all("'Column_0', 'Column_1', 'Column_2': choose narrower bounds" in text for text in said)
