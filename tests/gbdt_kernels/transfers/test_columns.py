"""Bit matrices, beside the same operations on integers."""

import os

import numpy as np
import pytest

from drawn_words import words
from gbdt_kernels.transfers.columns import choice_words, correct, fold, transpose


@pytest.mark.parametrize("w", [1, 2, 7])
def test_folds_are_sums_by_the_bits_of_numbers(w):
    streams, columns, total = words(16, w), words(128, w), np.empty(w, np.uint64)
    before = columns.copy()
    fold(streams, 8, columns, total)
    for m in range(4):
        chosen = [streams[x] for x in range(16) if x >> m & 1]
        assert (columns[8 + m] == np.bitwise_xor.reduce(chosen)).all()
    assert (total == np.bitwise_xor.reduce(streams)).all()
    kept = np.r_[0:8, 12:128]
    assert (columns[kept] == before[kept]).all()


def test_corrections_reach_the_columns_under_their_masks():
    columns, corrections = words(128, 3), words(32, 3)
    bits = np.unpackbits(np.frombuffer(os.urandom(16), np.uint8)).astype(np.uint64)
    found = columns.copy()
    correct(found, corrections, -bits)
    for c in range(128):
        assert (found[c] == (columns[c] ^ corrections[c // 4] if bits[c] else columns[c])).all()


@pytest.mark.parametrize(("w", "n"), [(1, 64), (3, 192), (5, 128), (32, 2048), (70, 64 * 67)])
def test_rows_are_columns_transposed(w, n):
    columns, rows = words(128, w), np.empty((n, 2), np.uint64)
    transpose(columns, rows)
    bits = np.unpackbits(columns.view(np.uint8), axis=1, bitorder="little")
    assert (np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little") == bits.T[:n]).all()


@pytest.mark.parametrize("highest_first", [False, True])
@pytest.mark.parametrize(("n", "n_bits"), [(1, 1), (63, 4), (64, 8), (130, 6)])
def test_choices_are_the_bits_of_numbers(n, n_bits, highest_first):
    numbers = np.frombuffer(os.urandom(n), np.uint8) >> np.uint8(8 - n_bits)
    per = -(-n // 64)
    found = words(n_bits * per)
    choice_words(numbers, n_bits, highest_first, found)
    bits = np.unpackbits(found.view(np.uint8), bitorder="little").reshape(n_bits, 64 * per)
    for t in range(n_bits):
        shift = n_bits - 1 - t if highest_first else t
        assert (bits[t, :n] == numbers >> shift & 1).all()
        assert not bits[t, n:].any()
