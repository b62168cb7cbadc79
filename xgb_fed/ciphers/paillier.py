"""Paillier's cipher (EUROCRYPT 1999) with base n + 1, on arrays, encrypting with the secret key.

A ciphertext of m is ``(1 + m n)·ρ mod n²`` with ρ a uniform n-th residue.  The
textbook draws ρ = r^n; the holder of the key draws the same ρ much faster.

Security of that.  The units modulo n² split by Chinese remainders into those
modulo p² and q², and each of these into parts of order p and p − 1 (q and q − 1).
The n-th powers are exactly the pairs from the parts of order p − 1 and q − 1: n is
a multiple of p and of q, and prime to (p − 1)(q − 1).  So a uniform n-th residue is
a uniform, *independent* pair from the two, and that is what `TableRandomness` (or
`PowerRandomness`) draws: exponents uniform in [0, p − 1) and [0, q − 1), by rejection,
of elements of order exactly p − 1 and q − 1.  The ciphertexts have the very
distribution of the textbook's, so nothing is assumed beyond the decisional
composite residuosity assumption.  (Short exponents, or one exponent for both
primes, would be faster and need a new assumption each.)

Key lengths: 2048 bits are worth 112 bits of security, 3072 bits 128 (NIST SP
800-57); take 3072 for labels that must stay secret beyond 2030.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import gmpy2

from gbdt_kernels.residues.limbs import add_rows
from xgb_fed.ciphers import serialization as wire
from xgb_fed.ciphers.base import KeepsSecrets, Plaintexts
from xgb_fed.ciphers.obfuscators import ObfuscatorPool
from xgb_fed.ciphers.primes import ROUNDS, FactoredPrime, are_too_close, random_factored_prime, smallest_of
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.ciphers.residue_key import (
    MAX_KEY_LENGTH,
    MIN_KEY_LENGTH,
    POOL_CAPACITY,
    ResidueKey,
    Residues,
    number_rows,
    plaintext_rows,
    read_numbers,
)
from xgb_fed.ciphers.residue_secrets import (
    Lift,
    PowerRandomness,
    PrimeSquare,
    TableRandomness,
    one_plus_multiples,
)
from xgb_fed.errors import CipherError, CorruptDataError, InvalidArgumentError, WeakKeyError

MIN_WEAK_KEY_LENGTH = 128
"""Bits that key generation needs at least, to find primes at all."""


def check_key_length(bits: int, allow_weak_key: bool) -> None:
    """Raise `WeakKeyError` for a short key, unless that is allowed; `CipherError` for an absurd one."""
    if bits > MAX_KEY_LENGTH:
        raise CipherError(f"key_length={bits} is beyond {MAX_KEY_LENGTH}")
    if bits < MIN_KEY_LENGTH and not allow_weak_key:
        raise WeakKeyError(
            f"key_length={bits} is below {MIN_KEY_LENGTH}; allow_weak_key=True permits it, for tests"
        )


@dataclass(frozen=True)
class Paillier:
    """Paillier's cipher (EUROCRYPT 1999): additively homomorphic, and the default of vertical training.

    An object of this class is a recipe; `generate` makes a private key by it.

    Parameters
    ----------
    key_length : int, default=2048
        Number of bits of n, an even number of at least 2048.  Plaintexts are below n.
    allow_weak_key : bool, default=False
        Permit shorter keys, for tests.
    n_threads : int, default=0
        Maximum number of threads; 0 means all available processors.

    Raises
    ------
    WeakKeyError
        If the key is shorter than 2048 bits and weak keys are not allowed.
    CipherError
        If the key is longer than the library's arithmetic supports.
    InvalidArgumentError
        If no such key can be made.

    Examples
    --------
    >>> from xgb_fed import Paillier
    >>> key = Paillier(key_length=2048).generate()
    >>> ciphertexts = key.encrypt([20, 1])
    >>> total = key.public.add(ciphertexts[:1], ciphertexts[1:])
    >>> key.decrypt(total)
    [21]
    """

    key_length: int = 2048
    allow_weak_key: bool = False
    n_threads: int = 0

    def __post_init__(self) -> None:
        """Refuse weak keys before any work."""
        check_key_length(self.key_length, self.allow_weak_key)
        if self.key_length % 2 or self.key_length < MIN_WEAK_KEY_LENGTH:
            raise InvalidArgumentError(
                f"key_length={self.key_length} must be even and at least {MIN_WEAK_KEY_LENGTH}"
            )

    def generate(self) -> PaillierKey:
        """A fresh key, with both p − 1 and q − 1 factored."""
        bits = self.key_length // 2
        low, high = smallest_of(bits, 2), 1 << bits
        p = random_factored_prime(low, high)
        q = random_factored_prime(low, high)
        while are_too_close(p.value, q.value):
            q = random_factored_prime(low, high)
        return PaillierKey(p, q, allow_weak_key=self.allow_weak_key, n_threads=self.n_threads)


class PaillierKey(KeepsSecrets):
    """Private key: encrypts and decrypts; `public` is the other parties' part of it.

    `random` is the source of all its ciphertexts.  Primes without factors of p − 1, as other libraries have
    them, make encryption slower and no less exact.  `allow_weak_key` permits an n below 2048 bits, for tests;
    0 threads mean all available processors.
    """

    def __init__(
        self,
        p: FactoredPrime | int,
        q: FactoredPrime | int,
        *,
        allow_weak_key: bool = False,
        n_threads: int = 0,
        random: SecretStream | None = None,
    ) -> None:
        self._primes = (p, q)
        p, q = self._numbers
        check_key_length((p * q).bit_length(), allow_weak_key)
        check_primes(p, q)
        self.public = ResidueKey("paillier", p * q, n_threads)
        self._n_threads = n_threads
        self.random = SecretStream() if random is None else random
        whole = self.public.modulus
        # L((1 + n)^(p−1) mod p²) = L(1 − n) = −q modulo p, and the other way round.
        self._squares = (
            PrimeSquare(p, whole, pow(-q, -1, p), n_threads),
            PrimeSquare(q, whole, pow(-p, -1, q), n_threads),
        )
        self._p_inverse = gmpy2.invert(p, q)
        self._randomness = [
            TableRandomness(prime, square) if isinstance(prime, FactoredPrime) else PowerRandomness(square)
            for prime, square in zip(self._primes, self._squares, strict=True)
        ]
        self._lifts = (
            Lift(p * p, q * q, self._squares[0].modulus.radix, whole, n_threads),
            Lift(q * q, p * p, self._squares[1].modulus.radix, whole, n_threads),
        )
        self.obfuscators = ObfuscatorPool(self._encryptions_of_zero, POOL_CAPACITY)

    @property
    def _numbers(self) -> tuple[int, int]:
        p, q = (x.value if isinstance(x, FactoredPrime) else int(x) for x in self._primes)
        return p, q

    def _encryptions_of_zero(self, count: int) -> Residues:
        """Uniform n-th residues: independent uniform elements of orders dividing p − 1 and q − 1, joined."""
        of_p, of_q = (
            lift(draw(self.random, count)) for lift, draw in zip(self._lifts, self._randomness, strict=True)
        )
        return add_rows(of_p, of_q, self.public.modulus.words)

    def encrypt(self, plaintexts: Plaintexts) -> Residues:
        """Fresh ciphertexts of integers or rows of words in ``[0, n)``; else `PlaintextRangeError`."""
        public = self.public
        rows = plaintext_rows(plaintexts, public.plaintext_limit)
        carriers = one_plus_multiples(rows, public.n, public.modulus, self._n_threads)
        return public.add(carriers, self.obfuscators.take(len(rows)))

    def to_bytes_in_parts(self, n_rows: int, parts: Iterable[Residues]) -> tuple[int, Iterator[bytes]]:
        """Ciphertexts of this key for the wire, as the public key writes them."""
        return self.public.to_bytes_in_parts(n_rows, parts)

    def decrypt(self, ciphertexts: Residues) -> list[int]:
        """Plaintexts in ``[0, n)``: logarithms modulo p and q, joined."""
        p, q = self._numbers
        logarithms = [square.logarithms(ciphertexts) for square in self._squares]
        return [
            int(m_p + p * ((m_q - m_p) * self._p_inverse % q)) for m_p, m_q in zip(*logarithms, strict=True)
        ]

    def private_bytes(self) -> bytes:
        """The secret key, factors of p − 1 and q − 1 included where known, in clear: keep it accordingly."""
        numbers: list[int] = []
        for prime in self._primes:
            factors = prime.factors if isinstance(prime, FactoredPrime) else ()
            numbers += [prime.value if isinstance(prime, FactoredPrime) else prime, len(factors), *factors]
        rows = number_rows(numbers)
        return wire.pack(wire.PayloadKind.PRIVATE_KEY, "paillier", self.public.key_id, rows)

    @staticmethod
    def from_private_bytes(data: bytes, *, allow_weak_key: bool = False, n_threads: int = 0) -> PaillierKey:
        """The key that `private_bytes` wrote."""
        message, numbers = read_numbers(data, wire.PayloadKind.PRIVATE_KEY)
        primes: list[FactoredPrime | int] = []
        while numbers:
            value, count, factors = numbers[0], numbers[1:2], numbers[2:]
            if not count or count[0] > len(factors):
                raise CorruptDataError("not a Paillier key")
            numbers = factors[count[0] :]
            primes.append(FactoredPrime(value, tuple(factors[: count[0]])) if count[0] else value)
        if message.scheme != "paillier" or len(primes) != 2:
            raise CorruptDataError("not a Paillier key")
        key = PaillierKey(primes[0], primes[1], allow_weak_key=allow_weak_key, n_threads=n_threads)
        if key.public.key_id != message.key_id:
            raise CorruptDataError("the key id does not belong to the key")
        return key

    @staticmethod
    def from_phe(private_key: Any, *, allow_weak_key: bool = False, n_threads: int = 0) -> PaillierKey:
        """A ``phe.PaillierPrivateKey`` as a key here."""
        return PaillierKey(
            int(private_key.p), int(private_key.q), allow_weak_key=allow_weak_key, n_threads=n_threads
        )

    def to_phe(self) -> Any:
        """Convert to a ``phe.PaillierPrivateKey``; needs the extra ``phe``."""
        try:
            import phe
        except ImportError as error:
            raise ImportError("this needs the GPL library phe: pip install 'veilboost[phe]'") from error
        return phe.PaillierPrivateKey(phe.PaillierPublicKey(self.public.n), *self._numbers)


def check_primes(p: int, q: int) -> None:
    """Refuse a key that is not made of two distant odd primes with n prime to (p − 1)(q − 1).

    Nor are primes that are close to each other accepted (`are_too_close`).
    """
    if p == q or not all(x > 2 and gmpy2.is_prime(x, ROUNDS) for x in (p, q)):
        raise CipherError("a key needs two distinct odd primes")
    if 4 * min(p.bit_length(), q.bit_length()) < max(p.bit_length(), q.bit_length()) * 3 - 4:
        raise WeakKeyError("one prime is much shorter than the other")
    if are_too_close(p, q):
        raise WeakKeyError("the primes are so close to each other that a search finds them")
    if gmpy2.gcd(p * q, (p - 1) * (q - 1)) != 1:
        raise CipherError("one prime divides the other less one")
