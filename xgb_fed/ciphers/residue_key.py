"""Ciphertexts that are residues: the operations that need only the modulus.

Paillier ciphertexts are units modulo n², Okamoto–Uchiyama ones units modulo
n = p²q.  In both, products add plaintexts, inverses negate them, and r^n of a
uniform unit r is a uniform encryption of zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues import Modulus, are_units, chain_products, encode, invert, multiply, power, shift
from gbdt_kernels.residues.limbs import from_rows, rows_below, to_rows
from xgb_fed.ciphers import serialization as wire
from xgb_fed.ciphers.base import compressed
from xgb_fed.ciphers.obfuscators import AT_ONCE, ObfuscatorPool
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.ciphers.short_ciphertexts import lengthened
from xgb_fed.ciphers.zero_table import ZeroTable, table_bytes
from xgb_fed.errors import CorruptDataError, InvalidCiphertextError, PlaintextRangeError, WrongKeyError

Residues = NDArray[np.uint64]
POOL_CAPACITY = 65_536
"""Obfuscators kept ahead at most: 32 MB of Paillier-2048 ones."""

MIN_KEY_LENGTH = 2048
"""Bits of n below which a key is weak: 112-bit security (NIST SP 800-57 part 1, table 2)."""

MAX_KEY_LENGTH = 16_384
"""Bits of n at most."""

MAX_KEY_BYTES = wire.packed_bytes(8, MAX_KEY_LENGTH // 64)
"""Length of a key at most: 8 numbers as long as the longest n; a key has fewer or shorter ones."""


class ResidueKey:
    """The public part of a scheme whose ciphertexts are residues, by the public number n; holds no secret.

    With ``scheme="paillier"``, `modulus` is n² and `plaintext_limit` is n.  With ``"okamoto-uchiyama"``, they
    are n and ``2^(⌈bits of n / 3⌉ − 1)``, which is below p.  0 threads mean all available processors.
    """

    def __init__(self, scheme: str, n: int, n_threads: int = 0) -> None:
        self.scheme = scheme
        self.n = n
        self.n_threads = n_threads
        self.key_id = wire.key_id(scheme, n)
        self.modulus = Modulus(n * n if scheme == "paillier" else n)
        self.plaintext_limit = n if scheme == "paillier" else 1 << (-(-n.bit_length() // 3) - 1)
        self.obfuscators = ObfuscatorPool(self._encryptions_of_zero, POOL_CAPACITY)
        self.random = SecretStream()
        self._n_powers = 0
        self.zero_table: ZeroTable | None = None

    def __repr__(self) -> str:
        """Scheme, size and name."""
        return f"ResidueKey({self.scheme}, {self.n.bit_length()} bits, id {self.key_id.hex()[:8]})"

    def __eq__(self, other: object) -> bool:
        """Same scheme, same number."""
        return isinstance(other, ResidueKey) and (self.scheme, self.n) == (other.scheme, other.n)

    def __hash__(self) -> int:
        """By scheme and number."""
        return hash((self.scheme, self.n))

    def __reduce__(self) -> tuple[Any, ...]:
        """Only what is public: no obfuscators, no random state."""
        return ResidueKey, (self.scheme, self.n, self.n_threads)

    @property
    def ciphertext_bytes(self) -> int:
        """Bytes of one ciphertext in memory."""
        return 8 * self.modulus.width

    @property
    def table_bytes(self) -> int:
        """Memory that `tabulate` takes at most."""
        return table_bytes(self.n.bit_length(), self.ciphertext_bytes)

    def tabulate(self) -> None:
        """Let `prepare` make a table of encryptions of zero, once as many were made as it has bases."""
        if self.zero_table is None and self.table_bytes:
            self.zero_table = ZeroTable(self.n.bit_length(), self.modulus, self.n_threads)

    def _encryptions_of_zero(self, count: int) -> Residues:
        """Uniform ones, or products of the table's rows, within 2^-64 of uniform, once it is complete."""
        drawn = None if self.zero_table is None else self.zero_table.draw(self.random, count)
        if drawn is not None:
            return drawn
        self._n_powers += count
        return self._powers(count)

    def _powers(self, count: int) -> Residues:
        """r^n of uniform units r.

        For Paillier this is the scheme's own randomness.  For Okamoto–Uchiyama, modulo p² the power n kills
        the part of order p and permutes the one of order p − 1 (as gcd(q, p − 1) = 1), and modulo q it
        permutes the units (as gcd(p, q − 1) = 1): a uniform encryption of zero, without g and h.  A uniform
        number below n is a unit except with probability about 2/p, and any other number would factor n.
        """
        r = self.random.below(self.n, count, nonzero=True)
        bases = np.zeros((count, self.modulus.width), dtype=np.uint64)
        bases[:, : r.shape[1]] = r
        # Montgomery form by one product: r·R² / R.
        bases = multiply(bases, self.modulus.radix_squared, self.modulus, self.n_threads)
        return power(bases, self.n, self.modulus, self.n_threads)

    def add(self, a: Residues, b: Residues) -> Residues:
        """Ciphertexts of sums; a single row is added to every row."""
        return multiply(a, b, self.modulus, self.n_threads)

    def subtract(self, a: Residues, b: Residues) -> Residues:
        """Ciphertexts of differences: one batch inversion for all rows."""
        try:
            return multiply(a, invert(b, self.modulus, self.n_threads), self.modulus, self.n_threads)
        except ZeroDivisionError as error:
            raise InvalidCiphertextError(f"cannot subtract: {error}") from None

    def sum_by_index(
        self, source: Residues, order: NDArray[np.integer[Any]], starts: NDArray[np.int64]
    ) -> Residues:
        """Ciphertexts of the sums of rows ``order[starts[i]:starts[i + 1]]``."""
        return chain_products(source, order, starts, self.modulus, n_threads=self.n_threads)

    def scale(self, a: Residues, bits: int) -> Residues:
        """Ciphertexts of the plaintexts times ``2^bits``."""
        return shift(a, bits, self.modulus, self.n_threads)

    def compress(self, a: Residues, bits: int, per_ciphertext: int) -> Residues:
        """Groups of consecutive plaintexts in one ciphertext each, a group's first in its highest bits."""
        return compressed(self, a, self.modulus.one, bits, per_ciphertext)

    def rerandomise(self, a: Residues) -> Residues:
        """The same plaintexts under fresh randomness: products with encryptions of zero."""
        return self.add(a, self.obfuscators.take(len(a)))

    def prepare(self, wanted: int) -> bool:
        """Make some encryptions of zero ahead; False once `wanted` are ready, or as many as are kept."""
        table = self.zero_table
        if wanted and table is not None and table.n_missing and self._n_powers >= table.n_bases:
            table.add(self._powers(min(AT_ONCE, table.n_missing)))
            return True
        return self.obfuscators.prepare_some(wanted)

    def from_integers(self, values: list[int]) -> Residues:
        """Ciphertexts given as integers, as other libraries have them; checked."""
        if any(not 0 <= value < self.modulus.value for value in values):
            raise InvalidCiphertextError("a ciphertext is negative or not below the modulus")
        rows = encode(values, self.modulus, self.n_threads)
        self._check_units(rows)
        return rows

    def to_bytes(self, a: Residues) -> bytes:
        """Ciphertexts for the wire, with version and key id."""
        return wire.pack(wire.PayloadKind.CIPHERTEXTS, self.scheme, self.key_id, a)

    def to_bytes_in_parts(self, n_rows: int, parts: Iterable[Residues]) -> tuple[int, Iterator[bytes]]:
        """Result of `to_bytes` for all parts together: its length, and its bytes part by part."""
        shape = (n_rows, self.modulus.width)
        pieces = wire.pack_parts(wire.PayloadKind.CIPHERTEXTS, self.scheme, self.key_id, shape, parts)
        return wire.packed_bytes(*shape), pieces

    def from_bytes(self, data: bytes) -> Residues:
        """Ciphertexts from the wire, checked one by one; errors are those of `PublicKey.from_bytes`.

        A row is no ciphertext if it is not below the modulus, or not invertible.
        """
        message = wire.unpack(data)
        is_short = message.kind is wire.PayloadKind.SHORT_CIPHERTEXTS
        if not is_short and message.kind is not wire.PayloadKind.CIPHERTEXTS:
            raise CorruptDataError(f"expected ciphertexts, not a {message.kind.name.lower()}")
        if (message.scheme, message.key_id) != (self.scheme, self.key_id):
            raise WrongKeyError(
                f"ciphertexts of {message.scheme} key {message.key_id.hex()[:8]}; this is {self!r}"
            )
        if is_short and self.scheme != "okamoto-uchiyama":
            raise CorruptDataError(f"short ciphertexts, but {self!r} has none")
        rows = lengthened(message.rows, self.modulus) if is_short else message.rows
        if rows.shape[1] != self.modulus.width:
            raise CorruptDataError(f"ciphertexts of {rows.shape[1]} words; {self!r} has {self.modulus.width}")
        self.check(rows)
        return rows

    def check(self, a: Residues) -> None:
        """Raise `InvalidCiphertextError` unless every row is a reduced unit."""
        if not rows_below(a, self.modulus.value).all():
            raise InvalidCiphertextError("a ciphertext is not below the modulus")
        self._check_units(a)

    def _check_units(self, a: Residues) -> None:
        if not are_units(a, self.modulus, self.n_threads):
            raise InvalidCiphertextError("a ciphertext is not invertible")

    def public_bytes(self) -> bytes:
        """The public part for the wire."""
        return wire.pack(wire.PayloadKind.PUBLIC_KEY, self.scheme, self.key_id, number_rows([self.n]))

    @staticmethod
    def from_public_bytes(data: bytes, n_threads: int = 0) -> ResidueKey:
        """The key that `public_bytes` wrote."""
        message, numbers = read_numbers(data, wire.PayloadKind.PUBLIC_KEY)
        n = numbers[0] if len(numbers) == 1 else 0
        if message.scheme not in ("paillier", "okamoto-uchiyama") or not _is_plausible(n):
            raise CorruptDataError("not the public part of such a key")
        key = ResidueKey(message.scheme, n, n_threads)
        if key.key_id != message.key_id:
            raise CorruptDataError("the key id does not belong to the public number")
        return key


def _is_plausible(n: int) -> bool:
    """Whether n is odd, of a size that keys have, without a factor below 2^16, and no power.

    Modulo a power of 3, say, r^n is one of few numbers: such a key would switch re-randomisation off.  That
    finds careless keys, not every made-up one: parties are taken to follow the protocol.
    """
    if n % 2 == 0 or not 3 <= n < 1 << MAX_KEY_LENGTH:
        return False
    return gmpy2.gcd(n, _small_primes_product()) == 1 and not gmpy2.is_power(n)


@cache
def _small_primes_product() -> gmpy2.mpz:
    """Product of the primes below 2^16."""
    return gmpy2.primorial(1 << 16)


def number_rows(numbers: list[int]) -> Residues:
    """A few integers as rows as wide as the longest."""
    return to_rows(numbers, max(1, -(-max(numbers, default=0).bit_length() // 64)))


def read_numbers(data: bytes, kind: wire.PayloadKind) -> tuple[wire.CipherMessage, list[int]]:
    """The integers of a key message; one that is longer than any key is not taken apart."""
    message = unpack_key(data)
    if message.kind is not kind:
        raise CorruptDataError(f"expected a {kind.name.lower()}, not a {message.kind.name.lower()}")
    return message, from_rows(message.rows)


def unpack_key(data: bytes) -> wire.CipherMessage:
    """Parse the bytes of a key; `CorruptDataError` before anything is allocated if they are too many."""
    if len(data) > MAX_KEY_BYTES:
        raise CorruptDataError(f"{len(data)} bytes are too many for a key")
    return wire.unpack(data)


def plaintext_rows(plaintexts: Any, limit: int) -> Residues:
    """Plaintexts as checked rows as wide as `limit`; `PlaintextRangeError` unless in [0, limit)."""
    width = -(-limit.bit_length() // 64)
    if isinstance(plaintexts, np.ndarray) and plaintexts.ndim == 2:
        if plaintexts.dtype != np.uint64:
            raise PlaintextRangeError(f"rows of plaintext words must be uint64, not {plaintexts.dtype}")
        rows = np.ascontiguousarray(plaintexts)
        if rows[:, width:].any():
            raise PlaintextRangeError(f"a plaintext is not below the limit of {limit.bit_length()} bits")
        rows = np.pad(rows[:, :width], ((0, 0), (0, max(0, width - rows.shape[1]))))
    else:
        try:
            rows = to_rows(plaintexts, width)
        except OverflowError:
            raise PlaintextRangeError(
                f"a plaintext is negative or not below the limit of {limit.bit_length()} bits"
            ) from None
    if not rows_below(rows, limit).all():
        raise PlaintextRangeError(f"a plaintext is not below the limit of {limit.bit_length()} bits")
    return rows
