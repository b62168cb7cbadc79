"""Binned rows that are drawn, in all forms."""

import numpy as np
from hypothesis import strategies as st

from gbdt_kernels.trees import BinLayout, DenseCodes, SparseCodes, level_histograms
from gbdt_kernels.trees.layout import offsets

SEEDS = st.integers(0, 2**32 - 1)


class Level:
    """Random binned rows, some of them in the nodes of a level of four nodes."""

    def __init__(self, seed, n_nodes=4):
        rng = np.random.default_rng(seed)
        n_rows, n_features = int(rng.integers(0, 40)), int(rng.integers(1, 5))
        n_bins = rng.integers(1, 6, n_features)
        self.layout = BinLayout(
            n_bins, np.zeros(n_features, bool), np.zeros((0, int((n_bins + 1).sum())), bool)
        )
        zero_codes = rng.integers(0, n_bins + 1).astype(np.uint8)
        codes = rng.integers(0, n_bins + 1, (n_rows, n_features)).astype(np.uint8)
        self.codes = np.where(rng.random(codes.shape) < rng.random(), zero_codes, codes)
        stored = (self.codes != zero_codes) | (rng.random(codes.shape) < 0.2)
        entry_rows, indices = np.nonzero(stored)
        indptr = offsets(np.bincount(entry_rows, minlength=n_rows))
        entries = self.codes[entry_rows, indices]
        self.matrices = [
            DenseCodes(self.codes),
            SparseCodes(indptr, indices.astype(np.int32), entries, zero_codes),
        ]
        self.gradient = rng.integers(-(2**31), 2**31, n_rows).astype(np.int32)
        self.weight = rng.integers(0, 2**31, n_rows).astype(np.int32)
        self.rows = rng.permutation(n_rows)[: rng.integers(0, n_rows + 1)].astype(np.int32)
        cuts = np.sort(rng.integers(0, len(self.rows) + 1, n_nodes - 1))
        self.starts = np.concatenate([[0], cuts, [len(self.rows)]]).astype(np.int64)
        self.rng = rng

    def histograms(self, matrix, rows=None, parents=None, n_threads=0):
        rows = self.rows if rows is None else rows
        statistics = self.gradient, self.weight
        return level_histograms(matrix, rows, self.starts, *statistics, self.layout, parents, n_threads)

    def brute(self):
        out = np.zeros((len(self.starts) - 1, self.layout.n_total_bins, 2), dtype=object)
        for node in range(len(out)):
            for row in self.rows[self.starts[node] : self.starts[node + 1]]:
                for f, code in enumerate(self.codes[row]):
                    place = self.layout.bin_offsets[f] + code
                    out[node, place] += [int(self.gradient[row]), int(self.weight[row])]
        return out
