"""A ciphertext histogram holds, for every bin of every feature of a node, the encrypted sum of its rows.

This is the sparse optimisation of SecureBoost+ in a general form: the fullest bin of a node and feature is
not summed up but is the node's total less the other bins.  One feature of each node is summed in full and
gives that total.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues.bin_chains import NO_BIN, bin_chains, bin_counts
from xgb_fed.ciphers.base import Ciphertexts, PublicKey

WORTH_LEAVING_OUT = 8
"""Cost of a bin by subtraction, in additions, besides one for each of the other bins."""

ORDER_FRACTION = 4
"""Sorted row numbers take at most 1/ORDER_FRACTION of the memory that the ciphertexts take."""


@dataclass
class Histograms:
    """Sums of several nodes, (n_nodes, n_total_bins, ...) for each ciphertext of a row, and `counts`."""

    sums: list[Ciphertexts]
    counts: NDArray[np.int32]

    def take(self, nodes: NDArray[np.int64]) -> Histograms:
        """The histograms of some nodes."""
        return Histograms([sums[nodes] for sums in self.sums], self.counts[nodes])

    @staticmethod
    def joined(parts: list[Histograms]) -> Histograms:
        """The histograms of several objects, one after the other."""
        sums = [np.concatenate(groups) for groups in zip(*(part.sums for part in parts), strict=True)]
        return Histograms(sums, np.concatenate([part.counts for part in parts]))

    def plus(self, key: PublicKey, other: Histograms) -> Histograms:
        """Node by node and bin by bin, the sums of both."""
        added = []
        for own, others in zip(self.sums, other.sums, strict=True):
            flat = key.add(own.reshape(-1, *own.shape[2:]), others.reshape(-1, *others.shape[2:]))
            added.append(flat.reshape(own.shape))
        return Histograms(added, self.counts + other.counts)

    def less(self, key: PublicKey, other: Histograms) -> Histograms:
        """Node by node, the sums of these histograms without the rows of the other ones.

        All bins share one batch inversion.  Bins without rows of the other node cost nothing, nor do bins
        that are left without rows, which are never read.
        """
        counts = self.counts - other.counts
        changed = (other.counts > 0) & (counts > 0)
        left = []
        for own, others in zip(self.sums, other.sums, strict=True):
            rest = own.copy()
            rest[changed] = key.subtract(own[changed], others[changed])
            left.append(rest)
        return Histograms(left, counts)


def build_histograms(
    key: PublicKey,
    sources: list[Ciphertexts],
    codes: NDArray[np.unsignedinteger[Any]],
    rows: NDArray[np.integer[Any]],
    starts: NDArray[np.int64],
    bin_offsets: NDArray[np.int64],
) -> Histograms:
    """Sum up the ciphertexts of every bin of every node; rows and starts are as in `TreeRows.histograms`.

    Each source has shape (n_rows, ...).  `codes`, shape (n_rows, n_features), has the bin of every value, and
    `bin_offsets` says where each feature's bins lie in a histogram.
    """
    counts = bin_counts(codes, rows, starts, bin_offsets)
    left_out, complete = _fullest_bins(counts, bin_offsets)
    n_nodes, n_features = len(counts), len(bin_offsets) - 1
    sums = [np.empty((*counts.shape, *source.shape[1:]), dtype=source.dtype) for source in sources]
    at_once = max(1, sources[0][:1].nbytes // (4 * ORDER_FRACTION))
    for first in range(0, n_features, at_once):
        features = np.arange(first, min(first + at_once, n_features))
        order, chain_starts = bin_chains(codes, rows, starts, bin_offsets, features, counts, left_out)
        places = slice(int(bin_offsets[first]), int(bin_offsets[features[-1] + 1]))
        for source, out in zip(sources, sums, strict=True):
            part = key.sum_by_index(source, order, chain_starts)
            out[:, places] = part.reshape(n_nodes, -1, *source.shape[1:])
    for out in sums:
        _fill_left_out(key, out, counts, bin_offsets, left_out, complete)
    return Histograms(sums, counts)


def _fullest_bins(
    counts: NDArray[np.int32], bin_offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bin of each node and feature to leave out, and the feature of each node that is summed in full."""
    n_bins = np.diff(bin_offsets)
    left_out = np.full((len(counts), len(n_bins)), NO_BIN, dtype=np.int64)
    saved = np.zeros_like(left_out)
    for f, size in enumerate(n_bins):
        of_feature = counts[:, bin_offsets[f] : bin_offsets[f + 1]]
        fullest = of_feature.argmax(axis=1)
        saved[:, f] = of_feature.max(axis=1) - size - WORTH_LEAVING_OUT
        left_out[:, f] = np.where(saved[:, f] > 0, fullest, NO_BIN)
    complete = saved.argmin(axis=1) if len(n_bins) else np.zeros(len(counts), dtype=np.int64)
    left_out[np.arange(len(counts)), complete] = NO_BIN
    return left_out, complete


def _fill_left_out(
    key: PublicKey,
    sums: Ciphertexts,
    counts: NDArray[np.int32],
    bin_offsets: NDArray[np.int64],
    left_out: NDArray[np.int64],
    complete: NDArray[np.int64],
) -> None:
    """Give every bin that was left out its sum."""
    node, feature = np.nonzero(left_out != NO_BIN)
    if not len(node):
        return
    n_total = counts.shape[1]
    flat = sums.reshape(-1, *sums.shape[2:])
    # The sums to add up: for the totals all bins of the complete feature, else all bins but the one left out.
    nodes = np.unique(node)
    chains = [
        np.arange(bin_offsets[f], bin_offsets[f + 1]) + k * n_total
        for k, f in [*zip(nodes, complete[nodes], strict=True), *zip(node, feature, strict=True)]
    ]
    for at, (k, f) in enumerate(zip(node, feature, strict=True), start=len(nodes)):
        chains[at] = np.delete(chains[at], left_out[k, f])
    occupied = counts.reshape(-1) > 0
    chains = [chain[occupied[chain]] for chain in chains]
    starts = np.concatenate([[0], np.cumsum([len(chain) for chain in chains])]).astype(np.int64)
    parts = key.sum_by_index(flat, np.concatenate(chains), starts)
    totals, others = parts[: len(nodes)], parts[len(nodes) :]
    places = node * n_total + bin_offsets[feature] + left_out[node, feature]
    flat[places] = key.subtract(totals[np.searchsorted(nodes, node)], others)
