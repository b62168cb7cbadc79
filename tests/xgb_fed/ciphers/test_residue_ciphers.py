"""What Paillier and Okamoto–Uchiyama have in common."""

import contextlib
import hashlib
import logging
import math
import pickle
import secrets
import struct

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.residues.limbs import to_rows
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama, OkamotoUchiyamaKey
from xgb_fed.ciphers.paillier import Paillier
from xgb_fed.ciphers.residue_key import ResidueKey
from xgb_fed.errors import (
    CipherError,
    CorruptDataError,
    InvalidCiphertextError,
    PlaintextRangeError,
    VersionError,
    WeakKeyError,
    WrongKeyError,
)
from xgb_fed.vertical.passive.histogram import build_histograms

SCHEMES = [Paillier, OkamotoUchiyama]
KEYS = {scheme: scheme(512, allow_weak_key=True).generate() for scheme in SCHEMES}


@pytest.fixture(params=SCHEMES, ids=lambda scheme: scheme.__name__)
def key(request):
    return KEYS[request.param]


def secrets_of(key):
    """The secret numbers, as decimal and hexadecimal text."""
    if isinstance(key, OkamotoUchiyamaKey):
        numbers = [key._p.value, key._q, *key._p.factors]
    else:
        numbers = [x for prime in key._primes for x in (prime.value, *prime.factors)]
    long = [x for x in numbers if x > 1 << 60]
    return [str(x) for x in long] + [f"{x:x}" for x in long]


@given(data=st.data())
@settings(max_examples=20, deadline=None)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_sums_differences_and_shifts(scheme, data):
    key = KEYS[scheme]
    bits = 60
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, (1 << bits) - 1), st.integers(0, (1 << bits) - 1)), min_size=1)
    )
    a, b = [max(pair) for pair in pairs], [min(pair) for pair in pairs]
    x, y = key.encrypt(a), key.encrypt(b)
    public = key.public
    assert key.decrypt(x) == a
    assert key.decrypt(public.add(x, y)) == [u + v for u, v in zip(a, b, strict=True)]
    assert key.decrypt(public.subtract(x, y)) == [u - v for u, v in zip(a, b, strict=True)]
    assert key.decrypt(public.scale(x, 9)) == [u << 9 for u in a]
    order = np.arange(len(a))[::-1]
    starts = np.array([0, len(a) // 2, len(a)])
    sums = key.decrypt(public.sum_by_index(x, order, starts))
    assert sums == [sum(a[::-1][: len(a) // 2]), sum(a[::-1][len(a) // 2 :])]


def test_extreme_plaintexts_and_both_input_forms(key):
    limit = key.public.plaintext_limit
    values = [0, 1, limit - 1, limit // 2, *(secrets.randbelow(limit) for _ in range(8))]
    assert key.decrypt(key.encrypt(values)) == values
    width = -(-limit.bit_length() // 64)
    assert key.decrypt(key.encrypt(to_rows(values, width))) == values
    assert key.decrypt(key.encrypt(to_rows(values, width + 2))) == values
    assert key.decrypt(key.encrypt(np.array([3, 4]))) == [3, 4]
    assert key.decrypt(key.encrypt([])) == []


def test_plaintexts_out_of_range(key):
    limit = key.public.plaintext_limit
    for values in ([limit], [-1], [0, 1 << 600]):
        with pytest.raises(PlaintextRangeError):
            key.encrypt(values)
    with pytest.raises(PlaintextRangeError):
        key.encrypt(to_rows([1 << 700], 20))
    with pytest.raises(TypeError):
        key.encrypt([0.5])


def test_histogram_and_compression(key):
    rng = np.random.default_rng(3)
    values = [int(v) for v in rng.integers(0, 1 << 20, 100)]
    codes = rng.integers(0, 4, (100, 2)).astype(np.uint8)
    rows, starts, offsets = np.arange(100), np.array([0, 60, 100]), np.array([0, 4, 8])
    public = key.public
    histogram = build_histograms(public, [key.encrypt(values)], codes, rows, starts, offsets).sums[0]
    flat = histogram.reshape(-1, histogram.shape[-1])
    sums = key.decrypt(flat)
    assert sum(sums[:4]) == sum(sums[4:8]) == sum(values[:60])
    packed = public.rerandomise(public.compress(flat, 30, 5))
    fields = [x >> (30 * (4 - k)) & ((1 << 30) - 1) for x in key.decrypt(packed) for k in range(5)]
    assert fields[:16] == sums
    assert not any(fields[16:])


def test_encryption_and_rerandomisation_are_fresh(key):
    same = key.encrypt([5] * 20)
    again = key.public.rerandomise(same)
    assert key.decrypt(again) == [5] * 20
    assert len({row.tobytes() for row in np.concatenate([same, again])}) == 40


def test_rerandomisers_are_encryptions_of_zero_in_the_same_group_as_the_key_holders(key):
    """Raised to the order of the group of randomness, both give 1."""
    n = key.public.n
    zeros = np.concatenate([key.public.obfuscators.take(5), key.obfuscators.take(5)])
    if isinstance(key, OkamotoUchiyamaKey):
        order = (key._p.value - 1) * (key._q - 1)
    else:
        order = np.prod([prime.value - 1 for prime in key._primes], dtype=object)
    modulus = key.public.modulus.value
    assert {int(gmpy2.powmod(z, order, modulus)) for z in key.public.to_integers(zeros)} == {1}
    assert order % n != 0


def test_pools_are_bounded_and_used_once(key):
    pool = key.obfuscators
    pool.take(len(pool))
    pool._capacity, capacity = 10, pool._capacity
    assert pool.prepare(6) == 6
    assert pool.prepare(100) == 10
    taken = np.concatenate([pool.take(7), pool.take(7), pool.take(1)])
    assert len(pool) == 0
    assert len({row.tobytes() for row in taken}) == 15
    pool._capacity = capacity
    pool.prepare(3)
    assert key.decrypt(key.encrypt([1, 2, 3, 4])) == [1, 2, 3, 4]


def test_serialised_ciphertexts(key):
    public = key.public
    rows = key.encrypt([1, 2, 3])
    data = public.to_bytes(rows)
    assert (public.from_bytes(data) == rows).all()
    assert public.from_bytes(public.to_bytes(rows[:0])).shape == (0, rows.shape[1])
    assert len(data) == 40 + rows.nbytes + 32
    with pytest.raises(WrongKeyError):
        type(key).generate if False else scheme_of(key)(
            512, allow_weak_key=True
        ).generate().public.from_bytes(data)
    with pytest.raises(CorruptDataError):
        public.from_bytes(public.public_bytes())


def scheme_of(key):
    return OkamotoUchiyama if isinstance(key, OkamotoUchiyamaKey) else Paillier


def test_ciphertexts_that_are_no_units_or_not_reduced(key):
    public = key.public
    good = key.encrypt([1])
    width = good.shape[1]
    prime = key._p.value if isinstance(key, OkamotoUchiyamaKey) else key._primes[0].value
    for bad in (public.modulus.value, (1 << (64 * width)) - 1, 0, prime):
        rows = np.concatenate([good, to_rows([bad], width)])
        with pytest.raises(InvalidCiphertextError):
            public.from_bytes(public.to_bytes(rows))
    for bad in (-1, public.modulus.value, 0, prime):
        with pytest.raises(InvalidCiphertextError):
            public.from_integers([bad])
    with pytest.raises(InvalidCiphertextError):
        public.subtract(good, to_rows([prime], width))


@given(data=st.data())
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_altered_bytes_are_refused(scheme, data):
    """Truncated, extended, one byte changed, or arbitrary: always one of our errors."""
    key = KEYS[scheme]
    original = FUZZED[scheme]
    how = data.draw(st.sampled_from(["cut", "extend", "change", "arbitrary"]))
    if how == "cut":
        altered = original[: data.draw(st.integers(0, len(original) - 1))]
    elif how == "extend":
        altered = original + data.draw(st.binary(min_size=1, max_size=50))
    elif how == "change":
        at = data.draw(st.integers(0, len(original) - 1))
        flip = data.draw(st.integers(1, 255))
        altered = original[:at] + bytes([original[at] ^ flip]) + original[at + 1 :]
    else:
        altered = data.draw(st.binary(max_size=300))
    for parse in (key.public.from_bytes, ResidueKey.from_public_bytes, type(key).from_private_bytes):
        with pytest.raises(CipherError):
            parse(altered)


FUZZED = {scheme: KEYS[scheme].public.to_bytes(KEYS[scheme].encrypt([7, 8])) for scheme in SCHEMES}


@given(data=st.data())
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_altered_bytes_under_a_fresh_digest(scheme, data):
    """The digest is no secret: whoever alters bytes can renew it.  The contents hold up, or are refused.

    Ciphertexts that are accepted are reduced units; keys that are accepted are whole.
    """
    key = KEYS[scheme]
    originals = [FUZZED[scheme], key.public.public_bytes(), key.private_bytes()]
    body = bytearray(data.draw(st.sampled_from(originals))[:-32])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([0, 0, 0, 1, 8, 64]))
    body = body[: len(body) - cut]
    altered = bytes(body) + hashlib.sha256(body).digest()
    with contextlib.suppress(CipherError):
        rows = key.public.from_bytes(altered)
        n = key.public.modulus.value
        assert all(c < n and gmpy2.gcd(c, n) == 1 for c in key.public.to_integers(rows))
    with contextlib.suppress(CipherError):
        assert ResidueKey.from_public_bytes(altered) == key.public
    with contextlib.suppress(CipherError):
        again = type(key).from_private_bytes(altered, allow_weak_key=True)
        assert again.decrypt(key.encrypt([5])) == [5]


def test_headers_that_promise_too_much(key):
    for n_rows, n_words in [(1 << 63, 0), (1 << 62, 4), (0, 1 << 63)]:
        header = struct.pack("<4sHBB16sQQ", b"VBCT", 1, 1, 0, key.public.key_id, n_rows, n_words)
        with pytest.raises(CipherError):
            key.public.from_bytes(header + hashlib.sha256(header).digest())


def test_other_versions(key):
    data = bytearray(FUZZED[scheme_of(key)])
    data[4] = 2
    with pytest.raises(VersionError, match="2"):
        key.public.from_bytes(bytes(data))


def test_keys_survive_their_bytes(key):
    rows = key.encrypt([11, 12])
    with pytest.raises(WeakKeyError):
        type(key).from_private_bytes(key.private_bytes())
    again = type(key).from_private_bytes(key.private_bytes(), allow_weak_key=True)
    assert again.decrypt(rows) == [11, 12]
    assert key.decrypt(again.encrypt([13])) == [13]
    assert ResidueKey.from_public_bytes(key.public.public_bytes()) == key.public


def test_secrets_stay_inside(key, caplog):
    caplog.set_level(logging.DEBUG)
    key.public.obfuscators.prepare(2)
    key.decrypt(key.encrypt([1]))
    shown = [repr(key), str(key), repr(key.public), repr(key.obfuscators), caplog.text]
    inner = [repr(x) for x in vars(key).values() if not isinstance(x, int | tuple)]
    public = [pickle.dumps(key.public), key.public.public_bytes(), key.public.to_bytes(key.encrypt([1]))]
    for secret in secrets_of(key):
        assert not any(secret in text for text in shown + inner)
        number = int(secret, 16) if not secret.isdigit() else int(secret)
        assert not any(number.to_bytes(-(-number.bit_length() // 8), "little") in data for data in public)
    copy = pickle.loads(public[0])
    assert copy == key.public
    assert len(copy.obfuscators) == 0
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weak_keys(scheme):
    with pytest.raises(WeakKeyError, match="allow_weak_key"):
        scheme(1024)
    with pytest.raises(ValueError, match="at least"):
        scheme(64, allow_weak_key=True)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_default_keys_are_2048_bits_and_decrypt(scheme):
    key = scheme().generate()
    assert key.public.n.bit_length() == 2048
    values = [0, key.public.plaintext_limit - 1, 12345]
    assert key.decrypt(key.public.rerandomise(key.encrypt(values))) == values
    if scheme is OkamotoUchiyama:
        assert key.public.plaintext_limit == 1 << 682


@pytest.mark.parametrize(
    ("factors", "is_accepted"),
    [
        ((65521, 2**521 - 1), False),  # the largest prime below 2^16
        ((65537, 2**521 - 1), True),  # the smallest above: larger factors are not looked for
        ((65537, 65537), False),
    ],
)
def test_public_keys_with_a_factor_below_65536_or_that_are_powers_are_refused(factors, is_accepted):
    data = ResidueKey("paillier", math.prod(factors)).public_bytes()
    if is_accepted:
        assert ResidueKey.from_public_bytes(data).key_id == ResidueKey("paillier", math.prod(factors)).key_id
    else:
        with pytest.raises(CipherError, match="not the public part of such a key"):
            ResidueKey.from_public_bytes(data)
