"""Random trees over random codes, and the walk that says where a row ends."""

import numpy as np

from gbdt_kernels.trees import DenseCodes, SparseCodes, add_trees
from gbdt_kernels.trees.layout import offsets


class Forest:
    """Random complete trees over random codes of all 256 values."""

    def __init__(self, seed, depth, n_trees):
        rng = np.random.default_rng(seed)
        n_rows, n_features = int(rng.integers(0, 30)), int(rng.integers(1, 5))
        zero_codes = rng.integers(0, 256, n_features).astype(np.uint8)
        codes = rng.integers(0, 256, (n_rows, n_features)).astype(np.uint8)
        self.codes = np.where(rng.random(codes.shape) < rng.random(), zero_codes, codes)
        entry_rows, indices = np.nonzero((self.codes != zero_codes) | (rng.random(codes.shape) < 0.2))
        indptr = offsets(np.bincount(entry_rows, minlength=n_rows))
        entries = self.codes[entry_rows, indices]
        self.matrices = [
            DenseCodes(self.codes),
            SparseCodes(indptr, indices.astype(np.int32), entries, zero_codes),
        ]
        n_nodes = 2**depth - 1
        self.feature = rng.integers(0, n_features, (n_trees, n_nodes)).astype(np.int32)
        self.goes_left = rng.integers(0, 2, (n_trees, n_nodes, 256)).astype(np.uint8)
        self.leaf_value = rng.normal(size=(n_trees, 2**depth))
        self.score = rng.normal(size=n_rows)
        self.rows = rng.permutation(n_rows)[: rng.integers(0, n_rows + 1)].astype(np.int32)

    def leaf(self, row, tree):
        node, n_nodes = 0, self.feature.shape[1]
        while node < n_nodes:
            left = self.goes_left[tree, node, self.codes[row, self.feature[tree, node]]]
            node = 2 * node + (1 if left else 2)
        return node - n_nodes

    def add(self, matrix, n_threads=1):
        score = self.score.copy()
        add_trees(matrix, self.feature, self.goes_left, self.leaf_value, score, n_threads)
        return score
