"""Kernels of tree boosting, from binning to prediction."""

from gbdt_kernels.trees.binning import Codes, DenseCodes, SparseCodes, bin_csr, bin_dense
from gbdt_kernels.trees.columns import Columns, DenseColumns, SparseColumns, by_columns
from gbdt_kernels.trees.forests import Forest, NodeLists, plant
from gbdt_kernels.trees.greedy import grow_structure
from gbdt_kernels.trees.histogram import feature_counts, level_histograms, segment_sums
from gbdt_kernels.trees.layout import BinLayout
from gbdt_kernels.trees.newton import (
    LogLinkPairs,
    ResidualPairs,
    RowPairs,
    SoftmaxPairs,
    TablePairs,
    TimePairs,
    add_leaf_values,
    leaf_sums,
    time_pairs,
)
from gbdt_kernels.trees.routing import add_trees, partition_level
from gbdt_kernels.trees.row_tags import row_tags
from gbdt_kernels.trees.splitting import candidate_gains, candidate_risks, goes_left_table
