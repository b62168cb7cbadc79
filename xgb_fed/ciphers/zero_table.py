"""Encryptions of zero as products of table rows, statistically as uniform as r^n and several times faster.

The bases z_1, …, z_N of a table are independent powers r^n, uniform in the group H of all of them, which
stay with their maker.  An encryption of zero is ``Π z_i^d_i`` of fresh digits d_i, uniform in [0, 2^w).

**Distance from uniform.**  By the leftover hash lemma, which asks for nothing but the bases' randomness,
bases and product together are within ``½·√(|H|·C − 1)`` of bases and an independent uniform element of H,
where C is the chance that two products of the same bases are equal: ``Π z_i^δ_i = 1`` for the differences δ_i
of two draws.  If all δ_i are 0, which has the chance 2^(−w N), it is.  Otherwise let g be their greatest
common divisor, below 2^w: the product is uniform in the group of g-th powers of H, whose index is at most
g^k if k cyclic groups make up H.  A fixed g divides one δ_i with a chance of at most ⌈2^w / g⌉ / 2^w, so

    |H|·C − 1  ≤  |H|·2^(−w N)  +  Σ g^k·(⌈2^w / g⌉ / 2^w)^N  over 1 < g < 2^w.

H has fewer than n elements (modulo a power p^2a, say, the power n leaves p^(a−1)·(p − 1) units at most),
and one cyclic group for each prime factor of n.  `ResidueKey` refuses factors below 2^16, so k is at most a
16th of n's bits, and with `n_bases` the distance is below 2^-64: for every key that a party accepts, and not
for honest ones only.  M encryptions of zero from one table are within M·2^-64 of independent uniform ones.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues import DigitProducts, Modulus
from gbdt_kernels.residues.limbs import n_words
from xgb_fed.ciphers.base import KeepsSecrets
from xgb_fed.ciphers.randomness import SecretStream

Residues = NDArray[np.uint64]

DIGIT_BITS = 8
"""w: a table row for each of 256 powers of a base."""

SPARE_BITS = 130
"""Bits of all digits beyond those of n: |H|·2^(−w N) is at most 2^-130."""

MIN_BASES = 256
"""Bases at least, so that short keys keep the second term small, too."""

MAX_TABLE_BYTES = 128 << 20
"""Bytes of a table at most; longer keys have none."""


def n_bases(key_bits: int) -> int:
    """N: 273 for keys of 2048 bits, 401 for 3072."""
    return max(MIN_BASES, -(-(key_bits + SPARE_BITS) // DIGIT_BITS))


def table_bytes(key_bits: int, ciphertext_bytes: int) -> int:
    """Memory of a table, or 0 if it would be more than `MAX_TABLE_BYTES`: the key then has none."""
    size = (n_bases(key_bits) << DIGIT_BITS) * ciphertext_bytes
    return size if size <= MAX_TABLE_BYTES else 0


class ZeroTable(KeepsSecrets):
    """A table of encryptions of zero that is made base by base; threads may share it.

    The key's n has `key_bits` bits, and `modulus` is that of the ciphertexts.
    """

    def __init__(self, key_bits: int, modulus: Modulus, n_threads: int) -> None:
        self.n_bases = n_bases(key_bits)
        self._modulus, self._n_threads = modulus, n_threads
        self._bases: Residues = np.empty((0, modulus.width), dtype=np.uint64)
        self.products: DigitProducts | None = None
        self._lock = Lock()

    def __repr__(self) -> str:
        """Sizes only."""
        return f"ZeroTable({self.n_bases - self.n_missing} of {self.n_bases} bases)"

    @property
    def n_missing(self) -> int:
        """Bases that are still to be added."""
        return 0 if self.products is not None else self.n_bases - len(self._bases)

    def add(self, powers: Residues) -> None:
        """Keep uniform powers r^n, used nowhere else, as further bases; the last ones complete the table."""
        with self._lock:
            if self.products is not None:
                return
            self._bases = np.concatenate([self._bases, powers])[: self.n_bases]
            if len(self._bases) == self.n_bases:
                self.products = DigitProducts(self._bases, DIGIT_BITS, self._modulus, self._n_threads)
                self._bases = self._bases[:0]

    def draw(self, random: SecretStream, count: int) -> Residues | None:
        """Fresh encryptions of zero, or None while bases are missing."""
        products = self.products
        if products is None:
            return None
        return products(random.words(count, n_words(DIGIT_BITS * self.n_bases)))
