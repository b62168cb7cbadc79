"""Tables of ring elements masked entry by entry, and one entry of each unmasked.

Elements are words modulo 2^64, sent as parts of 16 bits: 3 of them for a ring of 48 bits, 4 for 64.
A pad is the exclusive or of two blocks, outer and inner; a block gives two words.
"""

from __future__ import annotations

import numpy as np

from gbdt_kernels.compilation import kernel


@kernel
def mask_tables(table, inner, outer, shares, message):
    """Mask all entries but the first, which fixes this side's share.

    With pads P_j, share = T_0 + P_0 and message_j = T_j − share + P_j: entry 0 would be sent as 0. The table
    has shape (n, n_points, n_outputs); `inner` and `outer` have shape (n, n_points, n_blocks, 2), with
    2·n_blocks at least n_outputs.

    Writes `shares`, shape (n, n_outputs), and `message`, uint16 of shape
    (n, n_points - 1, n_outputs, n_parts) with 3 or 4 parts.
    """
    n_parts = message.shape[3]
    for i in range(table.shape[0]):
        for o in range(table.shape[2]):
            k = o >> 1
            w = o & 1
            share = table[i, 0, o] + (inner[i, 0, k, w] ^ outer[i, 0, k, w])
            shares[i, o] = share
            for j in range(1, table.shape[1]):
                masked = table[i, j, o] - share + (inner[i, j, k, w] ^ outer[i, j, k, w])
                message[i, j - 1, o, 0] = np.uint16(masked)
                message[i, j - 1, o, 1] = np.uint16(masked >> np.uint64(16))
                message[i, j - 1, o, 2] = np.uint16(masked >> np.uint64(32))
                if n_parts == 4:
                    message[i, j - 1, o, 3] = np.uint16(masked >> np.uint64(48))


@kernel
def unmask_entries(points, inner, outer, message, shares):
    """The other side's shares: entry minus the first side's share, by reading all entries under masks.

    `points`, uint8 of shape (n,), say which entry; `inner` and `outer` are as for `mask_tables`, with one
    point, and `shares` is written.
    """
    n_parts = message.shape[3]
    for i in range(points.size):
        point = np.uint64(points[i])
        for o in range(shares.shape[1]):
            entry = np.uint64(0)
            for j in range(1, message.shape[1] + 1):
                # All ones if the difference is zero: only then does subtracting 1 set the highest bit.
                same = np.uint64(0) - (((point ^ np.uint64(j)) - np.uint64(1)) >> np.uint64(63))
                word = np.uint64(message[i, j - 1, o, 0])
                word |= np.uint64(message[i, j - 1, o, 1]) << np.uint64(16)
                word |= np.uint64(message[i, j - 1, o, 2]) << np.uint64(32)
                if n_parts == 4:
                    word |= np.uint64(message[i, j - 1, o, 3]) << np.uint64(48)
                entry |= word & same
            shares[i, o] = entry - (inner[i, 0, o >> 1, o & 1] ^ outer[i, 0, o >> 1, o & 1])
