"""Uniform random words and fair coins from a cryptographically secure stream, for noise."""

from __future__ import annotations

import hashlib
import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.key_stream import KeyStream
from lgb_dp.errors import ForkedProcessError


class WordSource(Protocol):
    """A stream of uniform random words: `SecureRandom`, or a key stream that an auditor can repeat."""

    def words(self, count: int, /) -> NDArray[np.uint64]:
        """Draw uniform 64-bit words, shape (count,)."""


class SecureRandom:
    """Randomness for noise, under a key from the operating system.

    It refuses to go on in a forked process, where parent and child would draw the same noise. A
    `random_state` gives the key instead, for tests: knowledge of it suffices to subtract the noise.
    """

    def __init__(self, random_state: int | None = None) -> None:
        key = None
        if random_state is not None:
            key = hashlib.sha256(f"lgb_dp test stream {random_state}".encode()).digest()
        self.stream = KeyStream(key)

    @classmethod
    def public(cls, key: bytes) -> SecureRandom:
        """A stream that all holders of a key of 32 bytes draw alike: for structures, never for noise."""
        random = cls()
        random.stream = KeyStream(key)
        return random

    def refuse_fork(self) -> None:
        """Raise a ForkedProcessError unless this is the process that made the object."""
        if self.stream.is_forked:
            raise ForkedProcessError("private training cannot continue in a forked process")

    def words(self, *shape: int) -> NDArray[np.uint64]:
        """Draw uniform 64-bit words; `ForkedProcessError` in a forked process."""
        self.refuse_fork()
        return self.stream.words(math.prod(shape)).reshape(shape)

    def coins(self, *shape: int) -> NDArray[np.bool_]:
        """Draw independent fair coins."""
        return np.asarray(self.words(*shape) >= np.uint64(1 << 63))
