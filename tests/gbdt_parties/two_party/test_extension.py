"""Extended transfers: t = q + c·Δ, bit for bit those of plain integers; and corrections that are refused."""

import copy
import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_commons.key_stream import KeyStream
from gbdt_parties.errors import ProtocolError, TransferCheckError
from gbdt_parties.two_party.extension import MAX_WORDS, Batch, linear_hashes, message_bytes, words_with_spares
from gbdt_parties.two_party.names import Step
from two_party_oracle import ghash, transfers_message
from two_party_sides import as_integers, delta_of, transfer_sides

FIRST = Batch(Step(1, 0, 1), 0)


def drawn_words(n):
    return np.frombuffer(os.urandom(8 * n), np.uint64)


def bits_of(words):
    return np.unpackbits(words.view(np.uint8), bitorder="little")


@pytest.mark.parametrize("n_words", [1, 2, 3, 8])
def test_rows_differ_by_the_choice_times_the_difference(n_words):
    sides, choices = transfer_sides(), drawn_words(n_words)
    t, message = sides.receiver.extend(FIRST, choices, KeyStream())
    q = sides.sender.extend(FIRST, n_words, message)
    delta = sides.sender.difference
    assert (t == q ^ (bits_of(choices)[:, None] * delta[None])).all()
    assert delta_of(sides.difference) == int(delta[0]) | int(delta[1]) << 64
    assert len(message) == message_bytes(n_words) == 256 * words_with_spares(n_words) + 48


def test_rows_and_message_are_those_of_plain_integers():
    sides, choices = transfer_sides(), drawn_words(3)
    spare = KeyStream(b"k" * 32)
    batch = Batch(Step(3, 1, 1), 5)
    t, message = sides.receiver.extend(batch, choices, spare)
    chosen = int.from_bytes(choices.tobytes() + KeyStream(b"k" * 32).words(3).tobytes(), "little")
    seeds = [[seed.tobytes() for seed in block] for block in sides.seeds]
    rows, expected = transfers_message(sides.context, seeds, batch, chosen, 64 * 6)
    assert message == expected
    assert as_integers(t) == rows[: 64 * 3]
    q = sides.sender.extend(batch, 3, message)
    delta = delta_of(sides.difference)
    assert as_integers(q) == [rows[i] ^ delta * (chosen >> i & 1) for i in range(64 * 3)]


@given(st.integers(1, 9), st.binary(min_size=16, max_size=16))
@settings(max_examples=10)
def test_the_hash_is_ghash_and_linear(n_blocks, key):
    columns = np.frombuffer(os.urandom(2 * 16 * n_blocks), np.uint64).reshape(2, -1)
    both = np.concatenate([columns, columns[:1] ^ columns[1:]])
    hashes = linear_hashes(key, both)
    assert (hashes[2] == hashes[0] ^ hashes[1]).all()
    assert hashes[0].tobytes() == ghash(key, columns[0].tobytes())


def test_the_oracles_ghash_is_that_of_gmac():
    """And it is zero for zeros, as a linear map is."""
    key, text = os.urandom(16), os.urandom(48)
    tags = [AESGCM(key).encrypt(bytes(12), b"", some) for some in (text, bytes(48))]
    assert ghash(key, text) == bytes(a ^ b for a, b in zip(*tags, strict=True))
    assert ghash(key, bytes(48)) == bytes(16)


def test_the_last_block_masks_the_hash_of_all_choices():
    """R is one-to-one on the spare choices: their 128 unit vectors have independent hashes."""
    key = os.urandom(16)
    units = np.zeros((128, 4), np.uint64)
    for i in range(128):
        units[i, 2 + i // 64] = np.uint64(1) << np.uint64(i % 64)
    rows = [int.from_bytes(value.tobytes(), "little") for value in linear_hashes(key, units)]
    rank = 0
    while rows:
        pivot = rows.pop()
        if pivot:
            rank += 1
            lowest = pivot & -pivot
            rows = [row ^ pivot if row & lowest else row for row in rows]
    assert rank == 128


def test_the_message_does_not_depend_on_choices_but_under_fresh_spares():
    """With the same streams, messages of two choices differ by the choices, which a pad of the missing
    stream hides; the hash of the choices differs with the spare ones alone."""
    sides = transfer_sides()
    again = transfer_sides()
    choices = drawn_words(2)
    _, one = sides.receiver.extend(FIRST, choices, KeyStream())
    later = Batch(Step(1, 1, 1), 0)
    _, other = sides.receiver.extend(later, choices, KeyStream())
    _, third = again.receiver.extend(FIRST, choices, KeyStream())
    pieces = {text[at : at + 16] for text in (one, other, third) for at in range(0, len(text) - 47, 16)}
    assert len(pieces) == 3 * len(range(0, len(one) - 47, 16))


def test_batches_have_streams_of_their_own():
    """The same choices in another round, attempt, flight or batch: nothing of the rows is the same."""
    seen = set()
    sides = transfer_sides()
    steps = [(1, 0, 1, 0), (1, 0, 1, 1), (1, 0, 2, 0), (1, 1, 1, 0), (2, 0, 1, 0)]
    for round_number, attempt, flight, number in steps:
        batch = Batch(Step(round_number, attempt, flight), number)
        t, _ = sides.receiver.extend(batch, np.zeros(1, np.uint64), KeyStream())
        seen |= set(as_integers(t))
    assert len(seen) == 64 * len(steps)


@pytest.mark.parametrize("batch", [FIRST, Batch(Step(0, 9, 9), 9), Batch(Step(1, 0, 0), 9)])
def test_a_batch_that_is_not_after_the_last_is_refused_on_both_sides(batch):
    sides, choices = transfer_sides(), drawn_words(1)
    _, message = sides.receiver.extend(FIRST, choices, KeyStream())
    sides.sender.extend(FIRST, 1, message)
    with pytest.raises(ProtocolError, match="transfers are made"):
        sides.receiver.extend(batch, choices, KeyStream())
    with pytest.raises(ProtocolError, match="transfers are made"):
        sides.sender.extend(batch, 1, message)


@pytest.mark.parametrize("block", [0, 13, 31])
def test_inconsistent_corrections_pass_with_one_guess_of_sixteen(block):
    """One transfer's choice is turned in one block: the four bits of Δ must be known beforehand."""
    for offset in range(16):
        sides = transfer_sides()
        message = cheated(sides, FIRST, 2, {block: numbers_of(sides)[block] ^ offset})
        if offset == 0:
            sides.sender.extend(FIRST, 2, message)
            continue
        with pytest.raises(TransferCheckError, match=r"corrections.*consistent"):
            sides.sender.extend(FIRST, 2, message)
        assert sides.failures.count == 1
        with pytest.raises(ProtocolError, match="is over"):
            sides.sender.extend(Batch(Step(9, 0, 1), 0), 2, message)


def numbers_of(sides):
    """The bits of Δ of each block, as a number."""
    return (sides.difference.reshape(32, 4) @ (1 << np.arange(4))).tolist()


def cheated(sides, batch, n_words, guesses, turned=1):
    """A message in which the first choice is turned in some blocks, with values as they would be for guesses
    of the blocks' bits of Δ: the best that a receiver can do."""
    receiver = sides.receiver
    words = words_with_spares(n_words)
    chosen = drawn_words(words)
    columns, corrections = receiver.columns(batch, words)
    corrections ^= chosen
    for block in guesses:
        corrections[block, 0] ^= np.uint64(turned)
    key = receiver.key(batch, corrections.tobytes())
    wrong = np.zeros((1, words), np.uint64)
    wrong[0, 0] = turned
    hashed, error = linear_hashes(key, np.concatenate([chosen[None], columns])), linear_hashes(key, wrong)[0]
    values = hashed[1:].copy()
    for block, guess in guesses.items():
        for m in range(4):
            values[4 * block + m] ^= error * np.uint8(guess >> m & 1)
    message = corrections.tobytes() + hashed[0].tobytes() + receiver.values_digest(batch, values)
    return message


def test_a_right_guess_of_all_blocks_that_are_inconsistent_passes():
    """The check's soundness error is what its proof says, neither more nor less."""
    for wrong in (False, True):
        sides = transfer_sides()
        numbers = numbers_of(sides)
        guesses = {3: numbers[3], 4: numbers[4] ^ wrong, 30: numbers[30]}
        message = cheated(sides, FIRST, 2, guesses)
        if wrong:
            with pytest.raises(TransferCheckError):
                sides.sender.extend(FIRST, 2, message)
        else:
            sides.sender.extend(FIRST, 2, message)


@pytest.mark.parametrize("at", [0, 500, -48, -33, -32, -1])
def test_any_changed_byte_is_refused(at):
    sides = transfer_sides()
    _, message = sides.receiver.extend(FIRST, drawn_words(4), KeyStream())
    bad = bytearray(message)
    bad[at] ^= 0x10
    with pytest.raises(TransferCheckError, match="session is over"):
        sides.sender.extend(FIRST, 4, bytes(bad))


def test_a_message_of_another_batch_is_refused():
    sides = transfer_sides()
    _, message = sides.receiver.extend(FIRST, drawn_words(1), KeyStream())
    with pytest.raises(TransferCheckError):
        sides.sender.extend(Batch(Step(1, 1, 1), 0), 1, message)


@pytest.mark.parametrize("change", [-1, 1, -256])
def test_other_lengths_are_refused(change):
    sides = transfer_sides()
    _, message = sides.receiver.extend(FIRST, drawn_words(2), KeyStream())
    with pytest.raises(ProtocolError, match=r"bytes where 1072.*due"):
        sides.sender.extend(FIRST, 2, (message + b"\0")[: len(message) + change])


@pytest.mark.parametrize("n_words", [0, MAX_WORDS + 1])
def test_batches_of_a_size_out_of_range_are_refused(n_words):
    sides = transfer_sides()
    with pytest.raises(ProtocolError, match=r"choices.*batch"):
        sides.sender.extend(FIRST, n_words, b"")


def test_sides_are_not_copied():
    sides = transfer_sides()
    for side in (sides.sender, sides.receiver):
        with pytest.raises(TypeError, match="cannot be copied"):
            copy.deepcopy(side)
