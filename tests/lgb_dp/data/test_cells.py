"""A cell's category follows from that cell and the declaration, whatever the data type of its column."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import lgb_dp
from lgb_dp.data.cells import category_key, codes_by_value, codes_of_cells, number_of

CELLS = [[0, 1, 7, -1], [True, False, True, True], [1.5, 0.25, -0.5, 0.0], [2**53 + 1, 0, 0, 0]]
CELLS += [[0, True, 2.5, np.nan]]
ODD = ["x", "1", None, float("inf"), 10**30, 10**400, 3 + 0j, b"1", (1,), [1, 2], {}, object(), pd.NaT, pd.NA]
ODD += [
    np.zeros(2),
    np.float32(0.5),
    np.longdouble(1),
    np.timedelta64(1, "ns"),
    dt.date(2020, 1, 1),
    Decimal(1),
]
DECLARED = [[0, 1, 2], [0, 1], [True, False], [0.25, 1.5], [-0.5, 7], ["x", 1, 0.25], [2**53, 0]]


def codes(columns, declared):
    """Codes of columns, each of which has its own declaration, shape (n_columns, n_rows)."""
    frame = pd.DataFrame(dict(enumerate(columns)))
    data = lgb_dp.Dataset(frame, np.zeros(len(frame)), bounds={}, categories=dict(enumerate(declared)))
    return data.construct().codes.codes.T


@pytest.fixture(scope="module")
def alone():
    return [codes(map(pd.Series, CELLS), [declared] * len(CELLS)) for declared in DECLARED]


def object_column(cells):
    return pd.Series(cells, dtype=object)


def inferred_column(cells):
    """As pandas reads it; an older one cannot read integers beyond the range of floats."""
    try:
        return pd.Series(cells)
    except OverflowError:
        return object_column(cells)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_side_door_one_cell_moves_no_other_to_another_category(odd, alone):
    columns = [column([*cells, odd]) for column in (inferred_column, object_column) for cells in CELLS]
    of_all = codes(columns * len(DECLARED), [declared for declared in DECLARED for _ in columns])
    for of_one, expected in zip(np.split(of_all, len(DECLARED)), alone, strict=True):
        inferred, objects = np.split(of_one, 2)
        np.testing.assert_array_equal(inferred, objects)
        np.testing.assert_array_equal(objects[:, :-1], expected)


def test_side_door_fractional_codes_are_read_as_lightgbm_reads_them():
    numbers = [0.0, 1.5, 2.9, -0.9, 3.0, np.nan]
    for column in (pd.Series(numbers), pd.Series(numbers, dtype=object)):
        assert codes([column], [[0, 1, 2]]).tolist() == [[0, 1, 2, 0, 3, 3]]


@pytest.mark.parametrize(
    ("cell", "number"),
    [(True, 1.0), (np.bool_(True), 1.0), (np.int8(3), 3.0), (2 + 0j, 2.0), (10**400, None), ("1", None)],
)
def test_numbers_of_cells(cell, number):
    assert number_of(cell) == number if number is not None else np.isnan(number_of(cell))


def test_keys_of_cells():
    assert category_key(np.str_("a")) == "a"
    assert category_key(np.datetime64("2020-01-01", "ns")) == category_key(pd.Timestamp("2020-01-01"))
    assert category_key(np.timedelta64(5, "ns")) != 5
    assert category_key(None) is category_key(float("nan")) is category_key(pd.NA) is None


def test_missing_values_are_no_category_though_declared():
    known = codes_by_value(["a", None, float("nan")])
    assert known == {"a": 0.0}
    np.testing.assert_array_equal(
        codes_of_cells(["a", None, np.nan, 1.0], known), [0, np.nan, np.nan, np.nan]
    )


def test_side_door_the_kind_of_a_column_of_objects_follows_from_no_cell():
    cells = [None] * 100 + [0.2, 0.7]
    frames = [pd.DataFrame({"c": pd.Series(start + cells, dtype=object)}) for start in ([], [0.5])]
    found = [
        lgb_dp.Dataset(frame, np.zeros(len(frame)), bounds=(0, 1)).construct().codes.codes[:, 0]
        for frame in frames
    ]
    assert found[0].tolist() == found[1][1:].tolist()
