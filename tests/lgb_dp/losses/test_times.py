"""Times to events in all forms, and what is made of those that do not fit."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import lgb_dp
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.times import TIMES, as_times, check_times, clipped_times

EVENT, TIME = np.array([True, False, True]), np.array([2.0, 3.0, 5.0])
WANTED = [(2.0, 2.0), (3.0, np.inf), (5.0, 5.0)]


def structured(names, *columns):
    return np.rec.fromarrays(columns, names=list(names)).view(np.ndarray)


@pytest.mark.parametrize(
    "label",
    [
        structured(("cens", "time"), EVENT, TIME),
        structured(("days", "died"), TIME, EVENT),
        structured(("upper", "lower"), np.where(EVENT, TIME, np.inf), TIME),
        np.column_stack([TIME, np.where(EVENT, TIME, np.inf)]),
        pd.DataFrame({"event": EVENT, "days": TIME.astype(int)}),
        pl.DataFrame({"label_lower_bound": TIME, "label_upper_bound": np.where(EVENT, TIME, np.inf)}),
        np.array(WANTED, dtype=TIMES),
    ],
)
def test_every_form_is_read(label):
    assert as_times(label).tolist() == WANTED
    assert lgb_dp.Dataset(np.eye(3), label, bounds=(0, 1)).construct().label.tolist() == WANTED


def test_bounds_of_xgboost_are_read():
    upper = np.where(EVENT, TIME, np.inf)
    data = lgb_dp.Dataset(np.eye(3), bounds=(0, 1), label_lower_bound=TIME, label_upper_bound=upper)
    assert data.construct().label.tolist() == WANTED
    with pytest.raises(InvalidArgumentError, match="label_upper_bound"):
        lgb_dp.Dataset(np.eye(3), bounds=(0, 1), label_lower_bound=TIME)


@pytest.mark.parametrize(
    ("label", "named"),
    [
        (structured(("start", "stop"), TIME, TIME), "start"),
        (structured(("a", "b"), EVENT, EVENT), "'b'"),
        (pd.DataFrame({"died": EVENT.astype(int), "days": TIME}), "'died'"),
        (pd.DataFrame({"died": pd.array([True, None, False]), "days": TIME}), "'died'"),
        (structured(("a", "b", "c"), EVENT, TIME, TIME), "'c'"),
    ],
)
def test_other_columns_are_named(label, named):
    with pytest.raises(InvalidArgumentError, match=named):
        as_times(label)


def test_one_number_per_row_is_no_time():
    assert as_times(TIME) is None
    assert as_times(TIME[:, None]) is None
    assert as_times(TIME.tolist()) is None


@pytest.mark.parametrize(
    ("row", "named", "becomes"),
    [
        ((3.0, 2.0), "above upper", None),
        ((-1.0, -1.0), "not positive", None),
        ((np.nan, np.inf), "missing", None),
        ((np.inf, np.inf), "not positive", None),
        ((0.0, 0.0), "not positive", (0.0, 1.0)),  # an event before the first time
        ((0.5, 0.5), "outside label_bounds", (0.0, 1.0)),
        ((0.5, np.inf), "outside label_bounds", (0.0, np.inf)),  # tells nothing
        ((12.0, 12.0), "outside label_bounds", (10.0, np.inf)),
        ((4.0, 12.0), "outside label_bounds", (4.0, np.inf)),
        ((12.0, np.inf), "outside label_bounds", (10.0, np.inf)),
    ],
)
def test_times_that_do_not_fit_are_refused_or_clipped_row_by_row(row, named, becomes):
    times = np.array([(2.0, 2.0), row], dtype=TIMES)
    with pytest.raises(InvalidArgumentError, match=named):
        check_times(times, 1.0, 10.0)
    found, counts = clipped_times(times, 1.0, 10.0)
    assert counts.tolist() == [True, becomes is not None]
    assert tuple(found[0]) == (2.0, 2.0)
    if becomes is not None:
        assert tuple(found[1]) == becomes


@pytest.mark.parametrize("row", [(1.0, 1.0), (10.0, 10.0), (0.0, 3.0), (2.0, np.inf), (2.0, 4.0)])
def test_all_kinds_of_censoring_fit(row):
    times = np.array([row], dtype=TIMES)
    check_times(times, 1.0, 10.0)
    found, counts = clipped_times(times, 1.0, 10.0)
    assert counts.all()
    assert found.tolist() == [row]
