"""Ciphertexts that are Python objects with ``+``, ``-`` and ``*``, for schemes not meant to be fast."""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Any

import numpy as np
from gbdt_kernels.limbs import from_rows
from numpy.typing import NDArray

from xgb_fed.cipher import Plaintexts
from xgb_fed.residues import check_words

Objects = NDArray[np.object_]


def object_array(items: list[Any]) -> Objects:
    """A one-dimensional array of the items themselves."""
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def integers(plaintexts: Plaintexts) -> list[int]:
    """Plaintexts, integers or rows of words, as integers."""
    if isinstance(plaintexts, np.ndarray) and plaintexts.ndim == 2:
        check_words(plaintexts)
        return from_rows(plaintexts)
    return [operator.index(x) for x in plaintexts]


class ObjectArithmetic:
    """The arithmetic of `cipher.PublicPart` on object arrays; subclasses give `zero`."""

    def zero(self) -> Any:
        """A ciphertext of 0."""
        raise NotImplementedError

    def add(self, a: Objects, b: Objects) -> Objects:
        """Sums, row by row."""
        return np.asarray(a + b, dtype=object)

    def subtract(self, a: Objects, b: Objects) -> Objects:
        """Differences, row by row."""
        return np.asarray(a - b, dtype=object)

    def sum_by_index(
        self, source: Objects, order: NDArray[np.integer[Any]], starts: NDArray[np.int64]
    ) -> Objects:
        """Sums of rows ``order[starts[i]:starts[i + 1]]``."""
        chosen = source[order]
        return object_array([sum(chosen[first:last], self.zero()) for first, last in pairwise(starts)])

    def scale(self, a: Objects, bits: int) -> Objects:
        """Every item times ``2^bits``."""
        return np.asarray(a * (1 << bits), dtype=object)

    def compress(self, a: Objects, bits: int, per_ciphertext: int) -> Objects:
        """Groups of consecutive plaintexts in one item each, the first of a group in its highest bits."""
        fill = [self.zero() for _ in range(-len(a) % per_ciphertext)]
        groups = np.concatenate([a, object_array(fill)]).reshape(-1, per_ciphertext)
        packed: Objects = groups[:, 0]
        for j in range(1, per_ciphertext):
            packed = self.add(self.scale(packed, bits), groups[:, j])
        return packed
