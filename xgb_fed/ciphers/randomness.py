"""Uniform random integers and permutations from a cryptographically secure stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.key_stream import KeyStream
from gbdt_kernels.residues.limbs import n_words, rows_below


class SecretStream:
    """Secret randomness under a key from the operating system; threads may share it.

    A forked child takes a new key, so that two processes never use the same randomness.  For tests, a `key`
    of 32 bytes determines the randomness: knowledge of it suffices to decrypt.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self.begin(key)

    def begin(self, key: bytes | None) -> None:
        """Go on with the randomness of another key, as the constructor is given it."""
        self._stream = KeyStream(key)

    def __repr__(self) -> str:
        """Show nothing of the key."""
        return "SecretStream()"

    def __reduce__(self) -> tuple[type[SecretStream], tuple[()]]:
        """Give a copy a key of its own."""
        return SecretStream, ()

    def words(self, n_rows: int, width: int) -> NDArray[np.uint64]:
        """Draw uniform 64-bit words, an array of shape (n_rows, width)."""
        if self._stream.is_forked:
            self._stream = KeyStream()
        return np.array(self._stream.words(n_rows * width)).reshape(n_rows, width)

    def below(self, bound: int, n_rows: int, *, nonzero: bool = False) -> NDArray[np.uint64]:
        """Draw integers, independent and exactly uniform in ``[0, bound)``, or ``[1, bound)`` if `nonzero`.

        It is done by rejection; the result is rows of as many words as `bound` has, the least significant
        first.
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
        """Draw a uniform order of ``range(count)``, by sorting words; equal ones are drawn again."""
        while True:
            words = self.words(1, count)[0]
            order = np.argsort(words, kind="stable")
            if (np.diff(words[order]) != 0).all():
                return order
