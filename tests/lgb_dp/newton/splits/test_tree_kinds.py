"""Greedy trees lead if what they released explains clearly more than what random ones released."""

import numpy as np
import pytest

from lgb_dp.newton.releases.trees import LeafRelease
from lgb_dp.newton.splits.tree_kinds import TreeKinds


def noted(random_signal, greedy_signal, std, n_trees=40, seed=0):
    """Kinds of trees whose leaves have true gradients of the given size, with noise and rate 1/4."""
    rng = np.random.default_rng(seed)
    kinds = TreeKinds(is_log_loss=True)
    for _ in range(n_trees):
        for signal, n_leaves, greedy in ((random_signal, 16, False), (greedy_signal, 64, True)):
            hessian = np.full((n_leaves, 1), 1600.0 / n_leaves)
            chance = np.sqrt(hessian + std**2) * rng.normal(size=(n_leaves, 1))
            gradient = signal * rng.choice([-1, 1], size=(n_leaves, 1)) + chance
            value = -0.25 * gradient / (hessian + 4 * std)
            kinds.note(LeafRelease(gradient, hessian, std), value, greedy=greedy)
    return kinds


@pytest.mark.parametrize("std", [1e-3, 5.0, 50.0])
def test_noise_and_chance_lead_to_nothing(std):
    assert not any(noted(0.0, 0.0, std, seed=seed).greedy_leads for seed in range(10))


def test_the_kind_that_explains_more_leads():
    assert noted(20.0, 40.0, 5.0).greedy_leads
    assert not noted(40.0, 10.0, 5.0).greedy_leads
    assert not noted(20.0, 40.0, 500.0).greedy_leads  # drowned in noise


def test_one_kind_alone_does_not_lead_and_zeros_are_harmless():
    kinds = TreeKinds(is_log_loss=False)
    assert not kinds.greedy_leads
    zero = np.zeros((4, 2))
    kinds.note(LeafRelease(zero, zero, 1.0), zero, greedy=True)
    assert not kinds.greedy_leads
    kinds.note(LeafRelease(zero, zero, 1.0), zero, greedy=False)
    assert not kinds.greedy_leads
