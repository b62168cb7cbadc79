"""Uniform rows of words from a cryptographically secure stream."""

from __future__ import annotations

import os
from threading import Lock

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from gbdt_kernels.residues.limbs import n_words, rows_below
from numpy.typing import NDArray

_process = object()


def _new_process() -> None:
    global _process
    _process = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_process)


def this_process() -> object:
    """A token that a forked child does not share with its parent (a process number may come back)."""
    return _process


class SecretStream:
    """ChaCha20 key stream under a key from the operating system; safe to share by threads.

    A forked child takes a new key: two processes never use the same randomness.

    Parameters
    ----------
    key : bytes, optional
        32 bytes instead of the operating system's, for tests: whoever knows them can decrypt.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._lock = Lock()
        self._start(key)

    def __repr__(self) -> str:
        """Nothing of the key."""
        return "SecretStream()"

    def __reduce__(self) -> tuple[type[SecretStream], tuple[()]]:
        """A copy has a key of its own."""
        return SecretStream, ()

    def _start(self, key: bytes | None) -> None:
        self._process = this_process()
        algorithm = algorithms.ChaCha20(os.urandom(32) if key is None else key, bytes(16))
        self._encryptor = Cipher(algorithm, mode=None).encryptor()

    def words(self, n_rows: int, width: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words."""
        with self._lock:
            if self._process is not this_process():
                self._start(None)
            stream = self._encryptor.update(bytes(8 * n_rows * width))
        return np.frombuffer(stream, dtype="<u8").reshape(n_rows, width).astype(np.uint64)

    def below(self, bound: int, n_rows: int, *, nonzero: bool = False) -> NDArray[np.uint64]:
        """Rows of independent integers, exactly uniform in ``[0, bound)`` or ``[1, bound)``: by rejection."""
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
        """A uniform order of ``range(count)``: by sorting words, drawn again should two be equal."""
        while True:
            words = self.words(1, count)[0]
            order = np.argsort(words, kind="stable")
            if (np.diff(words[order]) != 0).all():
                return order
