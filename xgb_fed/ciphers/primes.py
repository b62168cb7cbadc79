"""Secret primes from the operating system's CSPRNG."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from itertools import count

import gmpy2

from xgb_fed.ciphers.base import KeepsSecrets
from xgb_fed.errors import CipherError

ROUNDS = 40
"""Primality rounds after Baillie–PSW; a random composite passes each with probability far below 1/4."""

_SHORT_FACTOR_BITS = 128
_SHORT_DISTANCE_BITS = 100


def smallest_of(bits: int, copies: int) -> int:
    """Smallest integer whose `copies`-th power still has ``copies·bits`` bits: ``⌈2^(bits − 1/copies)⌉``."""
    root, exact = gmpy2.iroot(gmpy2.mpz(1) << (copies * bits - 1), copies)
    return int(root) + (not exact)


def are_too_close(p: int, q: int) -> bool:
    """Whether ``|p − q| ≤ 2^(bits − 100)``, which FIPS 186-5 (appendix A.1.1) does not allow.

    Such primes are found by a search upwards from the square root of n (Fermat), or the cube root of
    ``p² q``.  Two random primes are so close with a probability of about 2^-99.
    """
    bits = max(p.bit_length(), q.bit_length())
    return abs(p - q) <= 1 << max(0, bits - _SHORT_DISTANCE_BITS)


def random_prime(low: int, high: int) -> int:
    """A prime drawn uniformly from those in ``[low, high)``, which must hold one."""
    while True:
        candidate = low + secrets.randbelow(high - low)
        if gmpy2.is_prime(candidate | 1, ROUNDS) and low <= candidate | 1 < high:
            return candidate | 1


@dataclass(frozen=True, repr=False)
class FactoredPrime(KeepsSecrets):
    """An odd prime p together with every prime factor of p − 1."""

    value: int
    factors: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check the claim: wrong factors would give a generator that generates less."""
        rest = self.value - 1
        for f in self.factors:
            if not gmpy2.is_prime(f, ROUNDS):
                raise CipherError("a factor of p - 1 is not prime")
            rest, times = gmpy2.remove(rest, f)
            if times == 0:
                raise CipherError("a factor does not divide p - 1")
        if rest != 1 or not gmpy2.is_prime(self.value, ROUNDS):
            raise CipherError("the factors of p - 1 are wrong, or p is not prime")

    def __repr__(self) -> str:
        """Size only."""
        return f"FactoredPrime({self.value.bit_length()} bits)"

    def generator(self) -> int:
        """The least generator modulo p: uniform powers of any are uniform units.

        x generates the p − 1 units if and only if ``x^((p−1)/f) != 1`` for every prime factor f of p − 1.
        """
        p = self.value
        return next(x for x in count(2) if all(gmpy2.powmod(x, (p - 1) // f, p) != 1 for f in self.factors))


def random_factored_prime(low: int, high: int) -> FactoredPrime:
    """A prime p in ``[low, high)`` with ``p − 1 = 2·a·b`` for random primes a (long) and b.

    Constructing p − 1 from its factors is the only practical way to know them.  The long factor a, all but
    128 bits of p (half of a short p), keeps p − 1 away from factoring methods for smooth numbers; a alone
    has more entropy than factoring n has cost.
    """
    short = min(_SHORT_FACTOR_BITS, (high.bit_length() - 1) // 2)
    long_bits = high.bit_length() - 1 - short
    while True:
        a = random_prime(1 << (long_bits - 1), 1 << long_bits)
        first, last = -(-(low - 1) // (2 * a)), (high - 2) // (2 * a)
        for _ in range(40 * high.bit_length()):
            b = random_prime(max(first, 2), last + 1)
            p = 2 * a * b + 1
            if low <= p < high and gmpy2.is_prime(p, ROUNDS):
                return FactoredPrime(p, tuple({2, a, b}))
