"""Private training runs of MBoost for tests."""

import numpy as np

from gbdt_kernels.trees import BinLayout, DenseCodes, candidate_risks, level_histograms


def layout():
    subsets = np.random.default_rng(5).random((3, 10)) < 0.5
    return BinLayout(np.array([4, 4]), np.array([False, True]), subsets)


def risks(codes, positive, negative, n_rows, alpha, cap, prior):
    sums = (positive.astype(np.int32), negative.astype(np.int32))
    rows, starts = np.arange(n_rows, dtype=np.int32), np.array([0, n_rows])
    histogram = level_histograms(DenseCodes(codes), rows, starts, *sums, layout())
    per_node = (np.array([value], dtype=float) for value in (alpha, cap, prior))
    return candidate_risks(histogram, layout(), *per_node)[0]
