"""No encryption: the same integers and the same packing in clear, for tests and debugging."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues.limb_sums import chain_sums, differences, shifted
from gbdt_kernels.residues.limbs import from_rows, n_words, rows_below, widened
from xgb_fed.ciphers import serialization as wire
from xgb_fed.ciphers.base import Plaintexts, compressed
from xgb_fed.ciphers.residue_key import number_rows, plaintext_rows, read_numbers
from xgb_fed.errors import CorruptDataError, InvalidCiphertextError, WrongKeyError

Rows = NDArray[np.uint64]


@dataclass(frozen=True)
class Plain:
    """No encryption, for tests and debugging: training with it emits `NotEncryptedWarning`.

    One object is scheme, private key and public key, as there is no secret.  Its ciphertexts are the integers
    themselves, as rows of words that are added modulo the next multiple of 64 bits.

    Parameters
    ----------
    plaintext_bits : int, default=2047
        Number of bits of plaintexts, as if a cipher limited them.
    scheme : str
        Name of the scheme; not to be changed.

    Examples
    --------
    >>> from xgb_fed import Plain
    >>> key = Plain().generate()
    >>> ciphertexts = key.encrypt([20, 1])
    >>> key.decrypt(key.add(ciphertexts[:1], ciphertexts[1:]))
    [21]
    """

    plaintext_bits: int = 2047
    scheme: str = "plain"

    @property
    def public(self) -> Plain:
        """Itself."""
        return self

    @property
    def plaintext_limit(self) -> int:
        """Plaintexts are below this."""
        return 1 << self.plaintext_bits

    @property
    def key_id(self) -> bytes:
        """Made from the size of the plaintext space."""
        return wire.key_id(self.scheme, self.plaintext_bits)

    @property
    def ciphertext_bytes(self) -> int:
        """Bytes of one integer in memory."""
        return 8 * self._width

    @property
    def _width(self) -> int:
        return n_words(self.plaintext_bits + 1)

    def generate(self) -> Plain:
        """Itself."""
        return self

    def encrypt(self, plaintexts: Plaintexts) -> Rows:
        """The integers as they are."""
        return widened(plaintext_rows(plaintexts, self.plaintext_limit), self._width)

    def decrypt(self, ciphertexts: Rows) -> list[int]:
        """The integers as they are, modulo the plaintext space."""
        return [value % self.plaintext_limit for value in from_rows(ciphertexts)]

    def add(self, a: Rows, b: Rows) -> Rows:
        """Sums, row by row; a single row is added to every row."""
        return differences(a, differences(np.zeros_like(b), b))

    def subtract(self, a: Rows, b: Rows) -> Rows:
        """Differences, row by row."""
        return differences(a, b)

    def sum_by_index(self, source: Rows, order: NDArray[np.integer[Any]], starts: NDArray[np.int64]) -> Rows:
        """Sums of rows ``order[starts[i]:starts[i + 1]]``."""
        return chain_sums(source, order, starts)

    def scale(self, a: Rows, bits: int) -> Rows:
        """Every integer times ``2^bits``."""
        return shifted(a, bits)

    def compress(self, a: Rows, bits: int, per_ciphertext: int) -> Rows:
        """Groups of consecutive integers in one each, a group's first in its highest bits."""
        return compressed(self, a, np.zeros((1, a.shape[1]), dtype=np.uint64), bits, per_ciphertext)

    def rerandomise(self, a: Rows) -> Rows:
        """A copy: there is no randomness."""
        return np.array(a)

    @property
    def table_bytes(self) -> int:
        """None."""
        return 0

    def tabulate(self) -> None:
        """There is nothing to tabulate."""

    def prepare(self, wanted: int) -> bool:
        """There is nothing to prepare."""
        return False

    def to_bytes(self, a: Rows) -> bytes:
        """Integers for the wire."""
        return wire.pack(wire.PayloadKind.CIPHERTEXTS, self.scheme, self.key_id, a)

    def to_bytes_in_parts(self, n_rows: int, parts: Iterable[Rows]) -> tuple[int, Iterator[bytes]]:
        """Result of `to_bytes` for all parts together: its length, and its bytes part by part."""
        shape = (n_rows, self._width)
        pieces = wire.pack_parts(wire.PayloadKind.CIPHERTEXTS, self.scheme, self.key_id, shape, parts)
        return wire.packed_bytes(*shape), pieces

    def from_bytes(self, data: bytes) -> Rows:
        """Integers from the wire."""
        message = wire.unpack(data)
        if message.kind is not wire.PayloadKind.CIPHERTEXTS:
            raise CorruptDataError(f"expected ciphertexts, not a {message.kind.name.lower()}")
        if (message.scheme, message.key_id) != (self.scheme, self.key_id):
            raise WrongKeyError(f"data of {message.scheme} key {message.key_id.hex()[:8]}")
        if message.rows.shape[1] != self._width or not rows_below(message.rows, self.plaintext_limit).all():
            raise InvalidCiphertextError("an integer is beyond the plaintext space")
        return message.rows

    def public_bytes(self) -> bytes:
        """The size of the plaintext space."""
        rows = number_rows([self.plaintext_bits])
        return wire.pack(wire.PayloadKind.PUBLIC_KEY, self.scheme, self.key_id, rows)

    @staticmethod
    def from_public_bytes(data: bytes) -> Plain:
        """Key that `public_bytes` wrote."""
        message, numbers = read_numbers(data, wire.PayloadKind.PUBLIC_KEY)
        if message.scheme != "plain" or len(numbers) != 1 or not 1 <= numbers[0] <= 1 << 16:
            raise CorruptDataError("not the size of a plaintext space")
        return Plain(numbers[0])
