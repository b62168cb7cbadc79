"""Indices out of range are refused before a kernel reads by them."""

import numpy as np
import pytest

from gbdt_kernels.residues.bin_chains import NO_BIN, bin_chains, bin_counts
from gbdt_kernels.residues.indices import check_starts


def test_nothing_out_of_range_reaches_the_kernels():
    codes = np.zeros((4, 2), dtype=np.uint8)
    rows, starts, offsets = np.arange(4), np.array([0, 4]), np.array([0, 1, 2])
    counts = bin_counts(codes, rows, starts, offsets)
    left_out = np.full((1, 2), NO_BIN)

    def both(codes=codes, rows=rows, starts=starts):
        with_counts = (np.arange(2), counts, left_out)
        yield lambda: bin_counts(codes, rows, starts, offsets)
        yield lambda: bin_chains(codes, rows, starts, offsets, *with_counts)

    for bad in (codes[:, :1], codes + np.uint8(1), codes.astype(np.int8), codes[:, 0]):
        for call in both(codes=bad):
            with pytest.raises(ValueError, match="code"):
                call()
    for call in both(starts=starts + 1):
        with pytest.raises(ValueError, match="starts"):
            call()
    for bad in (rows + 1, rows - 1):
        for call in both(rows=bad):
            with pytest.raises(IndexError):
                call()


def test_starts_must_be_signed():
    with pytest.raises(ValueError, match="signed"):
        check_starts(np.array([5, 0], dtype=np.uint64), 10)
