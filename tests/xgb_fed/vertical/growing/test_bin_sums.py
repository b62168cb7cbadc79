"""Columns that a party agreed to, and sums of their bins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_parties.errors import ProtocolError
from placed_rows import left_of, places_of
from xgb_fed.boosting.features import MAX_BINS
from xgb_fed.vertical.growing.bin_sums import AgreedColumns
from xgb_fed.vertical.protocol.splits import NamedSplit

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_columns_that_stay_the_same_are_never_refused(data):
    n_bins = data.draw(st.integers(1, 6))
    codes = np.array(data.draw(st.lists(st.integers(0, n_bins), min_size=1, max_size=20)))
    places = places_of(codes, n_bins)
    for _ in range(data.draw(st.integers(1, 8))):
        split = NamedSplit(0, data.draw(st.integers(-1, n_bins - 1)), data.draw(st.booleans()))
        mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(codes), max_size=len(codes))))
        rows = np.flatnonzero(mask)
        places.note(split, rows, left_of(codes[rows], split, n_bins))


def test_more_bins_than_a_code_can_number_are_not_possible():
    """Before, the place of a row with a missing value overflowed its 16 bits."""
    counts = np.zeros(65_537, dtype=np.int64)
    counts[0] = 5
    AgreedColumns(np.array([65_534]), counts[:65_535], 2).check(5, 65_535)
    with pytest.raises(ProtocolError, match="announces impossible columns"):
        AgreedColumns(np.array([65_536]), counts, 2).check(5, 65_535)


def test_announced_columns_that_cannot_be_are_refused():
    for categorical, n_bins in ((frozenset({1}), 3), (frozenset({-1}), 3), (frozenset({0}), MAX_BINS + 1)):
        counts = np.zeros(n_bins + 1, dtype=np.int64)
        counts[0] = 4
        with pytest.raises(ProtocolError, match="announces impossible columns"):
            AgreedColumns(np.array([n_bins]), counts, 2, categorical).check(4, 8)
    counts = np.array([4, 0, 0, 0, 0])
    AgreedColumns(np.array([4]), counts, 2, frozenset({0})).check(4, 2)
    kinds = {AgreedColumns(np.array([4]), counts, 2, frozenset(one)).digest() for one in ((), (0,))}
    assert len(kinds) == 2
