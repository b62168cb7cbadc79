"""Offsets of bins and candidate splits."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.draws import of_candidates
from gbdt_kernels.trees import DenseCodes, SparseCodes, candidate_gains, candidate_risks, level_histograms
from gbdt_kernels.trees.layout import BinLayout, offsets
from made_codes import SEEDS


def n_candidates_of(n_bins, is_categorical, n_subsets):
    if is_categorical:
        return n_bins + n_subsets if n_bins > 1 else 0
    return 2 * (n_bins - 1)


@settings(max_examples=100, deadline=None)
@given(
    features=st.lists(st.tuples(st.integers(1, 255), st.booleans()), max_size=8), n_subsets=st.integers(0, 5)
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


def drawn_rows(rng):
    """A layout, and rows that have some of the codes, dense and sparse."""
    n_features, n_rows = int(rng.integers(1, 5)), int(rng.integers(0, 40))
    n_bins, is_categorical = rng.integers(1, 9, n_features), rng.random(n_features) < 0.5
    subsets = rng.random((int(rng.integers(0, 4)), int((n_bins + 1).sum()))) < 0.5
    may_have = rng.random((n_features, 9)) < rng.choice([0.2, 0.5, 1.0])
    codes = np.zeros((n_rows, n_features), dtype=np.uint8)
    for f, n in enumerate(n_bins):
        own = np.flatnonzero(may_have[f, : n + 1])
        codes[:, f] = rng.choice(own if len(own) else [n], n_rows)
    zero_codes = rng.integers(0, n_bins + 1).astype(np.uint8)
    entry_rows, indices = np.nonzero(codes != zero_codes)
    indptr = offsets(np.bincount(entry_rows, minlength=n_rows))
    sparse = SparseCodes(indptr, indices.astype(np.int32), codes[entry_rows, indices], zero_codes)
    return (n_bins, is_categorical, subsets), (DenseCodes(codes), sparse)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_scores_are_the_same_bits_where_codes_that_no_row_has_take_no_place(seed):
    rng = np.random.default_rng(seed)
    bins, matrices = drawn_rows(rng)
    n_rows = matrices[0].n_rows
    gradient, weight = rng.integers(0, 99, n_rows).astype(np.int32), rng.integers(0, 9, n_rows, np.int32)
    rows, half = rng.permutation(n_rows).astype(np.int32), int(rng.integers(0, n_rows + 1))
    per_node = np.array([[0.3, 0.6], [5.0, np.inf], [0.5, 0.0]])
    whole = BinLayout(*bins)
    for matrix in matrices:
        found = []
        for layout in (
            whole,
            BinLayout(*bins, matrix.present),
            BinLayout(*bins, np.ones((len(bins[0]), 256), bool)),
        ):
            root = level_histograms(matrix, rows, np.array([0, n_rows]), gradient, weight, layout)
            nodes = np.array([0, half, n_rows])
            level = level_histograms(matrix, rows, nodes, gradient, weight, layout, root)
            assert level.shape == (2, layout.counted.n_total_bins, 2)
            counted = candidate_gains(level, layout, 0.1), candidate_risks(level, layout, *per_node)
            scores = [of_candidates(one, layout.repeats) for one in counted]
            assert all(one.shape == (2, whole.n_candidates) for one in scores)
            found.append(scores)
        for scores in found[1:]:
            for one, expected in zip(scores, found[0], strict=True):
                np.testing.assert_array_equal(one, expected)


def test_two_values_among_many_bins_take_two_places():
    present = np.zeros((2, 256), dtype=bool)
    present[0, [3, 200]] = present[1, [3, 200]] = True
    layout = BinLayout(np.array([255, 255]), np.array([False, True]), np.zeros((0, 512), bool), present)
    # Thresholds below 3 and above 200 are candidates, too; so is each category that no row has.
    assert layout.counted.n_bins.tolist() == [4, 4]
    assert layout.n_candidates == 2 * 254 + 255
    assert layout.place[0, [0, 3, 200, 254, 255]].tolist() == [0, 1, 2, 3, 4]
    assert layout.place[1, [3, 200, 255]].tolist() == [5 + 1, 5 + 2, 5 + 4]
    # 3 thresholds in place of 254, and categories between that no row has get the score of category 0.
    assert layout.repeats[:4].tolist() == [[0, 2, 3], [2, 2, 197], [4, 2, 54], [6, 1, 1]]
    assert layout.repeats[3:, 0].tolist() == [6, 6, 6, 7, *[6] * 196, 8, *[6] * 53, 9]


def test_codes_beyond_a_byte_have_places_of_their_own():
    layout = BinLayout(np.array([3, 1000]), np.zeros(2, bool), np.zeros((0, 1005), bool))
    assert layout.counted.n_bins.tolist() == [3, 1000]
    assert layout.place[0, :4].tolist() == [0, 1, 2, 3]
    assert layout.place[1].tolist() == list(range(4, 1005))
