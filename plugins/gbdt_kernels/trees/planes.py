"""Bit planes hold binned codes one bit next to the same bit of other rows, 64 rows per word.

Comparing with a threshold then takes a few bitwise operations for all rows of a block. The planes keep a
code's rank among those of its feature that rows have, so that a column of two values takes one bit per row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.threads import blocks, run
from gbdt_kernels.trees.binning import present_codes
from gbdt_kernels.trees.layout import offsets

ROWS_PER_BLOCK = 512  # also in the machine code of `gbdt_kernels.trees.leaves`, which is cached
WORDS_PER_BLOCK = ROWS_PER_BLOCK // 64


@kernel
def _fill_planes(codes, rank, plane_offsets, first, last, block, planes):
    """Write the bit planes of blocks `first` to `last` - 1; `block` is scratch, 512 bytes."""
    n_blocks = (len(codes) + ROWS_PER_BLOCK - 1) // ROWS_PER_BLOCK
    for b in range(first, last):
        start = b * ROWS_PER_BLOCK
        n = len(codes) - start if len(codes) - start < ROWS_PER_BLOCK else ROWS_PER_BLOCK
        for j in range(n, ROWS_PER_BLOCK):
            block[j] = 0
        for f in range(codes.shape[1]):
            own = plane_offsets[f + 1] - plane_offsets[f]
            if own == 0:
                continue
            for j in range(n):
                block[j] = rank[f, codes[start + j, f]]
            at = (plane_offsets[f] * n_blocks + b * own) * WORDS_PER_BLOCK
            for bit in range(own):
                for w in range(WORDS_PER_BLOCK):
                    word = np.uint64(0)
                    for j in range(64):
                        word |= np.uint64((block[64 * w + j] >> bit) & 1) << np.uint64(j)
                    planes[at] = word
                    at += 1


@dataclass(frozen=True)
class BitPlanes:
    """Ranks of binned codes, bit by bit."""

    bits: NDArray[np.uint64]  # feature by feature, in blocks of 512 rows, lowest bit first, eight words each
    n_blocks: int
    plane_offsets: NDArray[np.int64]  # how many bits the features before take
    present: NDArray[np.uint8]  # codes that rows have, by feature, ascending: rank 0 is the first
    present_offsets: NDArray[np.int64]  # where each feature's codes lie

    @property
    def arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
        """The planes, as kernels take them."""
        return self.bits, self.plane_offsets, self.n_blocks

    @property
    def codes(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The codes of ranks, as kernels take them."""
        return self.present, self.present_offsets


def bit_planes(codes: NDArray[np.uint8], n_threads: int = 0) -> BitPlanes:
    """Bit planes of a binned matrix, shape (n_rows, n_features) in C order."""
    n_rows, n_features = codes.shape
    is_present = present_codes(codes, n_threads)
    n_present = np.count_nonzero(is_present, axis=1)
    rank = (np.cumsum(is_present, axis=1) - 1).astype(np.uint8)
    plane_offsets = offsets(np.array([max(0, int(n) - 1).bit_length() for n in n_present]))
    n_blocks = -(-n_rows // ROWS_PER_BLOCK)
    bits = aligned_words(n_blocks * int(plane_offsets[-1]) * WORDS_PER_BLOCK)

    def fill(_: int, first: int, last: int) -> None:
        block = np.empty(ROWS_PER_BLOCK, dtype=np.uint8)
        _fill_planes(codes, rank, plane_offsets, first, last, block, bits)

    run(fill, blocks(n_blocks, n_threads, ROWS_PER_BLOCK * n_features))
    present = np.nonzero(is_present)[1].astype(np.uint8)
    return BitPlanes(bits, n_blocks, plane_offsets, present, offsets(n_present))


def aligned_words(n: int) -> NDArray[np.uint64]:
    """Memory that starts with a cache line: vectors that lie across two lines take twice as long to load."""
    words = np.empty(n + WORDS_PER_BLOCK, dtype=np.uint64)
    start = -words.ctypes.data % (8 * WORDS_PER_BLOCK) // 8
    return words[start : start + n]
