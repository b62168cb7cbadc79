"""The first sum: few rows are refused by those who see them, and numbers have room to grow."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbdt_parties.errors import InvalidDataError, SumRangeError
from xgb_fed.boosting.features import read_columns
from xgb_fed.horizontal.exact.questions import ask_counts
from xgb_fed.horizontal.exact.rows.samples import least_difference
from xgb_fed.horizontal.exact.sizes import (
    LabelledRows,
    RowSet,
    Sizes,
    ask_sizes,
    check_numbers,
    check_own_rows,
    exponent_of,
    headroom,
    mixed,
)
from xgb_fed.horizontal.exact.task import ExactTask

BINARY = {"objective": "binary:logistic", "max_depth": 2}
MARK = np.arange(4)
LEAST = -53
"""Exponent of the least power of two: XGBoost raises hessians to 1e-16, which is below it."""


def task(params=BINARY, n_sets=2, min_rows=10):
    classes = [0, 1] if params["objective"] == "binary:logistic" else None
    return ExactTask(params, 1, 2, [], classes, "grid", min_rows, 2, None, n_sets)


def rows(n=30, label=1.0, weight=1.0, first=0):
    X = np.column_stack([np.arange(first, first + n), np.zeros(n)])
    y, w = np.zeros(n, np.float32), np.full(n, weight, np.float32)
    y[0] = label
    return LabelledRows(read_columns(X), y, w)


@pytest.mark.parametrize(
    ("n_rows", "text"),
    [
        ([9, 10, 10], "9 rows.*above 0"),
        ([10, 9, 10], "held-out set 0 has 9 rows"),
        ([10, 10, 9], "held-out set 1 has 9 rows"),
    ],
)
def test_no_sum_is_over_fewer_rows_than_the_minimum(n_rows, text):
    check_numbers(task(), [10, 10, 10])
    with pytest.raises(InvalidDataError, match=text):
        check_numbers(task(), n_rows)
    sampled = task({**BINARY, "subsample": 0.5})
    check_numbers(sampled, [20, 10, 10])
    with pytest.raises(InvalidDataError, match="19 rows"):
        check_numbers(sampled, [19, 10, 10])


def test_sums_of_counts_below_0_are_refused():
    for total in ([3, 0], [3, -1]):
        asking = ask_counts("rows", np.array([1, 0]))
        next(asking)
        with pytest.raises(SumRangeError if min(total) < 0 else StopIteration):
            asking.send((np.array(total),))


def test_a_party_brings_as_many_rows_as_a_node_needs():
    check_own_rows(task(), rows(10))
    check_own_rows(task(min_rows=1), rows(1))
    with pytest.raises(InvalidDataError, match="min_rows_per_node=2"):
        check_own_rows(task(min_rows=2), rows(1))
    with pytest.raises(InvalidDataError, match="min_rows_per_node=10"):
        check_own_rows(task(), rows(9))
    with pytest.raises(InvalidDataError, match="min_rows_per_node=10"):
        check_own_rows(task(), rows(30, weight=0.0))


def test_gradients_do_not_begin_above_a_power_of_two_of_labels_and_weights():
    squares = task({"objective": "reg:squarederror", "base_score": 100.0, "max_depth": 2})
    assert exponent_of(task(), [rows(weight=3.0), rows(weight=2.0)]) == 2
    assert exponent_of(task({**BINARY, "scale_pos_weight": 2.0}), [rows(weight=3.0)]) == 3
    assert exponent_of(task({**BINARY, "scale_pos_weight": 0.25}), [rows(weight=3.0)]) == 2
    assert exponent_of(squares, [rows(label=10.0, weight=4.0)]) == 9  # 400 < 2^9
    assert exponent_of(squares, [rows(label=-300.0, weight=0.5)]) == 8  # 150 < 2^8
    assert exponent_of(squares, [rows(label=64.0, weight=0.5)]) == 6  # 50 of the base score's 100
    assert exponent_of(task(), [rows(weight=2.0**-100)]) == LEAST
    assert exponent_of(task(), [rows(weight=2.0**100)]) == 64


@given(weight=st.floats(2.0**LEAST, 2.0**60, width=32))
def test_the_exponent_is_the_least_that_holds_the_largest_weight(weight):
    """Also where it is a power of two: a weight of 1, the usual one, needs no exponent."""
    exponent = exponent_of(task(), [rows(weight=weight)])
    assert 2.0 ** (exponent - 1) < weight <= 2.0**exponent


@pytest.mark.parametrize("power", [LEAST, -1, 0, 1, 7, 64])
def test_a_power_of_two_is_its_own_exponent(power):
    assert exponent_of(task(), [rows(weight=2.0**power)]) == power


def test_gradients_without_a_bound_have_room_to_grow():
    assert headroom(task()) == 0
    assert headroom(task({"objective": "reg:squarederror", "max_depth": 2})) == 8
    poisson = {"objective": "count:poisson", "max_depth": 2}
    assert headroom(task({**poisson, "max_delta_step": 0.69})) == 9
    assert headroom(task({**poisson, "max_delta_step": 0.7})) == 10


def asked(max_rows, others=(60, 40, 20), exponent=0):
    """The sizes with those of other parties, whose largest number is 2 to the power of `exponent`."""
    asking = ask_sizes(task(), rows(30, weight=0.75), [rows(20, first=100), None], MARK, max_rows)
    (question,) = next(asking)
    own = question.values.astype(np.int64)
    pooled = own.copy()
    pooled[:3] += others
    pooled[3 - LEAST + exponent] += 1
    pooled[-4:] += 10
    with pytest.raises(StopIteration) as end:
        asking.send([pooled])
    return own, end.value.value


def test_sizes_are_those_of_all_parties():
    own, sizes = asked(90)
    assert own[:3].tolist() == [30, 20, 0]
    assert own[3:-4].sum() == 1
    assert np.flatnonzero(own[3:-4]).tolist() == [-LEAST]  # weights up to 1, which is 2^0
    assert (sizes.n_rows, sizes.row_bits, sizes.exponent) == (90, 7, 0)
    assert sizes.marks.tolist() == (MARK + 10).tolist()
    assert (sizes.gradients, sizes.gradient_bits) == (80, 87)
    _, larger = asked(90, exponent=40)
    assert (larger.exponent, larger.gradients, larger.gradient_bits) == (40, 79, 126)


def test_losses_have_twenty_digits_after_the_point_at_least():
    """Labels that leave exactly so many are accepted, and losses of others were not worth comparing."""
    _, sizes = asked(130, (100, 40, 20), 45)
    assert (sizes.row_bits, sizes.losses) == (8, 20)


@given(row_bits=st.integers(1, 41), exponent=st.integers(LEAST, 84))
def test_sums_have_all_digits_that_126_bits_leave(row_bits, exponent):
    sizes = Sizes(1, row_bits, exponent, MARK)
    # A gradient is at most 2^exponent, and a loss 2^8 times what its square can be, where it is above 1.
    of_gradient, of_loss = max(exponent, 0), 2 * max(exponent, 0) + 8
    for digits, most in ((sizes.gradients, of_gradient), (sizes.losses, of_loss)):
        digits += min(exponent, 0)  # behind the first one
        assert digits + most + row_bits <= 126
        assert digits == 80 or digits + most + row_bits == 126
    assert 64 <= sizes.gradient_bits <= 126


def test_small_numbers_have_as_many_digits_as_large_ones():
    assert 2.0**LEAST > 1e-16
    for exponent in (0, -1, LEAST):
        sizes = Sizes(90, 7, exponent, MARK)
        assert (sizes.gradients, sizes.gradient_bits, sizes.losses) == (80 - exponent, 87, 80 - exponent)


@pytest.mark.parametrize(
    ("max_rows", "others", "exponent", "text"),
    [
        (89, (60, 40, 20), 0, "90 rows.*part.*89"),
        (90, (60, 40, 9), 0, "held-out set 1 has 9 rows"),
        (90, (60, 40, 20), 64, "too large"),
        (90, (60, 40, 20), 46, "too.*90 rows"),
    ],
)
def test_other_sizes_are_refused(max_rows, others, exponent, text):
    with pytest.raises(InvalidDataError, match=text):
        asked(max_rows, others, exponent)


def test_samples_differ_in_as_many_rows_as_chernoffs_bound_asks_for():
    assert [least_difference(m) for m in (0, 1, 2, 3, 10, 100, 1000)] == [0, 0, 40, 43, 60, 203, 1275]


def test_rows_are_numbered_by_splitmix64():
    """The first two numbers of its stream from 0."""
    found = mixed(np.array([0, 0x9E3779B97F4A7C15], dtype=np.uint64))
    assert found.tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


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
