"""Interface of an additively homomorphic cipher for training: arrays in, arrays out.

A *scheme* is a recipe with a key length; ``generate`` makes a `PrivateKey`,
whose ``public`` is the `PublicKey` that the other parties get. The content of an array of ciphertexts is
known to the scheme only: training passes it on, indexes its first axis, and sends its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Ciphertexts = NDArray[Any]
"""One ciphertext per row; what a row holds is up to the scheme."""

Plaintexts = Sequence[int] | NDArray[Any]
"""Integers, or rows of little-endian 64-bit words."""


class PublicKey(Protocol):
    """Public key: the operations of a party without the secret key."""

    @property
    def scheme(self) -> str:
        """Name of the scheme."""

    @property
    def plaintext_limit(self) -> int:
        """Plaintexts, and every sum of them that is to be decrypted, are below this."""

    @property
    def key_id(self) -> bytes:
        """Sixteen bytes that name the key."""

    @property
    def ciphertext_bytes(self) -> int:
        """Bytes of one ciphertext in memory."""

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """Ciphertexts of sums, row by row; a `b` of one row is added to each.

        They are right as long as each sum is below `plaintext_limit`; only the secret key could tell.
        """

    def subtract(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """Ciphertexts of differences by row; `InvalidCiphertextError` unless `b` is invertible."""

    def sum_by_index(
        self, source: Ciphertexts, order: NDArray[np.integer[Any]], starts: NDArray[np.int64]
    ) -> Ciphertexts:
        """Ciphertexts of the sums of rows ``order[starts[i]:starts[i + 1]]`` of `source`.

        The ``n_sums + 1`` numbers `starts` ascend; the last one is where the last sum ends.  The sums are not
        randomised: one of no rows is 0 for all to see.
        """

    def scale(self, a: Ciphertexts, bits: int) -> Ciphertexts:
        """Ciphertexts of the plaintexts times ``2^bits``, bits >= 0; each bit costs a squaring per row."""

    def compress(self, a: Ciphertexts, bits: int, per_ciphertext: int) -> Ciphertexts:
        """Groups of consecutive plaintexts in one ciphertext each, a group's first in its highest bits.

        Each plaintext has room for `bits` bits, and zeros fill the last group up.  All plaintexts of a group
        together must be below `plaintext_limit`.
        """

    def rerandomise(self, a: Ciphertexts) -> Ciphertexts:
        """The same plaintexts under fresh randomness.

        Each result is within 2^-64 as uniform as an encryption, whatever the randomness of `a` was.
        """

    @property
    def table_bytes(self) -> int:
        """Memory that `tabulate` takes at most; 0 if there is no table."""

    def tabulate(self) -> None:
        """Let `prepare` make a table that speeds `rerandomise` up, once enough was drawn to be worth it."""

    def prepare(self, wanted: int) -> bool:
        """Make some of what `rerandomise` takes ahead, for `wanted` rows in all.

        False means that there is enough, or as much as is kept at most.
        """

    def to_bytes(self, a: Ciphertexts) -> bytes:
        """Ciphertexts for the wire, with version and key id."""

    def to_bytes_in_parts(self, n_rows: int, parts: Iterable[Ciphertexts]) -> tuple[int, Iterator[bytes]]:
        """Result of `to_bytes` for all parts together: its length in bytes, and its bytes.

        The parts have `n_rows` ciphertexts together; each part is made when its bytes are due.  The bytes
        come in two more parts than the ciphertexts, the first and the last: a header and a digest.
        """

    def from_bytes(self, data: bytes) -> Ciphertexts:
        """Ciphertexts from the wire, of any sender, checked one by one.

        Raises `CorruptDataError` or `VersionError` if the bytes are damaged or of another format,
        `WrongKeyError` if they belong to another key, and `InvalidCiphertextError` if a row is no ciphertext
        of this key.
        """

    def public_bytes(self) -> bytes:
        """The public part for the wire."""


class PrivateKey(Protocol):
    """Private key: the operations of the holder of the secret key."""

    @property
    def public(self) -> PublicKey:
        """The part that other parties may have."""

    def encrypt(self, plaintexts: Plaintexts) -> Ciphertexts:
        """Fresh ciphertexts of plaintexts below `PublicKey.plaintext_limit`; else `PlaintextRangeError`."""

    def to_bytes_in_parts(self, n_rows: int, parts: Iterable[Ciphertexts]) -> tuple[int, Iterator[bytes]]:
        """Fresh ciphertexts of this key for the wire, to be read by `PublicKey.from_bytes`.

        The arguments, of one ciphertext at least, and the result are those of `PublicKey.to_bytes_in_parts`.
        The secret may make ciphertexts shorter; their randomness then changes.  The parts are from `encrypt`
        and used nowhere else: a ciphertext that was sent before, in either form, can give the key away.
        """

    def decrypt(self, ciphertexts: Ciphertexts) -> list[int]:
        """The plaintexts of ciphertexts.

        They are in the plaintext space, which is larger than `PublicKey.plaintext_limit` under some schemes:
        a caller that cannot trust the makers of the ciphertexts checks the range.
        """


class Scheme(Protocol):
    """A recipe for keys."""

    def generate(self) -> PrivateKey:
        """A fresh key."""


class KeepsSecrets:
    """A key whose secrets show in no `repr` and enter no pickle."""

    def __repr__(self) -> str:
        """Name only."""
        return f"{type(self).__name__}(secret)"

    def __reduce__(self) -> Any:
        """Refuse to be pickled: pickles are often written without a thought for the keys in them."""
        raise TypeError(f"{type(self).__name__} holds a secret key and is not pickled; see `private_bytes`")


def compressed(key: PublicKey, a: Ciphertexts, zero: Ciphertexts, bits: int, size: int) -> Ciphertexts:
    """Result of `PublicKey.compress` by Horner's rule: ``Σ x_j·2^(bits·(size − 1 − j))`` for each group.

    The last group is filled with the ciphertext `zero`, so that all are read alike.
    """
    filled = np.concatenate([a, np.repeat(zero, -len(a) % size, axis=0)])
    groups = filled.reshape(-1, size, filled.shape[1])
    packed = np.ascontiguousarray(groups[:, 0])
    for j in range(1, size):
        packed = key.add(key.scale(packed, bits), groups[:, j])
    return packed
