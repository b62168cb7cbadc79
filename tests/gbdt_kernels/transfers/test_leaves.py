"""Shares down a tree, with made-up pads: beside sums of plain values."""

import os

import numpy as np
import pytest

from drawn_words import words
from gbdt_kernels.transfers.leaves import receive_down, send_down
from two_party_oracle import leaf_sums


@pytest.mark.parametrize("n_parts", [3, 4])
@pytest.mark.parametrize("n_levels", [1, 2, 4, 6])
def test_shares_add_up_to_the_sums_of_the_leaves(n_levels, n_parts):
    n, n_blocks = 97, 1 << n_levels >> 1
    leaves = np.frombuffer(os.urandom(n), np.uint8) >> np.uint8(8 - n_levels)
    own, others = words(n), words(n)
    inner, outer = words(n, 2, n_levels, 2), words(n, 2, n_blocks, 2)
    # The receiver has, for each level, the pads of its bit.
    levels = [t for t in range(n_levels) for _ in range(max(2**t // 2, 1))]
    chosen = []
    for pads, of_block in ((inner, list(range(n_levels))), (outer, levels)):
        bits = leaves[:, None] >> (n_levels - 1 - np.array(of_block)) & 1
        rows, blocks = np.indices(bits.shape)
        chosen.append(np.ascontiguousarray(pads[rows, bits, blocks][:, None]))
    message = np.empty((n, (1 << n_levels) - 1, n_parts), np.uint16)
    sums, other_sums = words(2, 1 << n_levels)
    before = sums + other_sums
    send_down(own, n_levels, inner, outer, message, sums)
    receive_down(others, leaves, n_levels, *chosen, message, other_sums)
    ring = np.uint64((1 << 16 * n_parts) - 1)
    expected = np.array(leaf_sums(own + others, leaves, n_levels), np.uint64)
    assert ((sums + other_sums - before) & ring == expected & ring).all()
