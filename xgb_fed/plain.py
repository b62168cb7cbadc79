"""No encryption: the same integers and the same packing in clear, for tests and debugging."""

from __future__ import annotations

from dataclasses import dataclass

from gbdt_kernels.limbs import from_rows

from xgb_fed import wire
from xgb_fed.cipher import Plaintexts
from xgb_fed.errors import CorruptDataError, InvalidCiphertextError, PlaintextRangeError, WrongKeyError
from xgb_fed.object_arrays import ObjectArithmetic, Objects, integers, object_array
from xgb_fed.residues import number_rows


@dataclass(frozen=True)
class Plain(ObjectArithmetic):
    """Scheme, private and public part in one: there is no secret.

    Parameters
    ----------
    plaintext_bits : int
        Size of the pretended plaintext space.
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

    def generate(self) -> Plain:
        """Itself."""
        return self

    def zero(self) -> int:
        """The number 0."""
        return 0

    def encrypt(self, plaintexts: Plaintexts) -> Objects:
        """The integers as they are."""
        values = integers(plaintexts)
        if not all(0 <= value < self.plaintext_limit for value in values):
            raise PlaintextRangeError(f"a plaintext is negative or has more than {self.plaintext_bits} bits")
        return object_array(values)

    def decrypt(self, ciphertexts: Objects) -> list[int]:
        """The integers as they are, modulo the plaintext space."""
        return [int(value) % self.plaintext_limit for value in ciphertexts]

    def rerandomise(self, a: Objects) -> Objects:
        """A copy: there is no randomness."""
        return a.copy()

    def to_bytes(self, a: Objects) -> bytes:
        """Integers for the wire."""
        rows = number_rows([value % self.plaintext_limit for value in a])
        return wire.pack(wire.Kind.CIPHERTEXTS, self.scheme, self.key_id, rows)

    def from_bytes(self, data: bytes) -> Objects:
        """Integers from the wire."""
        message = wire.unpack(data)
        if message.kind is not wire.Kind.CIPHERTEXTS:
            raise CorruptDataError(f"expected ciphertexts, not a {message.kind.name.lower()}")
        if (message.scheme, message.key_id) != (self.scheme, self.key_id):
            raise WrongKeyError(f"data of {message.scheme} key {message.key_id.hex()[:8]}")
        values = from_rows(message.rows)
        if any(value >= self.plaintext_limit for value in values):
            raise InvalidCiphertextError("an integer is beyond the plaintext space")
        return object_array(values)

    def public_bytes(self) -> bytes:
        """The size of the plaintext space."""
        rows = number_rows([self.plaintext_bits])
        return wire.pack(wire.Kind.PUBLIC_KEY, self.scheme, self.key_id, rows)
