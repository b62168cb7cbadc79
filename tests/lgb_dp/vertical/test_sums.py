"""What both parties must have worked out alike before a round, and which trees are a party's own."""

from dataclasses import replace

import numpy as np
import pytest

from gbdt_parties.two_party.names import Seat
from lgb_dp.newton.releases.trees import PublicTree, ReleasedTree
from lgb_dp.vertical.numbers import PublicNumbers
from lgb_dp.vertical.sums import ColumnRows, Refresh


def tree(features, threshold=3):
    goes_left = np.tile((np.arange(256) < threshold).astype(np.uint8), (len(features), 1))
    return PublicTree(np.array(features, dtype=np.int32), goes_left, np.zeros(len(features), dtype=np.int64))


def numbers(mu=0.5, n_rows=100.0):
    return PublicNumbers.of(n_rows, 5.0, (0.1, 0.3), mu)


ROUND = Refresh(
    3,
    (tree([0, 1, 1]), tree([2])),
    (0, 1),
    0.25,
    (ReleasedTree(2, tree([2]), np.array([[0.5], [-0.5]])),),
    0.5,
    (-1.0, 1.0),
    numbers(),
)


@pytest.mark.parametrize(
    "other",
    [
        {"number": 4},
        {"trees": (tree([0, 1, 0]), tree([2]))},
        {"trees": (tree([0, 1, 1]), tree([2], threshold=4))},
        {"owners": (1, 1)},
        {"prior": np.nextafter(0.25, 1)},
        {"released": ()},
        {"released": (ReleasedTree(2, tree([2]), np.array([[0.5], [-0.25]])),)},
        {"clip": np.nextafter(0.5, 1)},
        {"numbers": numbers(mu=0.25)},
        {"numbers": numbers(n_rows=101.0)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_rounds_that_differ_have_other_digests(other):
    assert replace(ROUND, **other).digest != ROUND.digest == replace(ROUND).digest


class Columns:
    """Codes as an array; a tree of one split sends those below 3 to leaf 0."""

    def __init__(self, codes):
        self.codes, self.n_rows = codes, len(codes)

    def leaves(self, feature, goes_left, first, stop, leaf):
        assert len(feature) == 1
        leaf[:] = 1 - goes_left[0, self.codes[first:stop, feature[0]]]


def test_a_tree_of_one_split_is_of_the_party_that_has_its_column():
    columns = Columns(np.array([[1, 5], [4, 0], [2, 9]]))
    rows = ColumnRows(columns, range(4, 6), 1)
    (leaves,) = rows.own_leaves([tree([5]), tree([3])])
    assert leaves.tolist() == [1, 0, 1]
    released = [
        ReleasedTree(k + 1, one, np.array([[0.5], [-1.0]])) for k, one in enumerate([tree([4]), tree([6])])
    ]
    assert rows.score(released).tolist() == [0.5, -1.0, 0.5]
    assert rows.score([*released, replace(released[0], number=3)]).tolist() == [1.0, -2.0, 1.0]


@pytest.mark.parametrize(("n_trees", "rows"), [(2, 1 << 14), (10, 1 << 14), (64, 2752), (1024, 128)])
def test_a_message_of_many_deep_trees_has_fewer_rows(n_trees, rows):
    """Before, 64 trees of 64 leaves made a message of 190 MB, of which servers accept 64."""
    deep = (tree([k % 2] * 63) for k in range(n_trees))
    owners = tuple(k % 2 for k in range(n_trees))
    seats = Seat(0, bytes(32)), Seat(1, b"1" * 32)
    layout = replace(ROUND, trees=tuple(deep), owners=owners).layout(seats, 30_000)
    assert layout.rows_per_message == rows
    assert layout.rows_per_message * n_trees // 2 * 63 * layout.ring_bits // 8 <= 32 << 20
