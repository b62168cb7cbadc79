"""Greedy structures explain as much as any split that the node may have, and leave the others alone."""

import numpy as np
import pytest

from gbdt_kernels.trees import grow_structure

N_BINS = np.array([7, 7, 5])
IS_CATEGORICAL = np.array([False, False, True])


def random_rows(seed, n=80, missing=0.2):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, N_BINS, (n, 3)).astype(np.uint8)
    codes = np.where(rng.random(codes.shape) < missing, N_BINS, codes).astype(np.uint8)
    return codes, rng.normal(size=n), rng.uniform(0.1, 1.0, n)


def grown(codes, target, weight, depth=1, tried=None, within=0.0, least=3):
    n_nodes = 2**depth - 1
    tried = np.tile(np.arange(3, dtype=np.int32), (n_nodes, 1)) if tried is None else tried
    feature, goes_left = np.full(n_nodes, 1, dtype=np.int32), np.zeros((n_nodes, 256), dtype=np.uint8)
    goes_left[:, :3] = 1
    within = np.full(n_nodes, within)
    coin = np.ones(n_nodes, dtype=bool)
    public = (N_BINS, IS_CATEGORICAL, tried.astype(np.int32), within, coin, least)
    grow_structure(codes, target, weight, *public, feature, goes_left)
    return feature, goes_left


def explained(left, target, weight):
    """Less squared error around the means of two parts than around the mean of all."""

    def error(rows):
        mean = np.average(target[rows], weights=weight[rows])
        return (weight[rows] * (target[rows] - mean) ** 2).sum()

    return error(np.ones_like(left)) - error(left) - error(~left)


def all_splits(codes):
    """Which rows go left, for all thresholds, missing values on either side, and all sets of categories."""
    for f in range(2):
        missing = codes[:, f] == N_BINS[f]
        for t in range(N_BINS[f] - 1):
            below = codes[:, f] <= t
            yield below & ~missing
            yield below | missing
    for subset in range(1, 2 ** N_BINS[2]):
        yield (codes[:, 2] < N_BINS[2]) & ((subset >> codes[:, 2].astype(int)) % 2 == 1)


@pytest.mark.parametrize("seed", range(8))
def test_the_root_has_the_best_of_all_splits(seed):
    codes, target, weight = random_rows(seed)
    splits = [left for left in all_splits(codes) if 3 <= left.sum() <= len(left) - 3]
    best = max(explained(left, target, weight) for left in splits)
    feature, goes_left = grown(codes, target, weight)
    left = goes_left[0, codes[:, feature[0]]].astype(bool)
    assert 3 <= left.sum() <= len(left) - 3
    assert explained(left, target, weight) == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_every_node_has_the_split_that_its_own_rows_would_get(seed):
    codes, target, weight = random_rows(seed, n=300)
    feature, goes_left = grown(codes, target, weight, depth=3)
    node = np.zeros(len(codes), dtype=int)
    for _ in range(3):
        for v in np.unique(node):
            own = node == v
            single, sides = grown(codes[own], target[own], weight[own])
            assert single[0] == feature[v]
            np.testing.assert_array_equal(sides[0], goes_left[v])
        node = 2 * node + 2 - goes_left[node, codes[np.arange(len(codes)), feature[node]]]


def test_splits_are_of_the_tried_features_and_others_stay():
    codes, target, weight = random_rows(1)
    tried = np.array([[0, 0], [-1, 0], [2, 2]])
    feature, goes_left = grown(codes, target, weight, depth=2, tried=tried)
    assert feature.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(goes_left[1], np.arange(256) < 3)


@pytest.mark.parametrize("target", [0.0, 5.0, np.nan])
def test_a_node_that_can_gain_nothing_stays(target):
    codes, _, weight = random_rows(2)
    feature, goes_left = grown(codes, np.full(len(codes), target), weight)
    assert feature[0] == 1
    np.testing.assert_array_equal(goes_left[0], np.arange(256) < 3)


def test_a_threshold_is_anywhere_between_the_codes_it_parts():
    codes = np.zeros((20, 3), dtype=np.uint8)
    codes[:, 0] = np.repeat([1, 5], 10)
    target = np.repeat([-1.0, 1.0], 10)
    found = set()
    for within in (0.0, 0.3, 0.6, 0.99):
        feature, goes_left = grown(codes, target, np.ones(20), within=within)
        assert feature[0] == 0
        found.add(int(goes_left[0, :7].sum()))
        assert goes_left[0, 7] == 1  # the coin's side, since no row has a missing value
    assert found == {2, 3, 4, 5}


def test_missing_values_go_where_they_belong():
    codes = np.zeros((40, 3), dtype=np.uint8)
    codes[:, 1] = np.repeat([0, 4, 7, 7], 10)
    target = np.repeat([-1.0, 1.0, -1.0, -1.0], 10)
    feature, goes_left = grown(codes, target, np.ones(40))
    assert feature[0] == 1
    np.testing.assert_array_equal(goes_left[0, codes[:, 1]], np.repeat([1, 0, 1, 1], 10))
