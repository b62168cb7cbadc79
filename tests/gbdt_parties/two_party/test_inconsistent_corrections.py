"""A receiver that sends inconsistent corrections: without the check it reads all of Δ, with it it is refused.

The attacker owns trees.  It turns the choice bit of some transfers of the last level in one block each: the
other side's row is then t ⊕ (the block's four bits of Δ), and its pads those of one of 16 rows.  The opened
sums are small for the right guesses, and random ring elements for all others, so that they tell which.
"""

import itertools

import numpy as np
import pytest

from gbdt_commons.key_stream import KeyStream
from gbdt_kernels.transfers.columns import choice_words
from gbdt_parties.errors import TransferCheckError
from gbdt_parties.two_party.extension import (
    Batch,
    TransferSender,
    linear_hashes,
    rows_of_bits,
    words_with_spares,
)
from gbdt_parties.two_party.leaf_sums import SumReceiver, SumSender
from gbdt_parties.two_party.life import MAX_FAILURES, Failures, Life
from gbdt_parties.two_party.names import Step
from gbdt_parties.two_party.pads import Pads
from two_party_sides import delta_of, drawn, transfer_sides

N, LEVELS, PER_TREE, N_TREES = 64, 4, 4, 8
MASK = (1 << 48) - 1
NOISE = 1 << 20
"""Bound of the honest side's noise."""


def inconsistent(receiver, batch, choices, turned):
    """Like `TransferReceiver.extend`, with the choices of some transfers turned in one block each.

    Parameters
    ----------
    turned : dict
        Block to transfer.
    """
    words = words_with_spares(len(choices))
    chosen = np.concatenate([choices, KeyStream().words(words - len(choices))])
    columns, corrections = receiver.columns(batch, words)
    corrections ^= chosen
    for block, transfer in turned.items():
        corrections[block, transfer // 64] ^= np.uint64(1) << np.uint64(transfer % 64)
    sent = corrections.tobytes()
    hashed = linear_hashes(receiver.key(batch, sent), np.concatenate([chosen[None], columns]))
    message = sent + hashed[0].tobytes() + receiver.values_digest(batch, hashed[1:])
    return rows_of_bits(columns, len(choices)), message


def small(words):
    """Sizes of sums modulo 2^48, up or down."""
    values = np.asarray(words, np.uint64) & np.uint64(MASK)
    return np.minimum(values, np.uint64(MASK + 1) - values)


def attacked_tree(sides, number):
    """One tree: the bits of Δ that its opened sums tell, by block."""
    step, batch = Step(number, 0, 2), Batch(Step(number, 0, 1), 0)
    blocks = [(PER_TREE * number + k) % 32 for k in range(PER_TREE)]
    # The attacker sends all rows to leaf 0, and turns the last level of rows 0, 1, 2, ...
    leaves = np.zeros(N, np.uint8)
    choices = np.empty(LEVELS, np.uint64)
    choice_words(leaves, LEVELS, True, choices)
    turned = {block: 64 * (LEVELS - 1) + row for row, block in enumerate(blocks)}
    t, message = inconsistent(sides.receiver, batch, choices, turned)
    q = sides.sender.extend(batch, LEVELS, message)

    # The honest side's values are small, shared at random; its noise is added to its sums.
    values = drawn(N, 1000)
    attackers = drawn(N)
    honest = SumSender(Pads(sides.context, step, b"tree"), sides.sender.difference, LEVELS, 48)
    corrections = honest.add(q, 0, values - attackers)
    opened_by_honest = honest.sums + drawn(16, NOISE)

    # Each guess of a row's four bits is another row t; what it adds to the attacker's sums is a difference.
    def sums_of(rows):
        own = SumReceiver(Pads(sides.context, step, b"tree"), LEVELS, 48)
        own.add(rows, 0, leaves, attackers, corrections)
        return own.sums

    plain = sums_of(t)
    changes = []
    for row, block in enumerate(blocks):
        of_row = []
        for guess in range(16):
            rows = t.copy()
            rows[64 * (LEVELS - 1) + row, block // 16] ^= np.uint64(guess << 4 * (block % 16))
            of_row.append(sums_of(rows) - plain)
        changes.append(np.array(of_row))
    # Two leaves are enough to tell the right one of 16^4 combinations.
    totals = opened_by_honest[None] + plain[None]
    guesses = np.array(list(itertools.product(range(16), repeat=PER_TREE)))
    for row in range(PER_TREE):
        totals = totals + changes[row][guesses[:, row]]
    fits = (small(totals[:, 1:]) < 2 * NOISE + 1000 * N).all(axis=1)
    assert fits.sum() == 1
    return dict(zip(blocks, guesses[np.argmax(fits)].tolist(), strict=True))


def unchecked(monkeypatch):
    monkeypatch.setattr(TransferSender, "check", lambda *args: None)


@pytest.mark.parametrize("run", [0, *(pytest.param(run, marks=pytest.mark.slow) for run in range(1, 5))])
def test_without_the_check_all_of_the_difference_is_read(monkeypatch, run):
    """The attack is real: eight trees with four inconsistent transfers each give all 128 bits."""
    unchecked(monkeypatch)
    sides = transfer_sides()
    read = {}
    for number in range(N_TREES):
        read |= attacked_tree(sides, number)
    assert sum(four << 4 * block for block, four in read.items()) == delta_of(sides.difference)


def test_with_the_check_it_is_refused_every_time():
    for _ in range(20):
        sides = transfer_sides()
        with pytest.raises(TransferCheckError, match=r"corrections.*consistent"):
            attacked_tree(sides, 0)
        assert sides.failures.count == 1


def test_one_turned_bit_is_refused_unless_the_block_of_the_difference_is_zero():
    """With values of an honest receiver the guess is four zero bits; then nothing is turned at all."""
    outcomes = set()
    for block in range(32):
        sides = transfer_sides()
        four = delta_of(sides.difference) >> 4 * block & 15
        batch, choices = Batch(Step(1, 0, 1), 0), drawn(4)
        _, message = inconsistent(sides.receiver, batch, choices, {block: 7})
        try:
            sides.sender.extend(batch, 4, message)
            passed = True
        except TransferCheckError:
            passed = False
        assert passed == (four == 0)
        outcomes.add(passed)
    assert False in outcomes


def test_three_failures_are_the_last():
    failures = Failures()
    for _ in range(MAX_FAILURES):
        sides = transfer_sides()
        sides.sender.life = Life(failures)
        with pytest.raises(TransferCheckError):
            attacked_tree(sides, 0)
    with pytest.raises(TransferCheckError, match="failed 3 times"):
        Life(failures)
