"""When trees open, and what is followed afterwards."""

import numpy as np
import pytest

from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.trees import LeafRelease
from lgb_dp.newton.splits import learned as learned_splits
from lgb_dp.newton.splits.learned import LearnedSplits
from small_bins import Bins

BINS = Bins([33, 33, 5], categorical=[2])


def released(tree, signal, sigma=1.0):
    n = len(tree.feature) + 1
    gradient = np.zeros((n, 1))
    if tree.feature[0] == 1:
        half = n // 2
        gradient[:half], gradient[half:] = signal, -signal
    return LeafRelease(gradient, np.full((n, 1), 100.0), sigma)


def trained(n_rounds, depth=3, signal=50.0):
    splits, random, trees = LearnedSplits(BINS, depth, n_rounds), SecureRandom(0), []
    for _ in range(n_rounds):
        tree = splits.draw(random)
        trees.append(tree)
        release = released(tree, signal)
        splits.learn(tree, release, np.zeros_like(release.gradient))
    return trees


def opening_length(trees):
    return next(i for i, tree in enumerate(trees) if (tree.cell >= 0).all())


@pytest.mark.parametrize(
    ("n_rounds", "depth", "length"),
    [(100, 3, 6), (200, 4, 12), (100, 2, 0), (40, 3, 0), (49, 3, 0), (50, 3, 3)],
)
def test_the_opening_has_room_for_every_feature_or_is_left_out(n_rounds, depth, length):
    trees = trained(n_rounds, depth)
    assert opening_length(trees) == length
    assert [int(tree.feature[0]) for tree in trees[:length]] == [0, 1, 2] * (length // 3)
    assert {len(tree.feature) for tree in trees[length:]} == {2**depth - 1}


def test_what_the_opening_showed_is_followed_at_once_and_later_trees_afterwards():
    trees = trained(200)
    n = opening_length(trees)
    share = [np.mean([(tree.feature == 1).mean() for tree in part]) for part in (trees[n:30], trees[60:])]
    assert min(share) > 0.6
    trees = trained(200, signal=0.0)
    share = np.mean([(tree.feature == 1).mean() for tree in trees[n:]])
    assert share == pytest.approx(1 / 3, abs=0.1)


def test_a_part_of_the_splits_stays_uniform():
    trees = trained(400, signal=1e6)
    late = np.concatenate([tree.feature for tree in trees[200:]])
    others = (late != 1).mean()
    assert others == pytest.approx((1 - learned_splits.LEARNED_SHARE) * 2 / 3, abs=0.05)
