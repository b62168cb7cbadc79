"""Draws of one side: repeated by an auditor, and by no attempt."""

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gbdt_parties.errors import PartyArgumentError
from gbdt_parties.two_party.draws import Draws
from two_party_oracle import prefixed

SEED, NONCE = b"s" * 32, b"n" * 32


def test_seed_and_nonce_repeat_every_byte():
    first = Draws(SEED)
    octets = first.octets(100, b"purpose")
    assert Draws(SEED, first.nonce).octets(100, b"purpose") == octets
    assert Draws(SEED).octets(100, b"purpose") != octets
    assert Draws(b"t" * 32, first.nonce).octets(100, b"purpose") != octets


def test_draws_are_chacha_under_hkdf():
    info = prefixed(b"veilboost two-party draws 1", b"some", b"purpose")
    key = HKDF(hashes.SHA256(), 32, salt=NONCE, info=info).derive(SEED)
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor().update(bytes(40))
    assert Draws(SEED, NONCE).octets(37, b"some", b"purpose") == stream[:37]


def test_a_purpose_is_drawn_for_once():
    draws = Draws(SEED, NONCE)
    assert draws.octets(8, b"ab", b"c") != draws.octets(8, b"a", b"bc")
    with pytest.raises(RuntimeError, match="made before"):
        draws.stream(b"ab", b"c")


@pytest.mark.parametrize(("seed", "nonce"), [(b"short", NONCE), (SEED, b"short")])
def test_lengths_are_checked(seed, nonce):
    with pytest.raises(PartyArgumentError, match="must have 32"):
        Draws(seed, nonce)


def test_as_many_octets_as_asked_for():
    draws = Draws(SEED, NONCE)
    for count in (0, 1, 7, 8, 9, 63, 64, 65, 72, 1000):
        assert len(draws.octets(count, b"%d" % count)) == count
