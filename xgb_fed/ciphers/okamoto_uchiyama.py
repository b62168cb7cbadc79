"""Okamoto and Uchiyama's cipher (EUROCRYPT 1998) on arrays, encrypting with the secret key.

The modulus is ``n = p² q``, half as long as Paillier's n² at the same key length,
so that every addition is several times cheaper; plaintexts are below p.  A
ciphertext of m is ``g^m·h^r mod n`` with h = g^n.

Encryption here.  Choose g as a number that is 1 + p modulo p²; what it is modulo q
does not matter.  As encryptions of zero take uniform n-th residues r^n, where the
original takes powers of one of them, h = g^n.  Modulo p², ``g^m = 1 + m p``, and r^n
is uniform in the group of order p − 1; modulo q it is an independent uniform unit
(as n is prime to p − 1 but for p, and to q − 1 but for q).  So a fresh ciphertext is
``(1 + m p)·γ^a`` modulo p², with γ of order exactly p − 1 and a uniform in [0, p − 1), and
an independent uniform unit modulo q: one power modulo p², no power at all modulo q.

Security.  Indistinguishability is the p-subgroup assumption in this form: a
uniform n-th residue modulo n looks like a uniform unit.  g and h are never
published: adding needs n alone, and `ResidueKey.rerandomise` takes such powers.
Decryption is a factoring oracle for an attacker who chooses ciphertexts and learns results (of ``1 + m p``
with m beyond p it gives m mod p, and the difference shares p with n), so this scheme is for semi-honest
parties, with a fresh key for every fit, decrypted sums checked, and one error for all failures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gbdt_kernels.residues.limbs import add_rows
from xgb_fed.ciphers import serialization as wire
from xgb_fed.ciphers.base import KeepsSecrets, Plaintexts
from xgb_fed.ciphers.obfuscators import ObfuscatorPool
from xgb_fed.ciphers.paillier import MIN_WEAK_KEY_LENGTH, check_key_length, check_primes
from xgb_fed.ciphers.primes import (
    FactoredPrime,
    are_too_close,
    random_factored_prime,
    random_prime,
    smallest_of,
)
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.ciphers.residue_key import (
    POOL_CAPACITY,
    ResidueKey,
    Residues,
    number_rows,
    plaintext_rows,
    read_numbers,
)
from xgb_fed.ciphers.residue_secrets import Lift, PrimeSquare, TableRandomness, one_plus_multiples
from xgb_fed.ciphers.short_ciphertexts import Shortening
from xgb_fed.errors import CorruptDataError, InvalidArgumentError


@dataclass(frozen=True)
class OkamotoUchiyama:
    """Okamoto and Uchiyama's cipher (EUROCRYPT 1998): additively homomorphic, faster than Paillier's.

    An object of this class is a recipe; `generate` makes a private key by it.

    Parameters
    ----------
    key_length : int, default=2048
        Number of bits of n, at least 2048.  Plaintexts have ``⌈key_length / 3⌉ − 1`` bits: 682 at 2048, 1,023
        at 3072.
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
    >>> from xgb_fed import OkamotoUchiyama
    >>> key = OkamotoUchiyama(key_length=2048).generate()
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
        if self.key_length < MIN_WEAK_KEY_LENGTH:
            raise InvalidArgumentError(f"key_length={self.key_length} must be at least {MIN_WEAK_KEY_LENGTH}")

    def generate(self) -> OkamotoUchiyamaKey:
        """A fresh key, with p − 1 factored."""
        p_bits = -(-self.key_length // 3)
        q_bits = self.key_length - 2 * p_bits
        p = random_factored_prime(smallest_of(p_bits, 3), 1 << p_bits)
        q = random_prime(smallest_of(q_bits, 3), 1 << q_bits)
        while are_too_close(p.value, q):
            q = random_prime(smallest_of(q_bits, 3), 1 << q_bits)
        return OkamotoUchiyamaKey(p, q, allow_weak_key=self.allow_weak_key, n_threads=self.n_threads)


class OkamotoUchiyamaKey(KeepsSecrets):
    """Private key: encrypts and decrypts; `public` is the other parties' part of it.

    `random` is the source of all its ciphertexts.  `allow_weak_key` permits an n below 2048 bits, for tests;
    0 threads mean all available processors.
    """

    def __init__(
        self,
        p: FactoredPrime,
        q: int,
        *,
        allow_weak_key: bool = False,
        n_threads: int = 0,
        random: SecretStream | None = None,
    ) -> None:
        n = p.value * p.value * q
        check_key_length(n.bit_length(), allow_weak_key)
        check_primes(p.value, q)
        if p.value < 1 << (-(-n.bit_length() // 3) - 1):
            raise CorruptDataError("p is shorter than a third of the key")
        self._p, self._q = p, q
        self.public = ResidueKey("okamoto-uchiyama", n, n_threads)
        self._n_threads = n_threads
        self.random = SecretStream() if random is None else random
        whole = self.public.modulus
        # (1 + p)^(p−1) = 1 − p modulo p², whose logarithm is −1.
        self._square = PrimeSquare(p.value, whole, -1, n_threads)
        self._draw = TableRandomness(p, self._square)
        self._lifts = (
            Lift(p.value**2, q, self._square.modulus.radix, whole, n_threads),
            Lift(q, p.value**2, 1, whole, n_threads),
        )
        self.shortening = Shortening(self._square.modulus, whole, n_threads)
        self.obfuscators = ObfuscatorPool(self._encryptions_of_zero, POOL_CAPACITY)

    def _encryptions_of_zero(self, count: int) -> Residues:
        """A uniform element of order dividing p − 1 modulo p², and a uniform unit modulo q, joined."""
        modulo_square = self._lifts[0](self._draw(self.random, count))
        modulo_q = self._lifts[1](self.random.below(self._q, count, nonzero=True))
        return add_rows(modulo_square, modulo_q, self.public.modulus.words)

    def encrypt(self, plaintexts: Plaintexts) -> Residues:
        """Fresh ciphertexts of integers below ``public.plaintext_limit``, given as integers or rows of words.

        The carrier is ``1 + m p`` modulo n: right modulo p², and modulo q a unit (except with probability
        1/q) that the obfuscator's uniform unit hides.  Raises `PlaintextRangeError` if an integer is out of
        range.
        """
        public = self.public
        rows = plaintext_rows(plaintexts, public.plaintext_limit)
        carriers = one_plus_multiples(rows, self._p.value, public.modulus, self._n_threads)
        return public.add(carriers, self.obfuscators.take(len(rows)))

    def to_bytes_in_parts(self, n_rows: int, parts: Iterable[Residues]) -> tuple[int, Iterator[bytes]]:
        """Fresh ciphertexts of this key for the wire, one at least, in short form where that is shorter."""
        public, short = self.public, self.shortening
        if not short.words:
            return public.to_bytes_in_parts(n_rows, parts)
        shape = (n_rows + 1, short.words)
        rows = short.message(parts, self.random)
        pieces = wire.pack_parts(
            wire.PayloadKind.SHORT_CIPHERTEXTS, public.scheme, public.key_id, shape, rows
        )
        return wire.packed_bytes(*shape), pieces

    def decrypt(self, ciphertexts: Residues) -> list[int]:
        """Plaintexts in ``[0, p)``; a caller who cannot trust the ciphertexts' makers checks the range."""
        return [int(m) for m in self._square.logarithms(ciphertexts)]

    def private_bytes(self) -> bytes:
        """The secret key in clear: keep it accordingly."""
        rows = number_rows([self._q, self._p.value, *self._p.factors])
        return wire.pack(wire.PayloadKind.PRIVATE_KEY, "okamoto-uchiyama", self.public.key_id, rows)

    @staticmethod
    def from_private_bytes(
        data: bytes, *, allow_weak_key: bool = False, n_threads: int = 0
    ) -> OkamotoUchiyamaKey:
        """The key that `private_bytes` wrote."""
        message, numbers = read_numbers(data, wire.PayloadKind.PRIVATE_KEY)
        if message.scheme != "okamoto-uchiyama" or len(numbers) < 3:
            raise CorruptDataError("not an Okamoto–Uchiyama key")
        q, p, *factors = numbers
        prime = FactoredPrime(p, tuple(factors))
        key = OkamotoUchiyamaKey(prime, q, allow_weak_key=allow_weak_key, n_threads=n_threads)
        if key.public.key_id != message.key_id:
            raise CorruptDataError("the key id does not belong to the key")
        return key
