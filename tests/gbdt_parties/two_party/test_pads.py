"""Pads: TMMO of AES, block by block in plain integers; keys bound to direction, step and purpose."""

import numpy as np
import pytest

from drawn_words import words
from gbdt_parties.two_party.names import Step
from gbdt_parties.two_party.pads import Pads, aligned
from two_party_oracle import pad
from two_party_sides import CONTEXT

STEP = Step(2, 1, 3)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 8), (5, 16, 2)])
def test_pads_are_tmmo(shape):
    inputs = words(*shape, 2)
    kept = inputs.copy()
    inner, outer = Pads(CONTEXT, STEP, b"lookup").hashed(inputs, 100)
    n, k, n_blocks = shape
    for i in range(n):
        for j in range(k):
            for b in range(n_blocks):
                x = int(kept[i, j, b, 0]) | int(kept[i, j, b, 1]) << 64
                counter = (100 + i) * n_blocks + b
                expected = [pad(CONTEXT, STEP, b"lookup", x, counter, word) for word in (0, 1)]
                assert (inner ^ outer)[i, j, b].tolist() == expected


def test_rows_hashed_apart_have_the_pads_of_all_rows():
    inputs = words(7, 2, 4, 2)
    pads = Pads(CONTEXT, STEP, b"lookup")
    whole = np.bitwise_xor(*pads.hashed(inputs.copy(), 0))
    parts = [np.bitwise_xor(*pads.hashed(inputs[a:b].copy(), a)) for a, b in ((0, 3), (3, 7))]
    assert (np.concatenate(parts) == whole).all()


@pytest.mark.parametrize("n_levels", [1, 2, 4, 6])
def test_pads_of_levels_are_those_of_each_repeated_for_its_nodes(n_levels):
    inputs = words(5, 2, n_levels, 2)
    levels = [t for t in range(n_levels) for _ in range(max(2**t // 2, 1))]
    pads = Pads(CONTEXT, STEP, b"tree")
    inner, outer = pads.hashed_levels(inputs, 30)
    expected = np.bitwise_xor(*pads.hashed(np.ascontiguousarray(inputs[:, :, levels]), 30))
    assert (inner[:, :, levels] ^ outer == expected).all()


def test_equal_rows_have_other_pads_everywhere():
    """A receiver that deviates can make two rows the same: their pads still differ."""
    inputs = np.zeros((50, 1, 8, 2), np.uint64)
    pads = np.bitwise_xor(*Pads(CONTEXT, STEP, b"lookup").hashed(inputs, 0))
    assert len({block.tobytes() for block in pads.reshape(-1, 2)}) == 400


@pytest.mark.parametrize(
    ("context", "step", "purpose"),
    [
        (b"other".ljust(32), STEP, b"lookup"),
        (CONTEXT, Step(3, 1, 3), b"lookup"),
        (CONTEXT, Step(2, 2, 3), b"lookup"),
        (CONTEXT, Step(2, 1, 2), b"lookup"),
        (CONTEXT, STEP, b"tree\0\0"),
    ],
)
def test_keys_are_bound(context, step, purpose):
    inputs = words(4, 1, 1, 2)
    one = np.bitwise_xor(*Pads(CONTEXT, STEP, b"lookup").hashed(inputs.copy(), 0))
    other = np.bitwise_xor(*Pads(context, step, purpose).hashed(inputs.copy(), 0))
    assert (one != other).all()


@pytest.mark.parametrize("place", [0, 1, 2, 8])
def test_words_of_a_message_are_read_wherever_they_are(place):
    numbers = np.arange(20, dtype="<u2")
    found = np.frombuffer(memoryview(bytes(place) + numbers.tobytes())[place:], dtype="<u2")
    read = aligned(found)
    assert read.flags.aligned
    assert not read.flags.writeable
    assert (read is found) is (place % 2 == 0)
    assert (read == numbers).all()
