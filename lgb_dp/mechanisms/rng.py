"""Random words from a cryptographically secure stream."""

from __future__ import annotations

import hashlib
import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray


class SecureRandom:
    """ChaCha20 key stream under a key from the operating system.

    Parameters
    ----------
    random_state : int, optional
        Derives the key from this number instead, for tests: whoever knows it can subtract the noise.
    """

    def __init__(self, random_state: int | None = None) -> None:
        if random_state is None:
            key = os.urandom(32)
        else:
            key = hashlib.sha256(f"lgb_dp test stream {random_state}".encode()).digest()
        self._process_id = os.getpid()
        self._stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()

    def refuse_fork(self) -> None:
        """Raise a RuntimeError in a forked process: parent and child would draw the same noise."""
        if os.getpid() != self._process_id:
            raise RuntimeError("a private training cannot go on in a forked process")

    def words(self, *shape: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words.

        Raises
        ------
        RuntimeError
            In a forked process: parent and child would draw the same noise.
        """
        self.refuse_fork()
        n_bytes = 8 * int(np.prod(shape))
        return np.frombuffer(self._stream.update(bytes(n_bytes)), dtype="<u8").reshape(shape)

    def coins(self, *shape: int) -> NDArray[np.bool_]:
        """Independent fair coins."""
        return (self.words(*shape) >> np.uint64(63)).astype(bool)
