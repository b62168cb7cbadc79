"""Gradients as exact integers, and exact sums of them.

The largest |g| and |h| of a tree are scaled to 1 by powers of two that only the
active party knows: the packing is then the same for every objective, weight and
label range, so that bit lengths disclose nothing.  A value is off by at most
2^-54 of the largest one. Sums of the integers are exact in any order, so that a model does not depend on who
holds which column.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.messages import Parts
from xgb_fed.boosting.objectives import MIN_HESSIAN
from xgb_fed.ciphers.base import Ciphertexts, PrivateKey
from xgb_fed.vertical.protocol.messages import Gradients
from xgb_fed.vertical.protocol.packing import MultiClassPacking, joined, split_halves
from xgb_fed.vertical.trees.partition import Partition


def without_floor(g: NDArray[np.float32], h: NDArray[np.float32]) -> NDArray[np.float32]:
    """Hessians with 0 for rows that have neither gradient nor more than XGBoost's floor.

    The floor is close to the unit of the grid, which would keep it in exact sums.  XGBoost's float64 sums
    mostly lose it, and a tie between candidates can depend on it.
    """
    return np.where((g == 0) & (h <= MIN_HESSIAN), np.float32(0), h)


def apart_from_zero(h: NDArray[np.float32]) -> NDArray[np.float32]:
    """Hessians on the grid of integers, where positive ones stay positive.

    For ``survival:cox``, whose hessians differ by 20 powers of ten where margins are far apart: XGBoost gives
    a node or category without hessian the weight 0, and one with any hessian −G / (H + λ).  A row changes by
    at most 2^-52 of the largest hessian.  Hessians of other objectives stay as they are: they have a floor,
    or they are weights, of whose sums nothing may be lost to rows that weigh next to nothing.
    """
    return np.where(h > 0, np.maximum(h, np.ldexp(h.max(initial=0), -52)), h)


@dataclass
class FixedPointGradients:
    """Scaled integer gradients of all rows, shape (n_rows, n_classes).

    They are scaled by 2^(53 − exponent).  The exponents are private powers of two: the largest |g| is below
    2^g_exponent.
    """

    packing: MultiClassPacking
    g: NDArray[np.int64]
    h: NDArray[np.int64]
    g_exponent: int
    h_exponent: int
    halves: NDArray[np.int32] = field(init=False, repr=False)
    """Shape (2, 2, n_classes, n_rows): g and h, each as high and low halves."""

    def __post_init__(self) -> None:
        self.halves = np.stack([split_halves(self.g.T), split_halves(self.h.T)])

    @classmethod
    def scaled(
        cls, g: NDArray[np.float64], h: NDArray[np.float64], packing: MultiClassPacking
    ) -> FixedPointGradients:
        """Scale and round float gradients, shape (n_rows, n_classes)."""
        g_exponent, h_exponent = _exponent(g), _exponent(h)
        integers = [
            packing.gh.fixed_point(np.ldexp(g[:, k], -g_exponent), np.ldexp(h[:, k], -h_exponent))
            for k in range(g.shape[1])
        ]
        return cls(
            packing,
            np.stack([one[0] for one in integers], axis=1),
            np.stack([one[1] for one in integers], axis=1),
            g_exponent,
            h_exponent,
        )

    def plaintexts(self, rows: NDArray[np.int32]) -> NDArray[np.uint64]:
        """Packed plaintexts of some rows, shape (n_groups, n_rows, words)."""
        r = self.packing.gh.precision
        return self.packing.encode(np.ldexp(self.g[rows], -r), np.ldexp(self.h[rows], -r))

    def node_sums(self, partition: Partition) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Exact high and low sums, (2, 2, n_classes, n_nodes), and the number of rows, of each node."""
        planes = self.halves.reshape(-1, self.halves.shape[-1])
        sums = np.empty((len(planes), partition.n_nodes), dtype=np.int64)
        # Node by node: running sums of all rows would take more than the gradients themselves.
        for node in range(partition.n_nodes):
            rows = partition.of(node).astype(np.intp)
            sums[:, node] = [plane[rows].sum(dtype=np.int64) for plane in planes]
        return sums.reshape(*self.halves.shape[:3], -1), partition.sizes()

    def to_float(self, sums: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """G and h of exact sums, shape (2, 2, ...): each the float64 nearest to its sum."""
        g, h = (joined(part) for part in sums)
        r = self.packing.gh.precision
        return np.ldexp(g, self.g_exponent - r), np.ldexp(h, self.h_exponent - r)


def _exponent(values: NDArray[np.float64]) -> int:
    largest = float(np.abs(values).max(initial=0.0))
    mantissa, exponent = np.frexp(largest)
    # A power of two itself need not be below the next one: 1 is allowed.
    return int(exponent) - int(mantissa == 0.5) if largest else 0


PART_BYTES = 1 << 20
"""Bytes of ciphertexts that are encrypted at a time: as many as a frame of the transport takes."""


class GradientsAhead:
    """Encrypts a sample's gradients in a thread of its own, at most one message ahead of the one being sent.

    A message has the gradients of `rows_at_once` of the sample's rows.
    """

    def __init__(
        self, key: PrivateKey, gradients: FixedPointGradients, rows: NDArray[np.int32], rows_at_once: int
    ) -> None:
        self._key, self._gradients, self._rows = key, gradients, rows
        self._rows_of_part = max(1, PART_BYTES // key.public.ciphertext_bytes)
        self._next = (
            (group, rows[start : start + rows_at_once], start)
            for group in range(len(gradients.packing.groups))
            for start in range(0, len(rows), rows_at_once)
        )
        self._begun: deque[Gradients] = deque()
        self.worker = ThreadPoolExecutor(1, thread_name_prefix="xgb_fed_encrypt")

    def __enter__(self) -> GradientsAhead:
        """Begin with the first message."""
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give up what is not encrypted yet."""
        self.worker.shutdown(cancel_futures=True)

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
            made = [self.worker.submit(next, pieces) for _ in range(len(parts) + 2)]
            self._begun.append(Gradients(group, start, Parts(n_bytes, made)))

    def _encrypted(self, group: int, rows: NDArray[np.int32]) -> Ciphertexts:
        return self._key.encrypt(self._gradients.plaintexts(rows)[group])
