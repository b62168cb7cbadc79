"""Short ciphertexts: what they decrypt to, which numbers are sent, and what is refused."""

import hashlib
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import kstest

from gbdt_kernels.residues.limbs import from_rows, to_rows
from secret_numbers import secret_primes
from small_keys import key_of
from uniformity import stream
from xgb_fed import OkamotoUchiyama, Paillier
from xgb_fed.ciphers import serialization as wire
from xgb_fed.ciphers.short_ciphertexts import SEED_WORDS, SPARE_BITS, MessageNumbers, lengthened, short_words
from xgb_fed.errors import CorruptDataError, InvalidCiphertextError, WrongKeyError

BITS = [330, 512, 1024]
PINNED = "de29618ef4b04ae64b37c5cb667e056a39c49173cf9abc4a3f394d5f3029cc85"
VALUES = [0, 1, 5, (1 << 109) - 1, *range(40)]


def sent(key, values=VALUES, cuts=(0, 1, 7, 44)):
    """A message of ciphertexts in parts, and the rows of its payload."""
    parts = [key.encrypt(values[a:b]) for a, b in pairwise(cuts)]
    n_bytes, pieces = key.to_bytes_in_parts(len(values), parts)
    pieces = list(pieces)
    assert len(pieces) == len(parts) + 2
    data = b"".join(pieces)
    assert len(data) == n_bytes
    return parts, data, wire.unpack(data).rows


@pytest.fixture(params=BITS)
def key(request):
    return key_of(OkamotoUchiyama, request.param)


def test_they_decrypt_to_the_same_and_add_up(key):
    _, data, rows = sent(key)
    read = key.public.from_bytes(data)
    assert read.shape == (len(VALUES), key.public.modulus.width)
    assert key.decrypt(read) == VALUES
    total = key.public.sum_by_index(read, np.arange(len(read)), np.array([0, len(read)]))
    assert key.decrypt(total) == [sum(VALUES)]
    assert rows.shape == (len(VALUES) + 1, short_words(key.public.n.bit_length()))
    assert len(data) < len(key.public.to_bytes(read))


def test_what_is_sent_is_the_distance_from_public_numbers_by_a_uniform_number_of_steps(key):
    """Of the proof: e = ((c − T) mod p²) + p²·j with 0 <= j < J, and nothing else of c."""
    parts, _, rows = sent(key)
    n, square = key.public.n, secret_primes(key)[0][0] ** 2
    numbers = from_rows(MessageNumbers(rows[0, :SEED_WORDS], key.public.modulus).draw(len(VALUES)))
    steps = (1 << 64 * rows.shape[1]) // square
    assert steps >> SPARE_BITS
    of_c = [c for part in parts for c in from_rows(part)]
    for c, number, e in zip(of_c, numbers, from_rows(rows[1:]), strict=True):
        assert number < 1 << (n.bit_length() - 1) <= n
        assert e % square == (c - number) % square
        assert e // square < steps
    assert from_rows(lengthened(rows, key.public.modulus)) == [
        (number + e) % n for number, e in zip(numbers, from_rows(rows[1:]), strict=True)
    ]


def test_distances_and_ciphertexts_are_uniform():
    """A thousand encryptions of one number, by a pinned stream."""
    key = key_of(OkamotoUchiyama, 330)
    message = key.shortening.message([key.encrypt([3] * 1000)], stream(9))
    rows = next(message)
    whole = lengthened(rows, key.public.modulus)
    # The ciphertexts of this run are random, the distances nearly so: the level makes a failure as good as
    # impossible, and a constant or a short range fails by far.
    assert kstest([e / 2 ** (64 * rows.shape[1]) for e in from_rows(rows[1:])], "uniform").pvalue > 1e-12
    top = 1 << (key.public.n.bit_length() - 1)
    assert kstest([m / top for m in from_rows(whole)], "uniform").pvalue > 1e-12
    _, (prime, _) = secret_primes(key)
    assert kstest([m % prime / prime for m in from_rows(whole)], "uniform").pvalue > 1e-12


def test_seeds_and_numbers_are_never_used_twice(key):
    """Two ciphertexts at the same public number would not be those of the proof."""
    first, second = sent(key)[2], sent(key)[2]
    assert first[0].tobytes() != second[0].tobytes()
    numbers = MessageNumbers(first[0, :SEED_WORDS], key.public.modulus)
    drawn = np.concatenate([numbers.draw(3), numbers.draw(5)])
    assert len({row.tobytes() for row in drawn}) == 8
    again = MessageNumbers(first[0, :SEED_WORDS], key.public.modulus).draw(8)
    assert again.tobytes() == drawn.tobytes()


def test_a_ciphertext_that_is_sent_twice_gives_the_key_away():
    """The reason for which messages are of fresh ciphertexts only, and never in both forms."""
    key = key_of(OkamotoUchiyama, 512)
    part = key.encrypt([5])
    first, second = (
        from_rows(key.public.from_bytes(b"".join(key.to_bytes_in_parts(1, [part])[1])))[0] for _ in range(2)
    )
    (whole,) = from_rows(part)
    for one, other in ((first, second), (first, whole)):
        assert math.gcd(one - other, key.public.n) == secret_primes(key)[0][0] ** 2


def test_public_numbers_are_pinned():
    """They are part of the protocol: both sides must make the same ones, in every release."""
    modulus = key_of(OkamotoUchiyama, 512).public.modulus
    drawn = MessageNumbers(np.arange(SEED_WORDS, dtype=np.uint64), modulus).draw(3)
    assert (drawn[:, -1] >> np.uint64(63) == 0).all()
    assert hashlib.sha256(drawn.astype("<u8").tobytes()).hexdigest() == PINNED


@pytest.mark.parametrize("bits", [128, 200, 256])
def test_keys_for_which_it_saves_nothing_send_whole_ciphertexts(bits):
    key = key_of(OkamotoUchiyama, bits)
    parts = [key.encrypt([1, 2]), key.encrypt([3])]
    _, pieces = key.to_bytes_in_parts(3, parts)
    assert b"".join(pieces) == key.public.to_bytes(np.concatenate(parts))
    assert short_words(bits) == 0
    with pytest.raises(CorruptDataError):
        lengthened(np.zeros((2, 4), dtype=np.uint64), key.public.modulus)


def test_paillier_sends_whole_ciphertexts():
    key = key_of(Paillier, 512)
    parts = [key.encrypt([1, 2]), key.encrypt([3])]
    _, pieces = key.to_bytes_in_parts(3, parts)
    assert b"".join(pieces) == key.public.to_bytes(np.concatenate(parts))


def test_a_key_of_2048_bits_saves_more_than_a_quarter():
    assert short_words(2048) == 23
    assert short_words(3072) == 34
    for bits in range(2048, 16_385):
        assert 0 < 64 * short_words(bits) < 0.75 * bits


def forged(key, rows, scheme="okamoto-uchiyama"):
    return wire.pack(wire.PayloadKind.SHORT_CIPHERTEXTS, scheme, key.public.key_id, rows)


def test_what_is_not_such_a_message_is_refused(key):
    _, _, rows = sent(key)
    public = key.public
    padded = rows.copy()
    padded[0, -1] = 1
    for bad in (rows[:0], rows[:, :-1], np.pad(rows, ((0, 0), (0, 1))), padded):
        with pytest.raises(CorruptDataError):
            public.from_bytes(forged(key, bad))
    assert len(public.from_bytes(forged(key, rows[:1]))) == 0
    other = key_of(Paillier, 512)
    with pytest.raises(CorruptDataError):
        other.public.from_bytes(forged(other, np.zeros((2, 16), dtype=np.uint64), "paillier"))
    with pytest.raises(WrongKeyError):
        public.from_bytes(forged(other, rows))


def test_a_number_that_is_no_unit_is_refused(key):
    """The sender can reach any number near a public one, a multiple of p among them."""
    _, _, rows = sent(key)
    [number] = from_rows(MessageNumbers(rows[0, :SEED_WORDS], key.public.modulus).draw(1))
    e = -number % secret_primes(key)[0][0]
    bad = np.concatenate([rows[:1], to_rows([e], rows.shape[1])])
    with pytest.raises(InvalidCiphertextError):
        key.public.from_bytes(forged(key, bad))
