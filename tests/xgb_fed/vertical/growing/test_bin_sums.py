"""Columns that a party agreed to, and sums of their bins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_parties.errors import ProtocolError
from placed_rows import left_of, places_of
from xgb_fed.boosting.features import MAX_BINS
from xgb_fed.vertical.growing.bin_sums import AgreedColumns, BinSums
from xgb_fed.vertical.protocol.packing import normalised, packing_for, split_halves
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


UNIT = 1 << 53
"""The largest |g| and |h| of a row, as an integer."""
PACKING = packing_for(100, 2, 1 << 600)


def bin_sums(nodes, counts, g, h):
    """Integers of two classes, each of shape (2, n_nodes, n_bins)."""
    sums = normalised(np.stack([split_halves(np.array(part, dtype=np.int64)) for part in (g, h)]).astype(int))
    return BinSums(nodes, np.array(counts, dtype=np.int64), sums)


def integers(sums):
    """g and h as Python integers, of shape (2, 2, n_nodes, n_bins)."""
    return sums.sums[:, 0].astype(object) * (1 << 27) + sums.sums[:, 1].astype(object)


def is_possible(sums):
    try:
        sums.check_possible(PACKING)
    except ProtocolError:
        return False
    return True


ONE_BIN = st.tuples(
    st.integers(0, 3), *[st.integers(-4, 4)] * 2, *[st.integers(-1, 4)] * 2
)  # rows, g and h of two classes, in units


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_sent_node_passes_where_both_siblings_passed_and_added_up(data):
    """No party gains by it: of all statements about the other one, a single one added up to the parent."""
    n_bins = data.draw(st.integers(1, 3))
    parent, sent, other = (data.draw(st.lists(ONE_BIN, min_size=n_bins, max_size=n_bins)) for _ in range(3))
    if data.draw(st.booleans()):
        parent = [tuple(a + b for a, b in zip(x, y, strict=True)) for x, y in zip(sent, other, strict=True)]
    above, mine, theirs = (
        bin_sums(
            nodes,
            [[one[0] for one in bins]],
            [[[one[1 + k] * UNIT for one in bins]] for k in range(2)],
            [[[one[3 + k] * UNIT for one in bins]] for k in range(2)],
        )
        for nodes, bins in (([5], parent), ([2], sent), ([3], other))
    )
    siblings = mine.siblings([5], above)
    assert siblings.nodes == [3]
    assert (siblings.counts + mine.counts == above.counts).all()
    assert (integers(siblings) + integers(mine) == integers(above)).all()
    if parent == [tuple(a + b for a, b in zip(x, y, strict=True)) for x, y in zip(sent, other, strict=True)]:
        assert siblings.digest() == theirs.digest()
        assert is_possible(siblings) == is_possible(theirs)
    by_hand = all(
        rows >= 0 and all(-rows <= g <= rows for g in gs) and all(0 <= h <= rows for h in hs)
        for rows, gs, hs in (
            (p[0] - s[0], (p[1] - s[1], p[2] - s[2]), (p[3] - s[3], p[4] - s[4]))
            for p, s in zip(parent, sent, strict=True)
        )
    )
    assert is_possible(siblings) == by_hand


def test_the_root_has_the_rows_announced_but_for_those_left_out():
    agreed, no_sums = np.array([3, 2, 1, 4]), np.zeros((2, 2, 1, 1, 4), dtype=np.int64)
    for counts, n_left_out in (([3, 2, 1, 4], 0), ([2, 2, 1, 3], 1), ([0, 0, 0, 0], 4)):
        BinSums([0], np.array([counts]), no_sums).check_root(agreed, n_left_out)
    for counts, n_left_out in (([4, 1, 1, 4], 1), ([3, 2, 1, 5], 0), ([1, 2, 1, 4], 1), ([2, 2, 1, 4], 0)):
        with pytest.raises(ProtocolError, match=r"root's.*announced"):
            BinSums([0], np.array([counts]), no_sums).check_root(agreed, n_left_out)


def test_a_sibling_is_possible_to_the_last_bit():
    rows, zero = [[3, 2]], [[[0, 0]]] * 2
    above = bin_sums([0], rows, zero, [[[3 * UNIT, 2 * UNIT]]] * 2)
    for h, possible in ((2 * UNIT, True), (2 * UNIT - 1, False), (3 * UNIT, True), (3 * UNIT + 1, False)):
        sent = bin_sums([1], [[2, 1]], zero, [[[2 * UNIT, UNIT]], [[h, UNIT]]])
        assert is_possible(sent.siblings([0], above)) == possible
    for g, possible in ((UNIT, True), (UNIT + 1, False), (-UNIT, True), (-UNIT - 1, False)):
        sent = bin_sums([1], [[2, 1]], [[[g, 0]], [[0, 0]]], [[[2 * UNIT, UNIT]]] * 2)
        assert is_possible(sent.siblings([0], above)) == possible
    # A bin without rows has no sums.
    for h, possible in ((3 * UNIT, True), (3 * UNIT - 1, False)):
        sent = bin_sums([1], [[3, 1]], zero, [[[3 * UNIT, UNIT]], [[h, UNIT]]])
        assert is_possible(sent.siblings([0], above)) == possible


def test_nodes_of_two_parts_come_in_the_order_asked_for():
    one = bin_sums([0, 3], [[1], [2]], [[[1], [2]]] * 2, [[[1], [2]]] * 2)
    other = bin_sums([1, 2], [[3], [4]], [[[3], [4]]] * 2, [[[3], [4]]] * 2)
    together = one.with_nodes(other, [0, 1, 3])
    assert (together.nodes, together.counts.ravel().tolist()) == ([0, 1, 3], [1, 3, 2])
    assert integers(together)[1, 1].ravel().tolist() == [1, 3, 2]


def announced(n_bins, counts, min_node_rows=1, categorical=frozenset()):
    return AgreedColumns(np.array(n_bins), np.array(counts), min_node_rows, categorical)


def test_columns_at_the_edge_of_the_possible_are_accepted():
    announced([5], [1, 0, 0, 0, 0, 3]).check(4, 4)  # a bin more than max_bin, and missing values
    announced([0, 1], [4, 2, 2]).check(4, 4)  # a column without any value


@pytest.mark.parametrize(
    ("n_bins", "counts", "least"),
    [
        ([6], [4, 0, 0, 0, 0, 0, 0], 1),  # two bins more than max_bin
        ([-1], [4], 1),
        ([], [], 1),
        ([1], [4], 1),
        ([1], [4, 0, 0], 1),
        ([1], [5, -1], 1),
        ([1], [3, 0], 1),
        ([1, 1], [4, 0, 4, 1], 1),
        ([1], [4, 0], 0),
    ],
)
def test_columns_beyond_the_edge_of_the_possible_are_refused(n_bins, counts, least):
    with pytest.raises(ProtocolError, match="announces impossible columns"):
        announced(n_bins, np.array(counts, dtype=np.int64), least).check(4, 4)


def test_a_tree_without_nodes_has_sums_of_no_class():
    none = BinSums.of_no_node()
    assert (none.nodes, none.counts.shape, none.sums.shape) == ([], (0, 0), (2, 2, 0, 0, 0))
