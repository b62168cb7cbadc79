"""Shares of rows pushed down a tree by bits that one side knows, and summed over its leaves.

Level t has 2^t nodes.  Node j's value v goes to (1 − b)·v in child 2j and b·v in child 2j + 1, b the row's
bit at that level, 0 for left.  One side has shares and no bits, the other one shares and bits; the product of
the bit with the first side's share u is shared by a correlated transfer: that side's pads are r = H(q) and
H(q + Δ), it sends d = r − H(q + Δ) + u, and keeps −r; the other one has z = H(q + b·Δ) + b·d = r + b·u.
"""

from __future__ import annotations

import numpy as np

from gbdt_kernels.compilation import kernel


@kernel
def send_down(shares, n_levels, inner, outer, message, sums):
    """The side without bits: corrections for every node, and its shares of the leaves' sums.

    `shares` has shape (n,); there are 1 to 6 levels. `inner`, shape (n, 2, n_levels, 2), and `outer`, shape
    (n, 2, 2^(n_levels - 1), 2), are such that the exclusive or of a level's block and each of its nodes' has
    the pads of q and q + Δ. Writes `message`, uint16 of shape (n, 2^n_levels - 1, n_parts) with 3 or 4 parts,
    and adds to `sums`, shape (2^n_levels,).
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
def receive_down(shares, leaves, n_levels, inner, outer, message, sums):
    """The side with bits: its shares of the leaves' sums, added to `sums`.

    `leaves`, shape (n,), are numbers below 2^n_levels, whose highest bit is that of the first level. `inner`
    and `outer` are as for `send_down`, but with one block, of the pads of q + b·Δ, instead of two; the other
    arguments are those of `send_down`.
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
