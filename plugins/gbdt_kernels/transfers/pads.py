"""Inputs of the hash that turns transfers into pads: combined, shifted by multiples of a secret, tweaked.

Blocks of 128 bits are two words, the low one first; as elements of GF(2^128) their lowest bit is the constant
coefficient, and the modulus is x^128 + x^7 + x^2 + x + 1.
"""

from __future__ import annotations

import numpy as np

from gbdt_kernels.compilation import kernel


@kernel
def combine(rows, n_bits, combined):
    """Σ_t x^t·row_t over the transfers of each number's bits, the lowest bit first.

    If the other side's rows differ by bit_t·Δ, then the sums differ by number·Δ, the number taken as a
    polynomial. `rows`, shape (n_bits · m, 2), has m transfers of the lowest bit, then m of the next one, of
    at most 8 bits. Writes `combined`, shape (m, 2).
    """
    per = rows.shape[0] // n_bits
    for i in range(combined.shape[0]):
        low = np.uint64(0)
        high = np.uint64(0)
        for t in range(n_bits - 1, -1, -1):
            carry = high >> np.uint64(63)
            high = (high << np.uint64(1)) | (low >> np.uint64(63))
            low = (low << np.uint64(1)) ^ (carry * np.uint64(0x87))
            low ^= rows[t * per + i, 0]
            high ^= rows[t * per + i, 1]
        combined[i, 0] = low
        combined[i, 1] = high


@kernel
def spread(keys, offsets, n_blocks, inputs):
    """Every key with every offset added, `n_blocks` times each.

    Of keys of shape (n, 2) and offsets of shape (k, 2), writes `inputs` of shape (n, k, n_blocks, 2).
    """
    for i in range(keys.shape[0]):
        for j in range(offsets.shape[0]):
            low = keys[i, 0] ^ offsets[j, 0]
            high = keys[i, 1] ^ offsets[j, 1]
            for k in range(n_blocks):
                inputs[i, j, k, 0] = low
                inputs[i, j, k, 1] = high


@kernel
def descend(rows, offsets, n_levels, first, inputs):
    """The transfers of a row's levels, with offsets added: `inputs`, shape (n, k, n_levels, 2), is written.

    `rows`, shape (n_levels · m, 2), has m transfers of the first of up to 6 levels, then m of the next one.
    The first one used has number `first`, at most m - n; offsets have shape (k, 2).
    """
    per = rows.shape[0] // n_levels
    for i in range(inputs.shape[0]):
        for j in range(offsets.shape[0]):
            for t in range(n_levels):
                inputs[i, j, t, 0] = rows[t * per + first + i, 0] ^ offsets[j, 0]
                inputs[i, j, t, 1] = rows[t * per + first + i, 1] ^ offsets[j, 1]


@kernel
def tweak(blocks, first, tweaked):
    """Blocks with a counter added: the same for all offsets, another for every row and block.

    Blocks, and `tweaked`, which is written, have shape (n, k, n_blocks, 2); the first row's first block
    counts as `first`.
    """
    n_blocks = blocks.shape[2]
    for i in range(blocks.shape[0]):
        for j in range(blocks.shape[1]):
            for k in range(n_blocks):
                tweaked[i, j, k, 0] = blocks[i, j, k, 0] ^ np.uint64(first + i * n_blocks + k)
                tweaked[i, j, k, 1] = blocks[i, j, k, 1]


@kernel
def tweak_levels(blocks, first, tweaked):
    """As `tweak`, with a block for every level repeated as often as the nodes of the level need.

    Level t has 2^t nodes, and a hashed block serves two of them: blocks of levels 0, 1, 2, ... begin at 0, 1,
    2, 4, 8, 16. Of blocks of shape (n, k, n_levels, 2), writes `tweaked` of shape (n, k, 2^(n_levels - 1),
    2).
    """
    n_blocks = tweaked.shape[2]
    for i in range(blocks.shape[0]):
        for j in range(blocks.shape[1]):
            for t in range(blocks.shape[2]):
                low, high = blocks[i, j, t, 0], blocks[i, j, t, 1]
                for k in range(1 << t >> 1, 1 << t if t else 1):
                    tweaked[i, j, k, 0] = low ^ np.uint64(first + i * n_blocks + k)
                    tweaked[i, j, k, 1] = high
