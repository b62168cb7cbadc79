"""Bit matrices of an extension: streams folded into columns, columns corrected, and turned into rows.

A batch has w words of 64 transfers.  A column holds one bit of each transfer, (w,) words with the first
transfer in the lowest bit; a row holds the 128 bits of one transfer in two words.
"""

from __future__ import annotations

import numpy as np

from gbdt_kernels.compilation import kernel

_LANES = 32
"""Words of each column that are turned at a time: their block fits the processor's first cache."""


@kernel
def fold(streams, first, columns, total):
    """Sums of 16 streams by the bits of their numbers: over GF(16), that is Σ_x x·stream_x.

    Of streams of shape (16, w), row ``first + m`` of `columns`, shape (128, w), becomes the exclusive or of
    those with bit m in their numbers, and `total`, shape (w,), that of all.
    """
    for w in range(streams.shape[1]):
        s3 = streams[3, w]
        s5, s6, s7 = streams[5, w], streams[6, w], streams[7, w]
        ones = streams[1, w] ^ s3 ^ s5 ^ s7
        s9, s11 = streams[9, w], streams[11, w]
        s13, s15 = streams[13, w], streams[15, w]
        upper_ones = s9 ^ s11 ^ s13 ^ s15
        s10, s14, s12 = streams[10, w], streams[14, w], streams[12, w]
        upper = streams[8, w] ^ s10 ^ s12 ^ s14 ^ upper_ones
        twos = streams[2, w] ^ s3 ^ s6 ^ s7
        columns[first, w] = ones ^ upper_ones
        columns[first + 1, w] = twos ^ s10 ^ s11 ^ s14 ^ s15
        columns[first + 2, w] = streams[4, w] ^ s5 ^ s6 ^ s7 ^ s12 ^ s13 ^ s14 ^ s15
        columns[first + 3, w] = upper
        # Those below 8 are: 0, the odd ones, 2, 4 and 6.
        total[w] = streams[0, w] ^ ones ^ streams[2, w] ^ streams[4, w] ^ s6 ^ upper


@kernel
def correct(columns, corrections, masks):
    """Add to each column, shape (128, w), the correction of its block, under its mask of ones or zeros.

    Row b of the corrections, shape (32, w), is for columns 4b to 4b + 3.
    """
    for c in range(columns.shape[0]):
        mask = masks[c]
        for w in range(columns.shape[1]):
            columns[c, w] ^= corrections[c >> 2, w] & mask


@kernel
def transpose(columns, rows):
    """128 columns, shape (128, w), as rows, shape (64 · w, 2), which are written."""
    block = np.empty((128, _LANES), np.uint64)
    n_words = rows.shape[0] // 64
    for first in range(0, n_words, _LANES):
        lanes = min(_LANES, n_words - first)
        for c in range(128):
            for w in range(lanes):
                block[c, w] = columns[c, first + w]
        # Swaps of blocks of 32, 16, ... 1 bits (Warren, "Hacker's Delight", section 7-3), in both halves.
        width = 32
        mask = np.uint64(0x00000000FFFFFFFF)
        while width:
            shift = np.uint64(width)
            k = 0
            while k < 128:
                for w in range(_LANES):
                    low, high = block[k, w], block[k + width, w]
                    t = ((low >> shift) ^ high) & mask
                    block[k, w] = low ^ (t << shift)
                    block[k + width, w] = high ^ t
                k = (k + width + 1) & ~width
            width >>= 1
            mask ^= mask << np.uint64(width)
        for w in range(lanes):
            for r in range(64):
                rows[64 * (first + w) + r, 0] = block[r, w]
                rows[64 * (first + w) + r, 1] = block[64 + r, w]


@kernel
def choice_words(numbers, n_bits, highest_first, words):
    """The bits of numbers (uint8) as choices of transfers, all rows' first bits before all second ones.

    The first bit is the highest of `n_bits`, or the lowest. `words`, shape (n_bits · ceil(n / 64),), are
    written, with zeros beyond the last row.
    """
    per = words.size // n_bits
    for k in range(words.size):
        words[k] = np.uint64(0)
    for t in range(n_bits):
        shift = n_bits - 1 - t if highest_first else t
        for i in range(numbers.size):
            bit = np.uint64((numbers[i] >> shift) & 1)
            words[t * per + (i >> 6)] |= bit << np.uint64(i & 63)
