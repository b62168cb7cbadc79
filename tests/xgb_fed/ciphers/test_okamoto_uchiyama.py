"""Okamoto–Uchiyama's ciphertexts are uniform, and its keys have distant primes."""

import gmpy2
import pytest

from gbdt_kernels.residues import decode
from uniformity import DRAWS_PER_CELL, P, check_uniform, stream
from xgb_fed.ciphers import primes
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyamaKey
from xgb_fed.errors import WeakKeyError


@pytest.mark.parametrize("plaintext", [0, 3])
def test_okamoto_uchiyama_residues(plaintext):
    """Ciphertexts of one plaintext are uniform among all of its; nothing is left of 1 + m p modulo q."""
    key = OkamotoUchiyamaKey(P, 29, allow_weak_key=True, random=stream(2))
    n = 23 * 23 * 29
    zeros = {pow(r, n, n) for r in range(1, n) if r % 23 and r % 29}
    assert len(zeros) == 22 * 28
    cells = sorted((1 + plaintext * 23) * z % n for z in zeros)
    count = DRAWS_PER_CELL * len(cells)
    check_uniform(decode(key.encrypt([plaintext] * count), key.public.modulus), cells)


def test_okamoto_uchiyama_keys_have_distant_primes_too():
    prime = primes.random_factored_prime(primes.smallest_of(683, 3), 1 << 683)
    with pytest.raises(WeakKeyError, match="close to each"):
        OkamotoUchiyamaKey(prime, int(gmpy2.next_prime(prime.value)), allow_weak_key=True)
