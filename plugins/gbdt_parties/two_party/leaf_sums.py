"""Sums of shared values over the leaves of a tree that one side alone can route rows through.

Functionality: A has a share u_i of every row, B has the other share and the row's leaf l_i; afterwards A
and B have shares of Σ_(i: l_i = l) (u_i + u'_i) for every leaf l, and neither has learnt anything.

Source: correlated transfers in a ring, after Gilboa's products (CRYPTO 1999) and Asharov et al. (CCS
2013); level by level down a tree, so that one transfer serves all nodes of a level.

B chooses with the bits of l, that of the first level first.  At a node with the shared value v, the bit b
times A's share u is shared: with pads r = H(q) and H(q ⊕ Δ), A sends d = r − H(q ⊕ Δ) + u and keeps −r; B
takes z = H(q ⊕ bΔ) + b·d.  Child 1 is (−r) + (z + b·u'), child 0 (u + r) + ((1 − b)·u' − z).

* *The sums are right*: z = r + b·u for either b, hence child 1 has b·(u + u'), and child 0 (1 − b)·(u +
  u'); after the last level a row's value is at its leaf and 0 is at all others.
* *B learns nothing of u*: of r and H(q ⊕ Δ) it has one, the other looks uniform (`pads`) and masks d.  All
  nodes of a level have other counters, or other words of a block.
* *A learns nothing of l*: it receives nothing but the transfers' messages.
* *B's bits are bits*, whatever it does: A's side of z is r + b·u for the b of the transfer, or random
  where the transfer is not consistent.  The same transfer serves all nodes of a level, so that a row is in
  one leaf.
* *A that deviates* by adding x to d adds b·x to a leaf's sum.  That is not noticed; `rounds` says so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.transfers.leaves import receive_down, send_down
from gbdt_kernels.transfers.pads import descend
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.two_party.pads import PIECE, Pads, Words, aligned

MAX_LEVELS = 6


def check_levels(levels: int) -> None:
    """Raise `PartyArgumentError` for a depth that the wire has no room for: one that is not 1 to 6."""
    if not 1 <= levels <= MAX_LEVELS:
        raise PartyArgumentError(f"levels={levels} of a tree must be 1 to {MAX_LEVELS}")


def message_bytes(n: int, levels: int, ring_bits: int) -> int:
    """Length of A's message for n rows."""
    return n * ((1 << levels) - 1) * (ring_bits // 8)


class SumSender:
    """The side without bits, for the rows of one tree in one step, in a ring of 48 or 64 bits.

    The difference is that of the transfers.  `sums`, shape (2**levels,), has this side's shares so far,
    modulo 2**64.
    """

    def __init__(self, pads: Pads, difference: Words, levels: int, ring_bits: int) -> None:
        check_levels(levels)
        self._pads, self._levels, self._parts = pads, levels, ring_bits // 16
        self._offsets = np.stack([np.zeros(2, dtype=np.uint64), difference])
        self.sums: Words = np.zeros(1 << levels, dtype=np.uint64)

    def add(self, rows: Words, first: int, shares: Words) -> memoryview:
        """Add some rows, from number `first` in the step on; gives the bytes for the other side.

        `rows` is q of the transfers of each level, shape (levels·m, 2), m ≥ n of them for n shares.
        """
        n = len(shares)
        message = np.empty((n, len(self.sums) - 1, self._parts), dtype="<u2")
        for start in range(0, n, PIECE):
            piece = slice(start, min(start + PIECE, n))
            inputs = np.empty((piece.stop - start, 2, self._levels, 2), dtype=np.uint64)
            descend(rows, self._offsets, self._levels, start, inputs)
            inner, outer = self._pads.hashed_levels(inputs, first + start)
            send_down(shares[piece], self._levels, inner, outer, message[piece], self.sums)
        return message.data.cast("B")


class SumReceiver:
    """The side that knows every row's leaf, for the rows of one tree in one step; see `SumSender`."""

    def __init__(self, pads: Pads, levels: int, ring_bits: int) -> None:
        check_levels(levels)
        self._pads, self._levels, self._ring_bits = pads, levels, ring_bits
        self.sums: Words = np.zeros(1 << levels, dtype=np.uint64)

    def add(
        self, rows: Words, first: int, leaves: NDArray[np.uint8], shares: Words, message: bytes | memoryview
    ) -> None:
        """Add some rows, from number `first` in the step on.

        `rows` is t of the transfers of each level, shape (levels·m, 2), m ≥ n of them for n rows; leaves are
        as they were chosen with.  Raises `ProtocolError` if the message has another length.
        """
        n, due = len(leaves), message_bytes(len(leaves), self._levels, self._ring_bits)
        if len(message) != due:
            raise ProtocolError(f"corrections of sums of {len(message)} bytes where {due} were due")
        corrections = np.frombuffer(message, dtype="<u2").reshape(n, len(self.sums) - 1, -1)
        nothing = np.zeros((1, 2), dtype=np.uint64)
        for start in range(0, n, PIECE):
            piece = slice(start, min(start + PIECE, n))
            inputs = np.empty((piece.stop - start, 1, self._levels, 2), dtype=np.uint64)
            descend(rows, nothing, self._levels, start, inputs)
            inner, outer = self._pads.hashed_levels(inputs, first + start)
            parts = aligned(corrections[piece])
            receive_down(shares[piece], leaves[piece], self._levels, inner, outer, parts, self.sums)
