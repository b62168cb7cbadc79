"""Secret parts that Paillier and Okamoto–Uchiyama share: arithmetic modulo p².

Both know a prime p with ``p² | N``, N the ciphertexts' modulus.  The units modulo
p² are a product of a group of order p (the numbers ``1 + m p``, where plaintexts
live) and one of order p − 1 (where randomness lives).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import gmpy2
import numpy as np

from gbdt_kernels.residues import FixedBase, Modulus, Reduction, multiply, power
from gbdt_kernels.residues.lanes import LIMB_BITS
from gbdt_kernels.residues.limbs import WORD_BITS, add_rows, from_rows, n_limbs, to_rows, widened
from xgb_fed.ciphers.base import KeepsSecrets
from xgb_fed.ciphers.primes import FactoredPrime
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.ciphers.residue_key import Residues


class PrimeSquare(KeepsSecrets):
    """The units modulo p², for a prime p whose square divides the ciphertexts' modulus, `whole`.

    Decrypted plaintexts are multiplied by `scale`, modulo p.
    """

    def __init__(self, p: int, whole: Modulus, scale: int, n_threads: int) -> None:
        self.p = p
        self.modulus = Modulus(p * p)
        self.n_threads = n_threads
        self._whole = whole
        self._minus_one = self.modulus.row(-1 % (p * p))
        self._scale = to_rows([scale % p], self.modulus.width)

    @cached_property
    def _reduction(self) -> Reduction:
        """From rows modulo N: c·R mod N is c·R modulo p², so the factor 1/R leaves c."""
        return Reduction(self._whole.width, self.modulus, pow(self._whole.radix, -1, self.modulus.value))

    def logarithms(self, ciphertexts: Residues) -> list[Any]:
        """``L(c^(p−1) mod p²)·scale mod p`` with ``L(y) = (y − 1) / p``, as gmpy2 integers.

        With ``y = 1 + p t``, the product ``(y − 1)·scale mod p²`` is ``p·(t·scale mod p)``: what is left is
        an exact division.
        """
        y = power(self._reduction(ciphertexts, self.n_threads), self.p - 1, self.modulus, self.n_threads)
        multiples = multiply(
            add_rows(y, np.repeat(self._minus_one, len(y), axis=0), self.modulus.words),
            self._scale,
            self.modulus,
            self.n_threads,
        )
        return [gmpy2.divexact(value, self.p) for value in from_rows(multiples)]


class TableRandomness(KeepsSecrets):
    """Uniform elements of the group of order p − 1 modulo p²: powers of a generator by a table.

    For a generator x modulo p, ``γ = x^p mod p²`` has order exactly p − 1: it divides p − 1 because
    ``x^(p(p−1)) = 1``, and modulo p γ is x again, whose order is p − 1.  So γ^a of a uniform in [0, p − 1)
    is uniform in the group; this needs the factors of p − 1, to know that x generates.
    """

    def __init__(self, prime: FactoredPrime, square: PrimeSquare) -> None:
        self._order = prime.value - 1
        self._n_threads = square.n_threads
        gamma = int(gmpy2.powmod(prime.generator(), prime.value, square.modulus.value))
        self._table = FixedBase(gamma, self._order.bit_length(), square.p, square.n_threads)

    def __call__(self, random: SecretStream, count: int) -> Residues:
        """Independent uniform elements."""
        return self._table.powers(random.below(self._order, count), self._n_threads)


class PowerRandomness(KeepsSecrets):
    """The same for a p known only to be prime: r^p of r uniform in [1, p).

    ``r^p mod p²`` depends on r mod p alone and is r again modulo p, so the map from [1, p) to the group of
    order p − 1 is one to one: exactly uniform, for a whole power instead of table look-ups.
    """

    def __init__(self, square: PrimeSquare) -> None:
        self._square = square

    def __call__(self, random: SecretStream, count: int) -> Residues:
        """Independent uniform elements."""
        square = self._square
        r = widened(random.below(square.p, count, nonzero=True), square.modulus.width)
        bases = multiply(r, square.modulus.radix_squared, square.modulus, square.n_threads)
        return power(bases, square.p, square.modulus, square.n_threads)


class Lift(KeepsSecrets):
    """Takes residues modulo one factor of a modulus to those modulo all of it, which are 0 modulo the other.

    The factors `part` and `other` of `whole` are coprime.  Rows modulo `part` come times `part_radix`: its
    Montgomery radix, or 1.  The sum of two lifted residues is the one that Chinese remainders give.
    """

    def __init__(self, part: int, other: int, part_radix: int, whole: Modulus, n_threads: int) -> None:
        self._whole, self._n_threads = whole, n_threads
        self._limbs = n_limbs(part.bit_length())
        # 1 modulo `part` and 0 modulo `other`.
        idempotent = other * pow(other, -1, part)
        factor = idempotent * whole.radix * pow(part_radix, -1, whole.value)
        self._factor = to_rows([(factor << (LIMB_BITS * self._limbs)) % whole.value], whole.width)

    def __call__(self, rows: Residues) -> Residues:
        """Lift rows modulo `part`."""
        return multiply(self._factor, rows, self._whole, self._n_threads, b_limbs=self._limbs)


def one_plus_multiples(plaintexts: Residues, factor: int, whole: Modulus, n_threads: int) -> Residues:
    """``1 + m·factor`` for every plaintext m, in time that grows with the longest one."""
    used = np.flatnonzero(plaintexts.any(axis=0))
    n_words = int(used[-1]) + 1 if len(used) else 1
    limbs = min(n_limbs(WORD_BITS * n_words), whole.n_limbs)
    row = to_rows([(factor * whole.radix << (LIMB_BITS * limbs)) % whole.value], whole.width)
    products = multiply(row, plaintexts[:, :n_words], whole, n_threads, b_limbs=limbs)
    return add_rows(products, np.repeat(whole.one, len(products), axis=0), whole.words)
