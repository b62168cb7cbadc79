"""Sets of rows are compared by numbers that differ where any value does."""

from itertools import combinations

import numpy as np

from xgb_fed.boosting.features import read_columns
from xgb_fed.horizontal.exact.rows.sets import RowSet


def row_set(X, y, weight):
    X, y, weight = (np.asarray(part, dtype=np.float32) for part in (X, y, weight))
    return RowSet.of(read_columns(X), y, weight)


def test_rows_that_differ_by_a_bit_of_any_value_have_other_numbers():
    """Also by a bit that is set in the number so far."""
    one = np.float32(1.5).view(np.uint32)
    values = (one ^ (np.uint32(1) << np.arange(30, dtype=np.uint32))).view(np.float32)
    X = np.full((1 + 3 * len(values), 2), 1.5, dtype=np.float32)
    y = np.full(len(X), 1.5, dtype=np.float32)
    for k, part in enumerate((X[:, 0], X[:, 1], y)):
        part[1 + k * len(values) : 1 + (k + 1) * len(values)] = values
    assert len(set(row_set(X, y, np.ones(len(X))).rows.tolist())) == len(X)


def test_equal_rows_have_equal_numbers_whatever_their_zeros_and_missing_values():
    other_nan = np.uint32(0x7FC00001).view(np.float32)
    rows = row_set([[0.0, np.nan], [-0.0, other_nan], [0.0, 0.0]], [1, 1, 1], [1, 1, 1]).rows.tolist()
    assert rows[0] == rows[1] != rows[2]


def test_rows_of_weight_0_are_left_out_and_weights_are_told_apart():
    X, y = [[1.0], [2.0], [3.0]], [0, 1, 0]
    sets = [row_set(X, y, weight) for weight in ([1, 1, 0], [1, 2, 0], [1, 1, 1])]
    assert [len(one.rows) for one in sets] == [2, 2, 3]
    assert sets[0].rows.tolist() == sets[1].rows.tolist()
    assert all((np.diff(one.weighted) > 0).all() for one in sets)
    assert all(a.weighted.tolist() != b.weighted.tolist() for a, b in combinations(sets, 2))
