"""Key-holder encryption draws exactly the textbook's n-th residues, uniformly: toy primes, chi-square.

With fixed streams the tests are deterministic; the bound is the statistic's 1 - 1e-6
quantile, which a correct sampler exceeds for one stream in a million.
"""

import numpy as np
import pytest
from scipy.stats import chi2

from gbdt_kernels.residues import decode
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyamaKey
from xgb_fed.ciphers.paillier import PaillierKey
from xgb_fed.ciphers.primes import FactoredPrime
from xgb_fed.ciphers.randomness import SecretStream

P = FactoredPrime(23, (2, 11))
Q = FactoredPrime(29, (2, 7))
DRAWS_PER_CELL = 60


def stream(number):
    return SecretStream(bytes([number] * 32))


def check_uniform(drawn, cells):
    """Only members of `cells`, every one about equally often."""
    values, counts = np.unique(np.array(drawn), return_counts=True)
    assert set(values.tolist()) <= set(cells)
    expected = len(drawn) / len(cells)
    full = np.concatenate([counts, np.zeros(len(cells) - len(counts))])
    statistic = ((full - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-6, len(cells) - 1)
    assert statistic > chi2.ppf(1e-6, len(cells) - 1)


@pytest.mark.parametrize("primes", [(P, Q), (23, 29), (P, 29)], ids=["factored", "imported", "mixed"])
def test_paillier_residues(primes):
    key = PaillierKey(*primes, allow_weak_key=True, random=stream(1))
    n = 23 * 29
    residues = sorted({pow(r, n, n * n) for r in range(1, n) if r % 23 and r % 29})
    assert len(residues) == 22 * 28
    drawn = decode(key.obfuscators.take(DRAWS_PER_CELL * len(residues)), key.public.modulus)
    check_uniform(drawn, residues)


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


def test_rerandomisers_are_uniform_too():
    """r^n for uniform r, as the other parties draw it; multiples of the toy primes are left out."""
    key = OkamotoUchiyamaKey(P, 29, allow_weak_key=True)
    public = key.public
    public._random = stream(3)
    n = public.n
    zeros = sorted({pow(r, n, n) for r in range(1, n) if r % 23 and r % 29})
    drawn = [
        z
        for z in decode(public.obfuscators.take(DRAWS_PER_CELL * len(zeros)), public.modulus)
        if z % 23 and z % 29
    ]
    check_uniform(drawn, zeros)


def test_exponents_are_independent():
    """No correlation between the parts modulo p and modulo q: the joint law is the product (616 cells above).

    Here the exponents themselves: rejection leaves no bias toward small numbers, as a modulo reduction would.
    """
    drawn = stream(4).below(22, 22 * 400)[:, 0]
    check_uniform(drawn.tolist(), list(range(22)))
    drawn = stream(5).below((1 << 64) + 1, 3)
    assert drawn.shape == (3, 2)
    nonzero = stream(6).below(3, 900, nonzero=True)[:, 0]
    check_uniform(nonzero.tolist(), [1, 2])
