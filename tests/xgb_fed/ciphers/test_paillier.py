"""Key-holder encryption draws exactly the textbook's n-th residues, uniformly: toy primes, chi-square.

With fixed streams the tests are deterministic; the bound is the statistic's 1 - 1e-6
quantile, which a correct sampler exceeds for one stream in a million.
"""

import json
from pathlib import Path

import pytest

from gbdt_kernels.residues import decode
from small_keys import integers_of
from uniformity import DRAWS_PER_CELL, P, check_uniform, stream
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyamaKey
from xgb_fed.ciphers.paillier import Paillier, PaillierKey, check_primes
from xgb_fed.ciphers.primes import FactoredPrime
from xgb_fed.ciphers.residue_key import ResidueKey
from xgb_fed.errors import CipherError, WeakKeyError

VECTORS = json.loads((Path(__file__).parent / "data" / "vectors.json").read_text())
PLAINTEXTS = VECTORS["plaintexts"]

Q = FactoredPrime(29, (2, 7))


@pytest.mark.parametrize("primes", [(P, Q), (23, 29), (P, 29)], ids=["factored", "imported", "mixed"])
def test_paillier_residues(primes):
    key = PaillierKey(*primes, allow_weak_key=True, random=stream(1))
    n = 23 * 29
    residues = sorted({pow(r, n, n * n) for r in range(1, n) if r % 23 and r % 29})
    assert len(residues) == 22 * 28
    drawn = decode(key.obfuscators.take(DRAWS_PER_CELL * len(residues)), key.public.modulus)
    check_uniform(drawn, residues)


def test_stored_phe_ciphertexts():
    """Needs no phe: numbers it made decrypt here, also after arithmetic here."""
    stored = VECTORS["phe"]
    key = PaillierKey(stored["p"], stored["q"], allow_weak_key=True)
    rows = key.public.from_integers(stored["ciphertexts"])
    assert integers_of(key.public, rows) == stored["ciphertexts"]
    assert key.decrypt(rows) == PLAINTEXTS
    assert key.decrypt(key.public.add(rows, key.encrypt(PLAINTEXTS))) == [2 * m for m in PLAINTEXTS]


@pytest.mark.parametrize(
    ("scheme", "key_type"), [("paillier", PaillierKey), ("okamoto-uchiyama", OkamotoUchiyamaKey)]
)
def test_stored_bytes_of_this_format(scheme, key_type):
    stored = {name: bytes.fromhex(text) for name, text in VECTORS[scheme].items()}
    key = key_type.from_private_bytes(stored["private"], allow_weak_key=True)
    assert key.public.public_bytes() == stored["public"]
    public = ResidueKey.from_public_bytes(stored["public"])
    rows = public.from_bytes(stored["ciphertexts"])
    assert key.decrypt(rows) == PLAINTEXTS
    assert public.to_bytes(rows) == stored["ciphertexts"]
    assert key.private_bytes() == stored["private"]


def test_keys_and_ciphertexts_both_ways():
    phe = pytest.importorskip("phe")
    key = Paillier(512, allow_weak_key=True).generate()
    theirs = key.to_phe()
    rows = key.encrypt(PLAINTEXTS)
    assert [theirs.raw_decrypt(c) for c in integers_of(key.public, rows)] == PLAINTEXTS
    made = [theirs.public_key.raw_encrypt(m) for m in PLAINTEXTS]
    assert key.decrypt(key.public.from_integers(made)) == PLAINTEXTS
    _, generated = phe.generate_paillier_keypair(n_length=512)
    with pytest.raises(WeakKeyError):
        PaillierKey.from_phe(generated)
    imported = PaillierKey.from_phe(generated, allow_weak_key=True)
    rows = imported.public.rerandomise(imported.encrypt(PLAINTEXTS))
    assert [generated.raw_decrypt(c) for c in integers_of(imported.public, rows)] == PLAINTEXTS
    again = PaillierKey.from_private_bytes(imported.private_bytes(), allow_weak_key=True)
    assert again.decrypt(rows) == PLAINTEXTS
    assert again.to_phe() == generated


@pytest.mark.parametrize(("p", "q"), [(3, 7), (7, 3)])
def test_primes_of_which_one_divides_the_other_less_one_are_refused(p, q):
    with pytest.raises(CipherError, match=r"divides.*less"):
        check_primes(p, q)


def test_primes_of_very_different_lengths_are_refused():
    """The shorter one has three quarters of the longer one's bits, less one."""
    long, short = (1 << 14) + 27, (1 << 10) + 7
    check_primes(long, short)
    for p, q in ((long, 1021), (1021, long)):
        with pytest.raises(WeakKeyError, match="much shorter"):
            check_primes(p, q)
