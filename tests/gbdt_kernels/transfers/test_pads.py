"""Inputs of pads, beside long multiplication in GF(2^128)."""

import numpy as np
import pytest

from drawn_words import words
from gbdt_kernels.transfers.pads import combine, descend, spread, tweak, tweak_levels
from two_party_oracle import combined
from two_party_sides import as_integers


@pytest.mark.parametrize("n_bits", [1, 2, 4, 8])
def test_combinations_are_polynomials(n_bits):
    rows = words(n_bits * 9, 2)
    found = np.empty((9, 2), np.uint64)
    combine(rows, n_bits, found)
    assert as_integers(found) == [combined(as_integers(rows), n_bits, i) for i in range(9)]


def test_offsets_are_added_to_every_key():
    keys, offsets, found = words(3, 2), words(4, 2), words(3, 4, 2, 2)
    spread(keys, offsets, 2, found)
    assert (found == (keys[:, None] ^ offsets[None])[:, :, None]).all()


@pytest.mark.parametrize("n_levels", [1, 2, 3, 6])
def test_a_level_has_a_block_for_two_nodes(n_levels):
    rows, offsets = words(n_levels * 5, 2), words(2, 2)
    found = words(3, 2, n_levels, 2)
    descend(rows, offsets, n_levels, 1, found)
    for i in range(3):
        for t in range(n_levels):
            assert (found[i, :, t] == rows[5 * t + 1 + i] ^ offsets).all()
    levels = [t for t in range(n_levels) for _ in range(max(2**t // 2, 1))]
    repeated, expected = words(2, 3, 2, 1 << n_levels >> 1, 2)
    assert len(levels) == repeated.shape[2]
    tweak_levels(found, 100, repeated)
    tweak(np.ascontiguousarray(found[:, :, levels]), 100, expected)
    assert (repeated == expected).all()


def test_counters_are_those_of_row_and_block():
    blocks, found = words(3, 2, 4, 2), words(3, 2, 4, 2)
    tweak(blocks, 100, found)
    counters = 100 + np.arange(12, dtype=np.uint64).reshape(3, 1, 4)
    assert (found[..., 0] == blocks[..., 0] ^ counters).all()
    assert (found[..., 1] == blocks[..., 1]).all()
