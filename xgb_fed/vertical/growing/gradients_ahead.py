"""Encrypted gradients on their way: a message is sent in parts while the following ones are encrypted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.parts import Parts
from xgb_fed.ciphers.base import Ciphertexts, PrivateKey
from xgb_fed.vertical.growing.gradients import FixedPointGradients
from xgb_fed.vertical.protocol.messages import Gradients

PART_BYTES = 1 << 20
"""Bytes of ciphertexts that are encrypted at a time: as many as a frame of the transport takes."""


class GradientsAhead:
    """Encrypts a sample's gradients in a thread of its own, at most one message ahead of the one being sent.

    Parameters
    ----------
    key : PrivateKey
    gradients : FixedPointGradients
    rows : ndarray of int32
        The sample.
    rows_at_once : int
        Rows of a message.
    """

    def __init__(
        self,
        key: PrivateKey,
        gradients: FixedPointGradients,
        rows: NDArray[np.int32],
        rows_at_once: int,
    ) -> None:
        self._key, self._gradients, self._rows = key, gradients, rows
        self._rows_of_part = max(1, PART_BYTES // key.public.ciphertext_bytes)
        self._next = (
            (group, rows[start : start + rows_at_once], start)
            for group in range(len(gradients.packing.groups))
            for start in range(0, len(rows), rows_at_once)
        )
        self._begun: deque[Gradients] = deque()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="xgb_fed_encrypt")

    def __enter__(self) -> GradientsAhead:
        """Begin with the first message."""
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give up what is not encrypted yet."""
        self._worker.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[Gradients]:
        """Give the messages in order; the encryption of the next one is asked for when one is given."""
        while self._begun:
            self._begin()
            yield self._begun.popleft()

    def _begin(self) -> None:
        """Ask for the encryption of the next message, if there is one more."""
        for group, rows, start in islice(self._next, 1):
            parts = [rows[k : k + self._rows_of_part] for k in range(0, len(rows), self._rows_of_part)]
            encrypted = map(partial(self._encrypted, group), parts)
            n_bytes, pieces = self._key.to_bytes_in_parts(len(rows), encrypted)
            # Beside the parts a header and a digest; one thread makes all of them, in this order.
            made = [self._worker.submit(next, pieces) for _ in range(len(parts) + 2)]
            self._begun.append(Gradients(group, start, Parts(n_bytes, made)))

    def _encrypted(self, group: int, rows: NDArray[np.int32]) -> Ciphertexts:
        return self._key.encrypt(self._gradients.plaintexts(rows)[group])
