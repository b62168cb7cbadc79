"""Tags of binned rows: a pseudo-random word per row that depends on its own codes and a salt alone.

Equal rows have equal tags, wherever they are and whatever other rows there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.threads import blocks, run
from gbdt_kernels.trees.columns import Columns, SparseColumns
from gbdt_kernels.trees.planes import ROWS_PER_BLOCK

_ROWS_AT_ONCE = 8 * ROWS_PER_BLOCK
_CODES = 256


@kernel
def _add_words(codes, words, tags):
    """Add the word of each code, shape (n_features, n_rows), to the tag of its row."""
    for f in range(len(codes)):
        for row in range(len(tags)):
            tags[row] += words[f, codes[f, row]]


@kernel
def _add_entries(rows, codes, words, zero_word, tags):
    """Put the words of one feature's entries in the place of that of zero."""
    for e in range(len(rows)):
        tags[rows[e]] += words[codes[e]] - zero_word


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection of words."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def _mix(words: NDArray[np.uint64]) -> None:
    """Mix some words in place: a few at a time, since steps in between take twice as much memory."""
    words[:] = _mixed(words)


def _words_of_codes(n_features: int, salt: int) -> NDArray[np.uint64]:
    """A word for each code of each feature, shape (n_features, 256)."""
    numbers = np.arange(1, n_features * _CODES + 1, dtype=np.uint64)
    return _mixed(np.uint64(salt) + numbers * np.uint64(0x9E3779B97F4A7C15)).reshape(n_features, _CODES)


def row_tags(columns: Columns, salt: int, n_threads: int = 0) -> NDArray[np.uint64]:
    """A word for each row: the mixed sum, modulo 2^64, of a word for each of its codes.

    The same codes give the same tags in both forms of columns; other salts, from 0 to 2^64 - 1, give others.
    """
    n_rows = columns.n_rows
    if isinstance(columns, SparseColumns):
        words = _words_of_codes(len(columns.zero_codes), salt)
        zero_words = words[np.arange(len(words)), columns.zero_codes]
        tags = np.full(n_rows, zero_words.sum(dtype=np.uint64), dtype=np.uint64)
        for f, zero_word in enumerate(zero_words):
            entries = slice(columns.indptr[f], columns.indptr[f + 1])
            _add_entries(columns.rows[entries], columns.codes[entries], words[f], zero_word, tags)
        for first in range(0, n_rows, _ROWS_AT_ONCE):
            _mix(tags[first : first + _ROWS_AT_ONCE])
        return tags
    n_features = len(columns.planes.plane_offsets) - 1
    words = _words_of_codes(n_features, salt)
    tags = np.zeros(n_rows, dtype=np.uint64)

    def work(_part: int, first: int, last: int) -> None:
        for block in range(first, last):
            own = tags[block * _ROWS_AT_ONCE : (block + 1) * _ROWS_AT_ONCE]
            codes = columns.codes(block * (_ROWS_AT_ONCE // ROWS_PER_BLOCK), len(own))
            _add_words(codes, words, own)
            _mix(own)

    run(work, blocks(-(-n_rows // _ROWS_AT_ONCE), n_threads, _ROWS_AT_ONCE * n_features))
    return tags
