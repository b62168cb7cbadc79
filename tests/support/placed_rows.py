"""Rows whose places among a party's splits are checked."""

import numpy as np

from xgb_fed.vertical.growing.bin_sums import AgreedColumns
from xgb_fed.vertical.growing.row_places import RowPlaces


def places_of(codes, n_bins):
    """Of one column, whose missing values have the code `n_bins`."""
    counts = np.bincount(codes, minlength=n_bins + 1)
    return RowPlaces(AgreedColumns(np.array([n_bins]), counts, 2), len(codes))


def left_of(codes, split, n_bins):
    return np.where(codes == n_bins, split.default_left, codes <= split.last_left)
