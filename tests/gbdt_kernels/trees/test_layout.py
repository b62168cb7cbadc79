"""Offsets of bins and candidate splits."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.trees.layout import BinLayout, offsets


def n_candidates_of(n_bins, is_categorical, n_subsets):
    if is_categorical:
        return n_bins + n_subsets if n_bins > 1 else 0
    return 2 * (n_bins - 1)


@settings(max_examples=100, deadline=None)
@given(
    features=st.lists(st.tuples(st.integers(1, 255), st.booleans()), max_size=8),
    n_subsets=st.integers(0, 5),
)
def test_every_feature_has_a_missing_bin_and_its_candidates(features, n_subsets):
    n_bins = np.array([n for n, _ in features], dtype=np.int64)
    is_categorical = np.array([c for _, c in features], dtype=bool)
    layout = BinLayout(n_bins, is_categorical, np.zeros((n_subsets, int((n_bins + 1).sum())), dtype=bool))
    assert layout.n_features == len(features)
    assert np.diff(layout.bin_offsets).tolist() == [n + 1 for n, _ in features]
    assert layout.n_total_bins == sum(n + 1 for n, _ in features)
    expected = [n_candidates_of(n, c, n_subsets) for n, c in features]
    assert np.diff(layout.candidate_offsets).tolist() == expected
    assert layout.n_candidates == sum(expected)


def test_offsets_are_exclusive_prefix_sums():
    assert offsets(np.array([3, 0, 2])).tolist() == [0, 3, 3, 5]
    assert offsets(np.array([], dtype=np.int64)).tolist() == [0]
    assert offsets(np.array([1], dtype=np.int32)).dtype == np.int64
