"""Checks return values in their final type, or name the argument, the value and what is accepted."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import lgb_dp
from lgb_dp import checks


@pytest.mark.parametrize(
    ("brackets", "inside", "outside"),
    [
        ("[]", [0, 1], [-1e-300, math.nextafter(1, 2)]),
        ("(]", [5e-324, 1], [0, math.nan]),
        ("[)", [0, math.nextafter(1, 0)], [1, math.inf]),
        ("()", [0.5], [0, 1, -math.inf]),
    ],
)
def test_ends_of_intervals_count_as_their_brackets_say(brackets, inside, outside):
    interval = checks.Interval(0, 1, brackets)
    for value in inside:
        assert checks.checked_number("x", value, interval) == value
    for value in outside:
        with pytest.raises(lgb_dp.InvalidArgumentError, match=r"^x .*.0, 1., got"):
            checks.checked_number("x", value, interval)


@pytest.mark.parametrize("value", [True, "1", None, [1.0], 1j])
def test_what_is_not_a_number_is_a_type_error(value):
    with pytest.raises(lgb_dp.ArgumentTypeError, match=r"^x .*number"):
        checks.checked_number("x", value, checks.POSITIVE)
    with pytest.raises(lgb_dp.ArgumentTypeError, match=r"^x .*integer"):
        checks.checked_integer("x", value, 1)


def test_numbers_of_numpy_become_python_numbers():
    assert type(checks.checked_number("x", np.float32(0.5), checks.SHARE)) is float
    assert type(checks.checked_integer("x", np.int64(3), 1, 5)) is int


def test_a_word_is_accepted_where_it_is_named_and_no_other():
    assert checks.checked_integer("x", "auto", 1, None, checks.AUTO) == "auto"
    assert checks.checked_number("x", "auto", checks.SHARE, checks.AUTO) == "auto"
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"'auto' or .* got 'other'"):
        checks.checked_integer("x", "other", 1, None, checks.AUTO)
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"'auto' or .* got 'other'"):
        checks.checked_number("x", "other", checks.SHARE, checks.AUTO)


def test_choices_are_listed():
    assert checks.checked_choice("x", "b", ("a", "b", "c")) == "b"
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"x.*'a', 'b' or 'c', got 'd'"):
        checks.checked_choice("x", "d", ("a", "b", "c"))


COMPLEX = [[1.0, np.complex128(1 + 2j)], np.array([1.0, np.complex64(1 + 2j)], object)]


@pytest.mark.parametrize("cells", COMPLEX)
def test_a_complex_number_among_objects_is_refused_without_a_warning(cells):
    """Before, NumPy's warning told that there was one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(lgb_dp.InvalidArgumentError, match=r"X.*numbers only") as caught:
            checks.checked_numbers("X", cells)
    assert "2j" not in str(caught.value)


DAY = np.datetime64("2020-01-01")
TIMES = [
    np.array([DAY, DAY]),
    np.array([DAY - DAY], object),
    [1.0, DAY],
    [[1.0], [DAY]],
    pd.Series([DAY, 7], dtype=object),
    pd.DataFrame({"a": [1.0, 2.0], "b": pd.Series([DAY, 7], dtype=object)}),
]


@pytest.mark.parametrize("cells", TIMES, ids=range(len(TIMES)))
def test_side_door_times_of_numpy_are_not_taken_for_counts_of_their_unit(cells):
    """Before, one other cell in a column of datetimes made days of all of them, instead of seconds."""
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"X.*numbers only"):
        checks.checked_numbers("X", cells)
