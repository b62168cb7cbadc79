"""Sums over leaves by correlated transfers, beside plain sums and one node at a time."""

import numpy as np
import pytest

from gbdt_commons.key_stream import KeyStream
from gbdt_kernels.transfers.columns import choice_words
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.two_party.extension import Batch
from gbdt_parties.two_party.leaf_sums import SumReceiver, SumSender, message_bytes
from gbdt_parties.two_party.names import Step
from gbdt_parties.two_party.pads import Pads
from two_party_oracle import WORD, leaf_sums, pad
from two_party_sides import as_integers, drawn, transfer_sides

BATCH = Batch(Step(1, 0, 1), 0)
STEP = Step(1, 0, 2)


def summed(own, others, leaves, levels, ring_bits, first=0):
    """Both sides' sums and the message, with the transfers that were used."""
    sides = transfer_sides()
    choices = np.empty(levels * -(-len(leaves) // 64), np.uint64)
    choice_words(leaves, levels, True, choices)
    t, transfers = sides.receiver.extend(BATCH, choices, KeyStream())
    q = sides.sender.extend(BATCH, len(choices), transfers)
    pads = [Pads(sides.context, STEP, b"tree") for _ in range(2)]
    sender = SumSender(pads[0], sides.sender.difference, levels, ring_bits)
    receiver = SumReceiver(pads[1], levels, ring_bits)
    message = sender.add(q, first, own)
    receiver.add(t, first, leaves, others, message)
    return sender.sums, receiver.sums, message, q, t, sides


@pytest.mark.parametrize("ring_bits", [48, 64])
@pytest.mark.parametrize("levels", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("n", [1, 65, 200])
def test_sums_are_those_of_plain_values(n, levels, ring_bits):
    own, others, leaves = drawn(n), drawn(n), drawn(n, 1 << levels, np.uint8)
    ones, rest, message, *_ = summed(own, others, leaves, levels, ring_bits)
    ring = np.uint64((1 << ring_bits) - 1)
    expected = np.array(leaf_sums(own + others, leaves, levels), np.uint64)
    assert (ones + rest & ring == expected & ring).all()
    assert len(message) == message_bytes(n, levels, ring_bits)


@pytest.mark.parametrize("piece", [7, 64])
def test_pieces_of_rows_are_added_once(piece, monkeypatch):
    monkeypatch.setattr("gbdt_parties.two_party.leaf_sums.PIECE", piece)
    own, others, leaves = drawn(65), drawn(65), drawn(65, 8, np.uint8)
    ones, rest, *_ = summed(own, others, leaves, 3, 64)
    assert (ones + rest == np.array(leaf_sums(own + others, leaves, 3), np.uint64)).all()


def test_empty_leaves_have_sums_of_zero():
    own, others = drawn(100), drawn(100)
    ones, rest, *_ = summed(own, others, np.full(100, 9, np.uint8), 4, 64)
    expected = np.zeros(16, np.uint64)
    expected[9] = (own + others).sum()
    assert (ones + rest == expected).all()


def pushed(share, other, bits, sender_pads, receiver_pads):
    """One row down its tree, node by node: corrections, and both sides' values at the leaves."""
    ones, others, corrections = [share], [other], []
    for level, bit in enumerate(bits):
        below_ones, below_others = [], []
        for j, (u, v) in enumerate(zip(ones, others, strict=True)):
            r, shifted = sender_pads(level, j)
            d = (r - shifted + u) % WORD
            corrections.append(d)
            z = (receiver_pads(level, j) + bit * d) % WORD
            below_ones += [(u + r) % WORD, -r % WORD]
            below_others += [((1 - bit) * v - z) % WORD, (bit * v + z) % WORD]
        ones, others = below_ones, below_others
    return corrections, ones, others


@pytest.mark.parametrize("levels", [1, 4, 5])
def test_sums_and_message_are_those_of_one_node_at_a_time(levels):
    n, first = 9, 70
    own, others, leaves = drawn(n), drawn(n), drawn(n, 1 << levels, np.uint8)
    sums, rest, message, q, t, sides = summed(own, others, leaves, levels, 64, first)
    delta = int(sides.sender.difference[0]) | int(sides.sender.difference[1]) << 64
    q, t = as_integers(q), as_integers(t)
    expected = [[0] * (1 << levels) for _ in range(2)]
    octets = b""
    for i in range(n):

        def tmmo(x, level, j, i=i):
            block = [0, 1, 2, 4, 8, 16][level] + j // 2
            counter = (first + i) * (1 << levels >> 1) + block
            return pad(sides.context, STEP, b"tree", x, counter, j % 2)

        def sender_pads(level, j, i=i):
            row = q[64 * level + i]
            return tmmo(row, level, j), tmmo(row ^ delta, level, j)

        def receiver_pads(level, j, i=i):
            return tmmo(t[64 * level + i], level, j)

        bits = [int(leaves[i]) >> (levels - 1 - level) & 1 for level in range(levels)]
        found = pushed(int(own[i]), int(others[i]), bits, sender_pads, receiver_pads)
        octets += b"".join(d.to_bytes(8, "little") for d in found[0])
        for total, values in zip(expected, found[1:], strict=True):
            for leaf, value in enumerate(values):
                total[leaf] = (total[leaf] + value) % WORD
    assert message == octets
    assert [sums.tolist(), rest.tolist()] == expected


def test_rows_added_in_parts_have_the_sums_of_all():
    n, levels = 130, 4
    own, others, leaves = drawn(n), drawn(n), drawn(n, 16, np.uint8)
    sides = transfer_sides()
    pads = [Pads(sides.context, STEP, b"tree") for _ in range(2)]
    sender = SumSender(pads[0], sides.sender.difference, levels, 48)
    receiver = SumReceiver(pads[1], levels, 48)
    for number, part in enumerate((slice(0, 64), slice(64, 130))):
        batch = Batch(BATCH.step, number)
        count = part.stop - part.start
        choices = np.empty(levels * -(-count // 64), np.uint64)
        choice_words(leaves[part], levels, True, choices)
        t, transfers = sides.receiver.extend(batch, choices, KeyStream())
        q = sides.sender.extend(batch, len(choices), transfers)
        message = sender.add(q, part.start, own[part])
        receiver.add(t, part.start, leaves[part], others[part], message)
    expected = np.array(leaf_sums(own + others, leaves, levels), np.uint64)
    assert (sender.sums + receiver.sums & np.uint64(2**48 - 1) == expected & np.uint64(2**48 - 1)).all()


def test_other_lengths_and_depths_are_refused():
    pads = Pads(b"context".ljust(32), STEP, b"tree")
    receiver = SumReceiver(pads, 4, 48)
    with pytest.raises(ProtocolError, match=r"corrections.*271 bytes where 270"):
        receiver.add(np.zeros((256, 2), np.uint64), 0, np.zeros(3, np.uint8), drawn(3), bytes(271))
    for levels in (0, 7):
        with pytest.raises(PartyArgumentError, match="must be 1 to 6"):
            SumReceiver(pads, levels, 48)
        with pytest.raises(PartyArgumentError, match="must be 1 to 6"):
            SumSender(pads, np.zeros(2, np.uint64), levels, 48)
