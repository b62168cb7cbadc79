"""Shares of rows pushed down a tree by bits that one side knows, and summed over its leaves.

Level t has 2^t nodes.  Node j's value v goes to (1 − b)·v in child 2j and b·v in child 2j + 1, b the row's
bit at that level, 0 for left.  One side has shares and no bits, the other one shares and bits; the product of
the bit with the first side's share u is shared by a correlated transfer: that side's pads are r = H(q) and
H(q + Δ), it sends d = r − H(q + Δ) + u, and keeps −r; the other one has z = H(q + b·Δ) + b·d = r + b·u.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gbdt_kernels.compilation import kernel


@kernel
def send_down(shares: Any, n_levels: int, inner: Any, outer: Any, message: Any, sums: Any) -> None:
    """The side without bits: corrections for every node, and its shares of the leaves' sums.

    Parameters
    ----------
    shares : ndarray of uint64, shape (n,)
    n_levels : int
        1 to 6.
    inner : ndarray of uint64, shape (n, 2, n_levels, 2)
    outer : ndarray of uint64, shape (n, 2, 2^(n_levels - 1), 2)
        The exclusive or of a level's block and each of its nodes' has the pads of q and q + Δ.
    message : ndarray of uint16, shape (n, 2^n_levels - 1, n_parts)
        Filled; n_parts is 3 or 4.
    sums : ndarray of uint64, shape (2^n_levels,)
        Added to.
    """
    n_parts = message.shape[2]
    values = np.empty(64, np.uint64)
    for i in range(shares.size):
        values[0] = shares[i]
        for t in range(n_levels):
            first, node = 1 << t >> 1, (1 << t) - 1
            # From the last node on: children take the places of nodes that have been read.
            for j in range(node, -1, -1):
                k, w = first + (j >> 1), j & 1
                above = values[j]
                r = inner[i, 0, t, w] ^ outer[i, 0, k, w]
                d = r - (inner[i, 1, t, w] ^ outer[i, 1, k, w]) + above
                message[i, node + j, 0] = np.uint16(d)
                message[i, node + j, 1] = np.uint16(d >> np.uint64(16))
                message[i, node + j, 2] = np.uint16(d >> np.uint64(32))
                if n_parts == 4:
                    message[i, node + j, 3] = np.uint16(d >> np.uint64(48))
                values[2 * j] = above + r
                values[2 * j + 1] = np.uint64(0) - r
        for j in range(1 << n_levels):
            sums[j] += values[j]


@kernel
def receive_down(
    shares: Any, leaves: Any, n_levels: int, inner: Any, outer: Any, message: Any, sums: Any
) -> None:
    """The side with bits: its shares of the leaves' sums.

    Parameters
    ----------
    shares : ndarray of uint64, shape (n,)
    leaves : ndarray of uint8, shape (n,)
        Numbers below 2^n_levels; the highest bit is that of the first level.
    n_levels : int
        1 to 6.
    inner : ndarray of uint64, shape (n, 1, n_levels, 2)
    outer : ndarray of uint64, shape (n, 1, 2^(n_levels - 1), 2)
        The exclusive or of a level's block and each of its nodes' has the pads of q + b·Δ.
    message : ndarray of uint16, shape (n, 2^n_levels - 1, n_parts)
    sums : ndarray of uint64, shape (2^n_levels,)
        Added to.
    """
    n_parts = message.shape[2]
    values = np.empty(64, np.uint64)
    for i in range(shares.size):
        values[0] = shares[i]
        for t in range(n_levels):
            first, node = 1 << t >> 1, (1 << t) - 1
            bit = np.uint64((leaves[i] >> (n_levels - 1 - t)) & 1)
            set_bits = np.uint64(0) - bit
            for j in range(node, -1, -1):
                k, w = first + (j >> 1), j & 1
                above = values[j]
                d = np.uint64(message[i, node + j, 0])
                d |= np.uint64(message[i, node + j, 1]) << np.uint64(16)
                d |= np.uint64(message[i, node + j, 2]) << np.uint64(32)
                if n_parts == 4:
                    d |= np.uint64(message[i, node + j, 3]) << np.uint64(48)
                z = (inner[i, 0, t, w] ^ outer[i, 0, k, w]) + (d & set_bits)
                values[2 * j] = (above & ~set_bits) - z
                values[2 * j + 1] = (above & set_bits) + z
        for j in range(1 << n_levels):
            sums[j] += values[j]
