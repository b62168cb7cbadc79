"""The length of a tree's step: a given rate as it is, a chosen one no longer than what shortens it."""

import math

import numpy as np
import pytest

from growers import grower_of
from lgb_dp.accounting.gaussian import gaussian_epsilon
from lgb_dp.newton.releases.trees import LeafRelease
from lgb_dp.newton.splits import distilled
from lgb_dp.newton.steps import Steps
from newton_training import DELTA, boosted

RELEASE = LeafRelease(np.ones((2, 1)), np.ones((2, 1)), 1.0)
HELD = LeafRelease(np.zeros((2, 1)), np.zeros((2, 1)), 1.0)
DENOMINATOR = np.full((2, 1), 2.0)


class Size:
    def factor(self, release, denominator):
        assert (release, denominator) == (RELEASE, DENOMINATOR)
        return 0.5


class HeldOut:
    salt = 3

    def largest_rate(self, value, held):
        assert held is HELD
        return 0.05


def length(steps, held=None, factor=1.0):
    return steps.length(RELEASE, held, DENOMINATOR, np.ones((2, 1)), factor)


def test_a_given_rate_has_no_factor_and_no_bound():
    assert length(Steps(0.8, None, 0.1), factor=0.5) == 0.8


def test_a_chosen_rate_is_shortened_and_bounded():
    assert length(Steps(0.8, Size(), math.inf), factor=0.5) == pytest.approx(0.2)
    assert length(Steps(0.8, Size(), 0.1)) == 0.1


def test_held_out_rows_bound_the_length_where_they_were_released():
    steps = Steps(0.8, Size(), math.inf, HeldOut())
    assert steps.salt == 3
    assert length(steps) == 0.4
    assert length(steps, HELD) == 0.05
    assert Steps(0.8, None, math.inf).salt is None


def test_a_rate_that_is_set_takes_the_place_of_the_chosen_one():
    steps = Steps(0.8, Size(), 0.1, HeldOut())
    steps.reset(0.9)
    assert length(steps) == 0.9
    assert length(steps, HELD) == 0.05  # rows that are held out go on to bound it


@pytest.mark.parametrize(("has_trial", "params"), [(False, {}), (True, {}), (False, {"learning_rate": 0.1})])
@pytest.mark.parametrize("mu", [2.0, 40.0])
def test_steps_that_nothing_ends_are_as_careful_as_with_more_noise(monkeypatch, has_trial, params, mu):
    monkeypatch.setattr("lgb_dp.newton.core.distilled_depth", lambda *facts: (3, has_trial))
    monkeypatch.setattr(distilled, "N_SURROGATE_ROWS", 500)
    live = []
    boosted(
        epsilon=gaussian_epsilon(mu, DELTA),
        n_rounds=3,
        params=params,
        callbacks=[lambda env: live.append(grower_of(env.model))],
    )
    grower = live[0]
    std = grower.releases.noise_std
    counted = max(std, grower.beginning.steps.least_std) / std
    is_bounded = mu > 10 and not has_trial and not params
    assert counted == pytest.approx(mu / 10 if is_bounded else 1.0, rel=1e-6)
