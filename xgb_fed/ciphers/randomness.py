"""Uniform random integers and permutations from a cryptographically secure stream."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.key_stream import KeyStream
from gbdt_kernels.residues.limbs import n_words, rows_below

_FOLLOWED: ContextVar[RepeatableRandomness | None] = ContextVar("followed", default=None)


class RepeatableRandomness:
    """All randomness of a key, drawn from a seed so that an auditor can draw it again.

    Parameters
    ----------
    seed : bytes
        32 bytes: knowledge of them suffices to decrypt.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed, self._streams, self.n_begun = seed, list[SecretStream](), 0
        self.stream = SecretStream(self._key(0))

    def _key(self, place: int) -> bytes:
        message = f"veilboost repeatable randomness {self.n_begun} {place}".encode()
        return hmac.digest(self._seed, message, "sha256")

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Keys that are generated in this block, and all that they draw later, follow from the seed."""
        token = _FOLLOWED.set(self)
        try:
            yield
        finally:
            _FOLLOWED.reset(token)

    def join(self, stream: SecretStream) -> bytes:
        """The key of one more stream."""
        self._streams.append(stream)
        return self._key(len(self._streams))

    def begin(self) -> None:
        """Begin anew with other keys: threads have drawn as much ahead as time allowed."""
        self.n_begun += 1
        for place, stream in enumerate(self._streams, start=1):
            stream.begin(self._key(place))


def below(bound: int) -> int:
    """A uniform integer in ``[0, bound)``: from the operating system, or a seed that is followed."""
    source = _FOLLOWED.get()
    if source is None:
        return secrets.randbelow(bound)
    return int.from_bytes(source.stream.below(bound, 1).astype("<u8").tobytes(), "little")


class SecretStream:
    """Secret randomness under a key from the operating system; threads may share it.

    A forked child takes a new key, so that two processes never use the same randomness.

    Parameters
    ----------
    key : bytes, optional
        32 bytes that determine the randomness, for tests: knowledge of them suffices to decrypt.
    """

    def __init__(self, key: bytes | None = None) -> None:
        source = _FOLLOWED.get()
        self.begin(source.join(self) if key is None and source is not None else key)

    def begin(self, key: bytes | None) -> None:
        """Go on with the randomness of another key."""
        self._stream = KeyStream(key)

    def __repr__(self) -> str:
        """Show nothing of the key."""
        return "SecretStream()"

    def __reduce__(self) -> tuple[type[SecretStream], tuple[()]]:
        """Give a copy a key of its own."""
        return SecretStream, ()

    def words(self, n_rows: int, width: int) -> NDArray[np.uint64]:
        """Draw uniform 64-bit words.

        Returns
        -------
        ndarray of uint64, shape (n_rows, width)
        """
        if self._stream.is_forked:
            self._stream = KeyStream()
        return np.array(self._stream.words(n_rows * width)).reshape(n_rows, width)

    def below(self, bound: int, n_rows: int, *, nonzero: bool = False) -> NDArray[np.uint64]:
        """Draw independent integers, exactly uniform in ``[0, bound)``, by rejection.

        Parameters
        ----------
        bound : int
        n_rows : int
        nonzero : bool
            Draw from ``[1, bound)`` instead.

        Returns
        -------
        ndarray of uint64, shape (n_rows, n_words)
            Integers as rows of words, least significant word first.
        """
        bits = bound.bit_length()
        width = n_words(bits)
        top = np.uint64((1 << (bits - 64 * (width - 1))) - 1)
        out = np.empty((n_rows, width), dtype=np.uint64)
        missing = np.arange(n_rows)
        while len(missing):
            drawn = self.words(len(missing), width)
            drawn[:, -1] &= top
            accepted = rows_below(drawn, bound)
            if nonzero:
                accepted &= drawn.any(axis=1)
            out[missing[accepted]] = drawn[accepted]
            missing = missing[~accepted]
        return out

    def permutation(self, count: int) -> NDArray[np.int64]:
        """Draw a uniform order of ``range(count)``, by sorting words; they are drawn again if two are equal.

        Returns
        -------
        ndarray of int64, shape (count,)
        """
        while True:
            words = self.words(1, count)[0]
            order = np.argsort(words, kind="stable")
            if (np.diff(words[order]) != 0).all():
                return order
