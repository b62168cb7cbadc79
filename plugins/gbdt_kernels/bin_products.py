"""A ciphertext histogram holds, for every bin of every feature of a node, the product of its rows.

Rows are sorted by bin first (a counting sort, far cheaper than one product a
row); every bin is then a chain of rows, so that the multiplier always has eight
different chains at work.  Features are taken a few at a time: the sorted row
numbers never take more than a quarter of the ciphertexts' memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gbdt_kernels.modular import Modulus, chain_products, check_rows, check_starts


@njit(nogil=True, cache=True)
def _sort_by_bin(codes, rows, starts, features, bin_offsets, order, chain_starts):
    """Rows of each node and feature by bin; `chain_starts` counts on in the order node, feature, bin."""
    chain = 0
    for node in range(len(starts) - 1):
        for f in features:
            n_bins = bin_offsets[f + 1] - bin_offsets[f]
            ends = chain_starts[chain + 1 : chain + 1 + n_bins]
            ends[:] = 0
            for k in range(starts[node], starts[node + 1]):
                ends[codes[rows[k], f]] += 1
            place = chain_starts[chain]
            for b in range(n_bins):
                count = ends[b]
                ends[b] = place
                place += count
            for k in range(starts[node], starts[node + 1]):
                b = codes[rows[k], f]
                order[ends[b]] = rows[k]
                ends[b] += 1
            chain += n_bins


def histogram_products(
    ciphertexts: NDArray[np.uint64],
    codes: NDArray[np.uint8],
    rows: NDArray[np.integer[Any]],
    starts: NDArray[np.int64],
    bin_offsets: NDArray[np.int64],
    modulus: Modulus,
    n_threads: int = 0,
) -> NDArray[np.uint64]:
    """Product of the ciphertexts in each bin of each feature of each node; 1 for an empty bin.

    Parameters
    ----------
    ciphertexts : ndarray of uint64, shape (n_rows, width)
    codes : ndarray of uint8, shape (n_rows, n_features)
        Bin of every value.
    rows : ndarray of int
        Row numbers, node by node.
    starts : ndarray of int64, shape (n_nodes + 1,)
        Where each node's rows start.
    bin_offsets : ndarray of int64, shape (n_features + 1,)
        Where each feature's bins lie in a histogram.
    modulus : Modulus
    n_threads : int
        Threads at most; 0 means all available processors.

    Returns
    -------
    ndarray of uint64, shape (n_nodes, bin_offsets[-1], width)
    """
    n_bins = np.diff(bin_offsets)
    if codes.dtype != np.uint8:
        raise ValueError(f"codes are bytes, not {codes.dtype}")
    if len(codes) != len(ciphertexts) or codes.shape[1:] != (len(n_bins),):
        raise ValueError(
            f"codes have shape {codes.shape} for {len(ciphertexts)} rows, {len(n_bins)} features"
        )
    if len(codes) and (codes.max(axis=0) >= n_bins).any():
        raise ValueError("a code is not below its feature's number of bins")
    check_rows("rows", rows, len(codes))
    check_starts(starts, len(rows))
    out = np.empty((len(starts) - 1, int(bin_offsets[-1]), modulus.width), dtype=np.uint64)
    at_once = max(1, modulus.width // 2)
    for first in range(0, len(n_bins), at_once):
        features = np.arange(first, min(first + at_once, len(n_bins)))
        _fill(ciphertexts, codes, rows, starts, bin_offsets, features, modulus, out, n_threads)
    return out


def _fill(
    ciphertexts: NDArray[np.uint64],
    codes: NDArray[np.uint8],
    rows: NDArray[np.integer[Any]],
    starts: NDArray[np.int64],
    bin_offsets: NDArray[np.int64],
    features: NDArray[np.int64],
    modulus: Modulus,
    out: NDArray[np.uint64],
    n_threads: int,
) -> None:
    """The histograms of consecutive features, at their places in `out`."""
    n_nodes = len(starts) - 1
    places = np.arange(bin_offsets[features[0]], bin_offsets[features[-1] + 1])
    order = np.empty(len(rows) * len(features), dtype=np.int32)
    chain_starts = np.zeros(n_nodes * len(places) + 1, dtype=np.int64)
    _sort_by_bin(codes, rows, starts, features, bin_offsets, order, chain_starts)
    targets = (np.arange(n_nodes)[:, None] * out.shape[1] + places).reshape(-1)
    flat = out.reshape(-1, modulus.width)
    chain_products(ciphertexts, order, chain_starts, modulus, flat, targets, n_threads)
