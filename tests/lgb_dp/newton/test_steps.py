"""The length of a tree's step: a given rate as it is, a chosen one no longer than what shortens it."""

import math

import numpy as np
import pytest

from lgb_dp.newton.releases.trees import LeafRelease
from lgb_dp.newton.steps import Steps

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
