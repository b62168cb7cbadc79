"""Paillier by the library ``phe``, one Python object a number: SecureBoost's baseline, for benchmarks.

``phe`` is under the GPL: an optional extra that nothing else in this package
imports.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from gbdt_kernels.limbs import from_rows

from xgb_fed import wire
from xgb_fed.cipher import KeepsSecrets, Plaintexts
from xgb_fed.errors import CorruptDataError, InvalidCiphertextError, PlaintextRangeError, WrongKeyError
from xgb_fed.object_arrays import ObjectArithmetic, Objects, integers, object_array
from xgb_fed.paillier import check_key_length
from xgb_fed.residues import number_rows


def require_phe() -> ModuleType:
    """The module ``phe``.

    Raises
    ------
    ImportError
        If it is not installed; says how to.
    """
    try:
        return import_module("phe")
    except ImportError as error:
        raise ImportError("this needs the GPL library phe: pip install 'veilboost[naive]'") from error


@dataclass(frozen=True)
class NaivePaillier:
    """Recipe for ``phe`` keys.

    Parameters
    ----------
    key_length : int
        Bits of n.
    allow_weak_key : bool
        Permit fewer than 2048 bits, for tests.
    """

    key_length: int = 2048
    allow_weak_key: bool = False

    def __post_init__(self) -> None:
        """Refuse weak keys before any work."""
        check_key_length(self.key_length, self.allow_weak_key)

    def generate(self) -> NaivePaillierKey:
        """A fresh key."""
        _, private = require_phe().generate_paillier_keypair(n_length=self.key_length)
        return NaivePaillierKey(private)


class NaivePublic(ObjectArithmetic):
    """The public part: arrays of ``phe.EncryptedNumber``.

    Parameters
    ----------
    public_key : phe.PaillierPublicKey
    """

    scheme = "naive-paillier"

    def __init__(self, public_key: Any) -> None:
        self.phe_key = public_key
        self.plaintext_limit = int(public_key.max_int) + 1
        self.key_id = wire.key_id(self.scheme, int(public_key.n))

    def zero(self) -> Any:
        """An encryption of 0 without randomness: the neutral element of sums."""
        return require_phe().EncryptedNumber(self.phe_key, 1)

    def rerandomise(self, a: Objects) -> Objects:
        """The same plaintexts under fresh randomness."""
        copies = [require_phe().EncryptedNumber(self.phe_key, x.ciphertext(False), x.exponent) for x in a]
        for copy in copies:
            copy.obfuscate()
        return object_array(copies)

    def to_bytes(self, a: Objects) -> bytes:
        """Ciphertexts for the wire: ``phe`` obfuscates those that need it."""
        width = -(-2 * self.phe_key.n.bit_length() // 64)
        numbers = [int(x.ciphertext()) for x in a]
        rows = number_rows([*numbers, (1 << (64 * width)) - 1])[:-1]
        return wire.pack(wire.Kind.CIPHERTEXTS, self.scheme, self.key_id, rows)

    def from_bytes(self, data: bytes) -> Objects:
        """Ciphertexts from the wire."""
        message = wire.unpack(data)
        if message.kind is not wire.Kind.CIPHERTEXTS:
            raise CorruptDataError(f"expected ciphertexts, not a {message.kind.name.lower()}")
        if (message.scheme, message.key_id) != (self.scheme, self.key_id):
            raise WrongKeyError(f"ciphertexts of {message.scheme} key {message.key_id.hex()[:8]}")
        numbers = from_rows(message.rows)
        if any(not 0 < number < self.phe_key.nsquare for number in numbers):
            raise InvalidCiphertextError("a ciphertext is not below the modulus")
        phe = require_phe()
        return object_array([phe.EncryptedNumber(self.phe_key, number) for number in numbers])

    def public_bytes(self) -> bytes:
        """The public part for the wire."""
        rows = number_rows([int(self.phe_key.n)])
        return wire.pack(wire.Kind.PUBLIC_KEY, self.scheme, self.key_id, rows)


class NaivePaillierKey(KeepsSecrets):
    """The secret part.

    Parameters
    ----------
    private_key : phe.PaillierPrivateKey
    """

    def __init__(self, private_key: Any) -> None:
        self._private = private_key
        self.public = NaivePublic(private_key.public_key)

    def encrypt(self, plaintexts: Plaintexts) -> Objects:
        """Fresh ciphertexts, one object each."""
        values = integers(plaintexts)
        if not all(0 <= value < self.public.plaintext_limit for value in values):
            raise PlaintextRangeError("a plaintext is negative or beyond phe's largest integer")
        return object_array([self.public.phe_key.encrypt(value) for value in values])

    def decrypt(self, ciphertexts: Objects) -> list[int]:
        """Plaintexts, as integers."""
        return [int(self._private.decrypt(x)) for x in ciphertexts]
