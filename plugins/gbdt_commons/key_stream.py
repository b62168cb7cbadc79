"""A cryptographically secure stream of uniform random words: ChaCha20 under a secret key."""

from __future__ import annotations

import os
from threading import Lock

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms
from numpy.typing import NDArray

KEY_BYTES = 32
WORD_BYTES = 8

MAX_WORDS = 2**35 - KEY_BYTES // WORD_BYTES
"""Words drawn under one key.  The block counter has 32 bits and a block has 64 bytes, which makes 2**35 words
under one key and nonce; the last four are the next key."""

_birth = object()


def _note_fork() -> None:
    global _birth
    _birth = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def this_process() -> tuple[int, object]:
    """Identify this process in a way that no forked child of it shares: a tuple that equals itself here only.

    It holds more than the process number because the operating system reuses those.
    """
    return os.getpid(), _birth


class KeyStream:
    """ChaCha20 key stream; threads may share it.

    The stream replaces its key before the block counter ends, by the last bytes of the old key's stream, so
    that it never ends and never repeats. A `key` of 32 bytes determines the stream, for tests; by default it
    comes from the operating system.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self.lock = Lock()
        self._process = this_process()
        self._start(os.urandom(KEY_BYTES) if key is None else key)

    def _start(self, key: bytes) -> None:
        self._encryptor: CipherContext = Cipher(
            algorithms.ChaCha20(key, nonce=bytes(16)), mode=None
        ).encryptor()
        self._left = MAX_WORDS

    @property
    def is_forked(self) -> bool:
        """Whether this is a forked child's copy, which would repeat its parent's words."""
        return self._process != this_process()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` uniform words, uint64; RuntimeError in a forked child of the maker."""
        # Before the lock: a thread of the parent may have held it when the process forked.
        if self.is_forked:
            raise RuntimeError("a key stream cannot be used in a forked process: it would repeat itself")
        parts = []
        with self.lock:
            while count > self._left:
                count -= self._left
                parts.append(self._bytes(self._left * WORD_BYTES))
                self._start(self._bytes(KEY_BYTES))
            self._left -= count
            parts.append(self._bytes(count * WORD_BYTES))
        stream = parts[0] if len(parts) == 1 else b"".join(parts)
        return np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False)

    def _bytes(self, count: int) -> bytes:
        return self._encryptor.update(bytes(count))
