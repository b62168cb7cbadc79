"""Serialised keys and ciphertexts are read back, or refused if they were altered."""

import contextlib
import hashlib
import struct

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_keys import KEYS, SCHEMES, integers_of
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama, OkamotoUchiyamaKey
from xgb_fed.ciphers.paillier import Paillier
from xgb_fed.ciphers.residue_key import ResidueKey
from xgb_fed.ciphers.serialization import PayloadKind, pack, unpack
from xgb_fed.errors import CipherError, CorruptDataError, VersionError, WrongKeyError


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
        assert all(c < n and gmpy2.gcd(c, n) == 1 for c in integers_of(key.public, rows))
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


def test_rows_have_1_to_65536_words():
    def data(n_words):
        return pack(PayloadKind.CIPHERTEXTS, "plain", bytes(16), np.ones((1, n_words), np.uint64))

    for n_words in (1, 1 << 16):
        assert unpack(data(n_words)).rows.shape == (1, n_words)
    for n_words in (0, (1 << 16) + 1):
        with pytest.raises(CorruptDataError, match="bytes of payload"):
            unpack(data(n_words))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_fresh_key_has_the_length_and_threads_that_were_asked_for(scheme):
    key = scheme(384, allow_weak_key=True, n_threads=3).generate()
    assert key.public.n.bit_length() == 384
    assert key.public.n_threads == 3
