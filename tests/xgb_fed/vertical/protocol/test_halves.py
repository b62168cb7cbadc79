"""Sums in two halves are exact."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scaled_gradients import gradients, scaled
from xgb_fed.vertical.protocol.halves import HALF_BITS
from xgb_fed.vertical.trees.partition import Partition


def integers_of(halves):
    """Python integers of halves of shape (2, n)."""
    return [(int(high) << HALF_BITS) + int(low) for high, low in zip(*halves, strict=True)]


@given(gradients(), st.data())
@settings(max_examples=40)
def test_sums_are_exact_and_their_floats_the_nearest(pair, data):
    own = scaled(*pair)
    n_rows, n_classes = pair[0].shape
    left = np.array(data.draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)))
    partition = Partition.root(n_rows).children({0: left})
    sums, counts = own.node_sums(partition)
    assert counts.tolist() == [left.sum(), (~left).sum()]
    units = [Fraction(2) ** (exponent - 53) for exponent in (own.g_exponent, own.h_exponent)]
    floats = own.to_float(sums)
    for k in range(n_classes):
        exact = [integers_of(part[:, k]) for part in sums]
        for node, rows in enumerate((left, ~left)):
            for which, integers in enumerate((own.g, own.h)):
                total = sum(integers[rows, k].tolist())
                assert exact[which][node] == total
                assert floats[which][k, node] == float(total * units[which])


def test_sums_of_many_rows_are_exact():
    """Halves of 27 bits: a hundred thousand rows at the largest, one of them off by the last bit."""
    g = np.ones((100_000, 1))
    g[-1] -= 2.0**-53
    own = scaled(g, g)
    sums, _ = own.node_sums(Partition.root(len(g)))
    assert [integers_of(part[:, 0]) for part in sums] == [[(100_000 << 53) - 1]] * 2
