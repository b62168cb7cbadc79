"""The chain of rows in every bin of every feature of a node, from which a ciphertext histogram is made.

Rows are sorted by bin (a counting sort, far cheaper than one product per row), so
that a multiplier always has many chains at work.  A chain can be left out: the
sum of a node's fullest bin is the node's total less the other bins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel
from gbdt_kernels.residues.limbs import check_rows, check_starts

NO_BIN = -1
"""In place of a bin to leave out: every bin is wanted."""


@kernel
def _count(codes, rows, starts, bin_offsets, counts):
    """Add the rows of each bin to ``counts``, int32 of shape (n_nodes, n_total_bins)."""
    for node in range(len(starts) - 1):
        for k in range(starts[node], starts[node + 1]):
            row = rows[k]
            for f in range(codes.shape[1]):
                counts[node, bin_offsets[f] + codes[row, f]] += 1


@kernel
def _sort_by_bin(codes, rows, starts, features, bin_offsets, counts, left_out, cursor, order, chain_starts):
    """Rows of each node and feature by bin; chains follow one another in the order node, feature, bin.

    `cursor` (int64) is scratch, as long as the largest number of bins.
    """
    chain = 0
    place = 0
    for node in range(len(starts) - 1):
        for f in features:
            first = bin_offsets[f]
            n_bins = bin_offsets[f + 1] - first
            skipped = left_out[node, f]
            for b in range(n_bins):
                chain_starts[chain] = place
                cursor[b] = place
                if b != skipped:
                    place += counts[node, first + b]
                chain += 1
            for k in range(starts[node], starts[node + 1]):
                b = codes[rows[k], f]
                if b != skipped:
                    order[cursor[b]] = rows[k]
                    cursor[b] += 1
    chain_starts[chain] = place


def bin_counts(
    codes: NDArray[np.unsignedinteger[Any]],
    rows: NDArray[np.integer[Any]],
    starts: NDArray[np.int64],
    bin_offsets: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Rows in each bin of each feature of each node, shape (n_nodes, bin_offsets[-1]).

    `codes` are uint8 or uint16 of shape (n_rows, n_features). `rows` are row numbers, node by node, and
    `starts`, shape (n_nodes + 1,), says where each node's begin; `bin_offsets`, shape (n_features + 1,),
    where each feature's bins lie.
    """
    _check(codes, rows, starts, bin_offsets)
    counts = np.zeros((len(starts) - 1, int(bin_offsets[-1])), dtype=np.int32)
    _count(codes, rows, starts, bin_offsets, counts)
    return counts


def bin_chains(
    codes: NDArray[np.unsignedinteger[Any]],
    rows: NDArray[np.integer[Any]],
    starts: NDArray[np.int64],
    bin_offsets: NDArray[np.int64],
    features: NDArray[np.int64],
    counts: NDArray[np.int32],
    left_out: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Chains of rows, one per bin, of some features of every node; other arguments are those of `bin_counts`.

    `counts` are from `bin_counts` of the same rows; `left_out`, shape (n_nodes, n_features), names a bin
    whose chain stays empty, or is `NO_BIN`.

    Returns row numbers, and where among them each chain starts, one number more than there are chains. Chains
    come in the order node, feature, bin.
    """
    _check(codes, rows, starts, bin_offsets)
    n_nodes, n_bins = len(starts) - 1, int(np.diff(bin_offsets)[features].sum())
    order = np.empty(len(rows) * len(features), dtype=np.int32)
    chain_starts = np.empty(n_nodes * n_bins + 1, dtype=np.int64)
    cursor = np.empty(np.diff(bin_offsets).max(initial=0), dtype=np.int64)
    _sort_by_bin(codes, rows, starts, features, bin_offsets, counts, left_out, cursor, order, chain_starts)
    return order[: chain_starts[-1]], chain_starts


def _check(
    codes: NDArray[Any], rows: NDArray[Any], starts: NDArray[np.int64], bin_offsets: NDArray[np.int64]
) -> None:
    """Refuse what would make the kernels read or write elsewhere."""
    n_bins = np.diff(bin_offsets)
    if codes.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"codes are uint8 or uint16, not {codes.dtype}")
    if codes.ndim != 2 or codes.shape[1] != len(n_bins):
        raise ValueError(f"codes have shape {codes.shape} for {len(n_bins)} features")
    if len(codes) and (codes.max(axis=0) >= n_bins).any():
        raise ValueError("a code is not below its feature's number of bins")
    check_rows("rows", rows, len(codes))
    check_starts(starts, len(rows))
