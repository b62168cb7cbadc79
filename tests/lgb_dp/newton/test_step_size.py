"""Steps get shorter where the training rows show less than chance, and never because of noise alone."""

import numpy as np
import pytest

from lgb_dp.newton.releases.trees import LeafRelease
from lgb_dp.newton.step_size import StepSize

N_LEAVES = 16


def factors(share, std=1e-3, hessian=100.0, n_rounds=300, seed=0, of_rows=("binary", 1), may_end=True):
    """Factors along releases whose G² is `share` of H on average, with noise of the given deviation."""
    rng = np.random.default_rng(seed)
    steps, found = StepSize(n_rounds, *of_rows, may_end=may_end), []
    for _ in range(n_rounds):
        h = hessian + 0.6 * std * rng.normal(size=(N_LEAVES, 1))
        g = np.sqrt(share * hessian) * rng.normal(size=(N_LEAVES, 1)) + std * rng.normal(size=(N_LEAVES, 1))
        found.append(steps.factor(LeafRelease(g, h, std), np.maximum(h, 0.0) + 4 * std))
    return np.array(found)


def test_steps_are_full_while_more_than_chance_is_explained_and_end_at_half_of_it():
    assert (factors(3.0)[20:] == 1.0).all()
    assert factors(0.75)[100:].mean() == pytest.approx(0.5, abs=0.15)
    assert factors(0.25)[50:].max() < 0.05
    assert (factors(0.0, of_rows=("regression", 1)) == 1.0).all()
    assert (factors(0.0, of_rows=("binary", 1024)) == 1.0).all()
    assert (factors(0.0, may_end=False) == 1.0).all()


def test_noise_alone_holds_nothing_back():
    for hessian in (0.0, 1.0, 30.0):
        assert (factors(0.0, std=50.0, hessian=hessian) == 1.0).mean() > 0.95


def test_first_rounds_are_not_looked_at_and_empty_trees_change_nothing():
    steps = StepSize(100, "binary", 1)
    nothing = LeafRelease(np.zeros((4, 1)), np.full((4, 1), 9.0), 1e-3)
    assert [steps.factor(nothing, nothing.hessian + 1) for _ in range(8)] == [1.0] * 6 + [0.0] * 2
    steps = StepSize(100, "multiclass", 1)
    empty = LeafRelease(np.zeros((4, 1)), np.zeros((4, 1)), 1e-3)
    assert [steps.factor(empty, np.ones((4, 1))) for _ in range(9)] == [1.0] * 9
