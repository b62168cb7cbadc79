"""The directed bisection returns a number on the safe side, next to the boundary."""

import math

import pytest

from lgb_dp.accounting.bisection import geometric_mean, last_safe, midpoint


@pytest.mark.parametrize("boundary", [1e-9, 0.3, 1.0, 7.25])
@pytest.mark.parametrize("middle", [midpoint, geometric_mean])
@pytest.mark.parametrize("rising", [True, False])
def test_the_answer_is_safe_and_close_to_the_boundary(boundary, middle, rising):
    def is_safe(x):
        return x <= boundary if rising else x >= boundary

    found = last_safe(is_safe, *((1e-12, 10.0) if rising else (10.0, 1e-12)), middle=middle)
    assert is_safe(found)
    assert found == pytest.approx(boundary, rel=1e-11)


@pytest.mark.parametrize("max_steps", [0, 1, 5])
def test_a_search_that_ends_early_is_still_safe(max_steps):
    found = last_safe(lambda x: x <= math.pi, 0.0, 10.0, max_steps=max_steps)
    assert found <= math.pi
    assert math.pi - found <= 10.0 / 2**max_steps


def test_without_a_safe_number_beyond_it_the_safe_end_is_returned():
    assert last_safe(lambda x: False, 2.0, 5.0) == 2.0


def test_a_search_ends_when_both_ends_differ_by_the_tolerance():
    asked = []

    def is_safe(x):
        asked.append(x)
        return x <= 0.3

    found = last_safe(is_safe, 0.0, 8.0, tolerance=2.0**-20)
    assert 0 <= 0.3 - found <= 0.3 * 2**-20
    assert len(asked) == 25  # 8 / 2**25 is the first width that is at most 0.3 / 2**20
