"""Composition and the report."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgb_dp.ledger import Ledger, PrivacyReport, Release, lower_float, share, upper_float


def release(epsilon, group, part):
    return Release("leaf values", "discrete Laplace", epsilon, group, part)


def test_same_part_adds_disjoint_parts_take_the_largest_groups_add():
    ledger = Ledger()
    for r in [release(0.5, 0, 0), release(0.25, 0, 0), release(1.0, 0, 1), release(2.0, 1, 0)]:
        ledger.charge(r)
    assert ledger.epsilon == 3.0


def test_copies_multiply():
    ledger = Ledger(copies=4)
    ledger.charge(release(0.5, 0, 0))
    assert ledger.epsilon == 2.0


@given(st.floats(1e-9, 1e3), st.integers(1, 500))
def test_shares_never_exceed_the_whole_and_waste_nothing(epsilon, parts):
    part = share(epsilon, parts)
    assert parts * Fraction(part) <= Fraction(epsilon)
    assert part == pytest.approx(epsilon / parts, rel=1e-15)


@given(st.lists(st.floats(1e-9, 10), min_size=1, max_size=50))
def test_total_is_never_below_the_exact_sum(values):
    ledger = Ledger()
    for i, value in enumerate(values):
        ledger.charge(release(value, i, 0))
    assert Fraction(ledger.epsilon) >= sum(map(Fraction, values))


def test_rounding_is_outward():
    third = Fraction(1, 3)
    assert Fraction(lower_float(third)) < third < Fraction(upper_float(third))
    assert lower_float(Fraction(1, 4)) == upper_float(Fraction(1, 4)) == 0.25


def test_table_counts_equal_releases():
    ledger = Ledger()
    for part in (0, 1, 1):
        ledger.charge(release(0.5, 0, part))
    (row,) = ledger.table()
    assert (row["count"], row["disjoint_sets_of_rows"], row["epsilon"]) == (3, 2, 0.5)


def report(**changes):
    values = {
        "epsilon": 1.5,
        "delta": 0.0,
        "private": True,
        "reasons": (),
        "notes": ("a note: with [brackets]",),
        "ledger": (
            {
                "group": 0,
                "release": "r",
                "mechanism": "m",
                "epsilon": 1.5,
                "count": 1,
                "disjoint_sets_of_rows": 1,
            },
        ),
    }
    return PrivacyReport(**{**values, **changes})


def test_report_round_trips_through_json():
    values = json.loads(json.dumps(report().to_dict()))
    assert PrivacyReport.from_dict(values) == report()
    assert values["replace_one"] == [3.0, 0.0]


def test_report_says_so_when_it_is_not_private():
    text = str(report(private=False, reasons=("bounds were read",)))
    assert "NOT PRIVATE" in text
    assert "bounds were read" in text
