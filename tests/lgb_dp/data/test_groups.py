"""Persons stay apart: groups are compared as they were given, and none may be missing."""

import math

import numpy as np
import pytest

import lgb_dp
from lgb_dp.data.groups import group_numbers

PD = pytest.importorskip("pandas")


@pytest.mark.parametrize(
    "groups",
    [
        [2**53, 2**53 + 1, 7],
        [2**63 + 1, 2**63 + 2, -1],
        ["a", "b", "c"],
        np.array([2**60, 2**60 + 1, 0]),
        np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[D]"),
        PD.Series(["x", "y", "z"]),
        PD.Series(["x", "y", "z"], dtype="category"),
    ],
)
def test_side_door_groups_that_differ_stay_apart(groups):
    assert len(set(group_numbers(groups, 3).tolist())) == 3
    doubled = [*groups, *groups] if isinstance(groups, list) else np.concatenate([groups, groups])
    numbers = group_numbers(doubled, 6)
    assert np.array_equal(numbers[:3], numbers[3:])


@pytest.mark.parametrize(
    "groups",
    [
        [1.0, math.nan, 2.0],
        np.array([1.0, math.nan, 2.0]),
        [1, "1", 2],
        [1, None, 2],
        [2**53, 2**53 + 1, math.nan],
        np.array(["2020-01-01", "NaT", "2020-01-03"], dtype="datetime64[D]"),
        PD.Series([1, None, 2], dtype="Int64"),
        PD.Series(["x", None, "z"]),
        [(1, 2), (1, 3), (1, 4)],
    ],
)
def test_side_door_missing_and_mixed_groups_are_refused(groups):
    with pytest.raises(lgb_dp.PrivateTrainingError) as raised:
        group_numbers(groups, 3)
    assert "9007199254740993" not in str(raised.value)
