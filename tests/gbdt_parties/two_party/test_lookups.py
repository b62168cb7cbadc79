"""Lookups by transfers, beside indexing a plain table and masking one entry at a time."""

import numpy as np
import pytest

from gbdt_commons.key_stream import KeyStream
from gbdt_kernels.transfers.columns import choice_words
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.two_party import pads as pads_module
from gbdt_parties.two_party.extension import Batch
from gbdt_parties.two_party.lookups import (
    LookupReceiver,
    LookupSender,
    bits_of,
    keys_of,
    message_bytes,
    multiples,
)
from gbdt_parties.two_party.names import Step
from gbdt_parties.two_party.pads import Pads
from two_party_oracle import combined, field_times, pad
from two_party_sides import as_integers, drawn, transfer_sides

BATCH = Batch(Step(1, 0, 1), 0)
STEP = Step(1, 0, 2)


def looked_up(table, points, ring_bits, first=0):
    """Both sides' shares and the message of one lookup, with the transfers it used."""
    n, n_points, n_outputs = table.shape
    n_bits = bits_of(n_points)
    sides = transfer_sides()
    choices = np.empty(n_bits * -(-n // 64), np.uint64)
    choice_words(points, n_bits, False, choices)
    t, transfers = sides.receiver.extend(BATCH, choices, KeyStream())
    q = sides.sender.extend(BATCH, len(choices), transfers)
    pads = [Pads(sides.context, STEP, b"lookup") for _ in range(2)]
    sender = LookupSender(pads[0], sides.sender.difference, n_points, ring_bits)
    receiver = LookupReceiver(pads[1], n_points, n_outputs, ring_bits)
    shares, message = sender.answer(keys_of(q, n_points), first, table)
    return shares, receiver.take(keys_of(t, n_points), first, points, message), message, q, sides


@pytest.mark.parametrize("ring_bits", [48, 64])
@pytest.mark.parametrize(
    ("n", "n_points", "n_outputs"),
    [(1, 2, 1), (63, 16, 1), (200, 16, 2), (65, 5, 3), (40, 256, 1), (64, 255, 1)],
)
def test_shares_add_up_to_the_entries(n, n_points, n_outputs, ring_bits):
    table, points = drawn((n, n_points, n_outputs)), drawn(n, n_points, np.uint8)
    ones, others, message, _, _ = looked_up(table, points, ring_bits)
    ring = np.uint64((1 << ring_bits) - 1)
    assert (ones + others & ring == table[np.arange(n), points] & ring).all()
    assert len(message) == message_bytes(n, n_points, n_outputs, ring_bits)


def test_every_point_of_every_row():
    for point in range(16):
        table, points = drawn((16, 16, 1)), np.full(16, point, np.uint8)
        ones, others, *_ = looked_up(table, points, 64)
        assert (ones + others == table[:, point]).all()


@pytest.mark.parametrize(("ring_bits", "n_points"), [(48, 16), (64, 6)])
def test_shares_and_message_are_those_of_one_entry_at_a_time(ring_bits, n_points):
    n, first = 11, 300
    table, points = drawn((n, n_points, 3)), drawn(n, n_points, np.uint8)
    shares, _, message, q, sides = looked_up(table, points, ring_bits, first)
    delta = int(sides.sender.difference[0]) | int(sides.sender.difference[1]) << 64
    rows, n_bits, octets = as_integers(q), bits_of(n_points), ring_bits // 8
    expected = b""
    for i in range(n):
        key = combined(rows, n_bits, i)
        entries = [[], [], []]
        for o in range(3):
            counter = 2 * (first + i) + o // 2
            masks = [
                pad(sides.context, STEP, b"lookup", key ^ field_times(j, delta), counter, o % 2)
                for j in range(n_points)
            ]
            share = (int(table[i, 0, o]) + masks[0]) % 2**64
            assert int(shares[i, o]) == share
            entries[o] = [int(table[i, j, o]) - share + masks[j] for j in range(n_points)]
        for j in range(1, n_points):
            for o in range(3):
                expected += (entries[o][j] % 2**ring_bits).to_bytes(octets, "little")
    assert message == expected


def test_pieces_of_rows_change_nothing(monkeypatch):
    table, points = drawn((50, 16, 1)), drawn(50, 16, np.uint8)
    n_pieces = []
    for piece in (1 << 11, 7):
        monkeypatch.setattr("gbdt_parties.two_party.lookups.PIECE", piece)
        hashed = []
        original = pads_module.Pads.hashed
        with monkeypatch.context() as patch:
            patch.setattr(Pads, "hashed", lambda *args, h=hashed, f=original: h.append(1) or f(*args))
            ones, others, *_ = looked_up(table, points, 64)
        n_pieces.append(len(hashed))
        assert (ones + others == table[np.arange(50), points][:, :]).all()
    assert n_pieces == [2, 16]


def test_multiples_are_products_in_the_field():
    difference = drawn(2)
    element = int(difference[0]) | int(difference[1]) << 64
    assert as_integers(multiples(difference, 256)) == [field_times(element, j) for j in range(256)]
    assert len(multiples(difference, 5)) == 5


def test_other_lengths_and_sizes_are_refused():
    sides = transfer_sides()
    pads = Pads(sides.context, STEP, b"lookup")
    receiver = LookupReceiver(pads, 16, 1, 48)
    with pytest.raises(ProtocolError, match=r"269 bytes where 270.*due"):
        receiver.take(np.zeros((256, 2), np.uint64), 0, np.zeros(3, np.uint8), bytes(269))
    sender = LookupSender(pads, sides.sender.difference, 16, 48)
    with pytest.raises(PartyArgumentError, match=r"15 points; agreed.*16"):
        sender.answer(np.zeros((256, 2), np.uint64), 0, drawn((3, 15, 1)))
    for n_points in (1, 257):
        with pytest.raises(PartyArgumentError, match="must be 2 to 256"):
            bits_of(n_points)


def test_shares_of_one_side_look_uniform():
    """Of one table and point, with fresh transfers: every bit of either share is 1 about half the time."""
    table, points = np.zeros((256, 16, 1), np.uint64), np.full(256, 3, np.uint8)
    ones, others, *_ = looked_up(table, points, 64)
    for shares in (ones, others):
        means = np.unpackbits(shares.view(np.uint8).reshape(256, 8), axis=1).mean(axis=0)
        assert abs(means - 0.5).max() < 0.16
