"""Splits that are drawn before the data is read."""

import numpy as np
import pytest

from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.splits.random import CyclicSplits, RandomSplits, SplitCells, leaf_of_codes, levels_of_bins
from small_bins import Bins

BINS = Bins([40, 1, 6, 2, 9], categorical=[2])


def test_cells_divide_the_thresholds_of_a_feature():
    cells = SplitCells.of(BINS)
    assert set(cells.feature.tolist()) == {0, 2, 3, 4}  # one bin: no split
    for feature in (0, 3, 4):
        own = cells.feature == feature
        thresholds = [
            t for a, n in zip(cells.first[own], cells.size[own], strict=True) for t in range(a, a + n)
        ]
        assert thresholds == list(range(BINS.n_bins[feature] - 1))
    assert cells.n_categories[cells.feature == 2].tolist() == [6]
    by_feature = np.bincount(cells.feature, cells.probability)
    np.testing.assert_allclose(by_feature[[0, 2, 3, 4]], 0.25)


def test_random_splits_have_both_sides():
    splits = RandomSplits(BINS, 3)
    random = SecureRandom(0)
    for _ in range(200):
        tree = splits.draw(random)
        for node, feature in enumerate(tree.feature):
            left = tree.goes_left[node]
            n = BINS.n_bins[feature]
            assert left[:n].any()
            assert not left[n + 1 :].any()
            if feature == 2:
                assert not left[n:].any()  # unknown categories go right
            else:
                assert not left[:n].all()
                assert (np.diff(left[:n].astype(int)) <= 0).all()


def test_preferred_cells_are_drawn():
    splits = RandomSplits(BINS, 2)
    random = SecureRandom(0)
    splits.draw(random)
    probability = np.zeros(len(splits.cells.feature))
    probability[-1] = 1.0
    splits.prefer(probability)
    for _ in range(50):
        tree = splits.draw(random)
        assert (tree.cell == len(probability) - 1).all()
        assert (tree.feature == 4).all()


@pytest.mark.parametrize("depth", [None, 4, 2, 1])
def test_cyclic_trees_divide_one_feature_after_the_other(depth):
    splits = CyclicSplits(BINS, depth)
    random = SecureRandom(0)
    trees = [splits.draw(random) for _ in range(8)]
    assert [int(tree.feature[0]) for tree in trees] == [0, 2, 3, 4] * 2
    for tree in trees[:4]:
        n = int(BINS.n_bins[tree.feature[0]])
        leaf = leaf_of_codes(tree)[:n]
        assert (tree.feature == tree.feature[0]).all()
        assert (np.diff(leaf) >= 0).all()
        n_groups = len(np.unique(leaf))
        assert n_groups == n if depth is None else n_groups <= 2**depth
        sizes = np.unique(leaf, return_counts=True)[1]
        assert sizes.max() - sizes.min() <= 1
        assert tree.goes_left[:, :n].any(axis=1).all()  # LightGBM wants a category on the left


def test_levels_of_bins():
    assert [levels_of_bins(n) for n in (2, 3, 4, 5, 255, 256)] == [1, 2, 2, 3, 8, 8]
