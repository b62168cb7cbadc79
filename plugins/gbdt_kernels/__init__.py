"""Numba kernels for gradient boosting: arrays in, arrays out.

The package knows no LightGBM, no XGBoost, no party, no privacy budget, no
file, and draws no randomness: whoever needs a random choice passes the random
words in.  Every kernel releases the GIL and is cached on disk.
"""

from gbdt_kernels.binning import DenseCodes, SparseCodes, bin_csr, bin_dense
from gbdt_kernels.compilation import arithmetic_compiled_on_this_machine, compiled_on_this_machine
from gbdt_kernels.histogram import level_histograms, segment_sums
from gbdt_kernels.layout import BinLayout
from gbdt_kernels.leaves import DenseColumns, SparseColumns, by_columns
from gbdt_kernels.newton import SoftmaxPairs, TablePairs, add_leaf_values, leaf_sums
from gbdt_kernels.routing import add_trees, partition_level
from gbdt_kernels.sampling import discrete_laplace_from_words
from gbdt_kernels.selection import select
from gbdt_kernels.splitting import candidate_gains, candidate_risks, goes_left_table

__all__ = [
    "BinLayout",
    "DenseCodes",
    "DenseColumns",
    "SoftmaxPairs",
    "SparseCodes",
    "SparseColumns",
    "TablePairs",
    "add_leaf_values",
    "add_trees",
    "arithmetic_compiled_on_this_machine",
    "bin_csr",
    "bin_dense",
    "by_columns",
    "candidate_gains",
    "candidate_risks",
    "compiled_on_this_machine",
    "discrete_laplace_from_words",
    "goes_left_table",
    "leaf_sums",
    "level_histograms",
    "partition_level",
    "segment_sums",
    "select",
]
