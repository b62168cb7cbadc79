"""Bins are numpy's searchsorted, for dense and CSR matrices alike."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.trees import DenseCodes, bin_csr, bin_dense
from gbdt_kernels.trees.binning import ZERO_THRESHOLD
from gbdt_kernels.trees.layout import offsets

pytestmark = pytest.mark.usefixtures("tiny_blocks")

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SPECIAL = [0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 5e-324, -1e-35, 1.7976931348623157e308]


def brute_codes(matrix, features):
    codes = np.empty(matrix.shape, dtype=int)
    for f, (values, is_categorical) in enumerate(features):
        x = matrix[:, f].astype(np.float64)
        if is_categorical:
            position = {v: i for i, v in enumerate(values.tolist())}
            codes[:, f] = [position.get(v, len(values)) for v in np.trunc(x).tolist()]
        else:
            x = np.where(np.abs(x) <= ZERO_THRESHOLD, 0.0, x)
            codes[:, f] = np.where(np.isnan(x), len(values) + 1, np.searchsorted(values, x, side="left"))
    return codes


def arguments(features):
    values = np.concatenate([v for v, _ in features]) if features else np.empty(0)
    value_offsets = offsets(np.array([len(v) for v, _ in features], dtype=np.int64))
    return values, value_offsets, np.array([c for _, c in features], dtype=bool)


def bin_matrix(matrix, features, n_threads=0):
    return bin_dense(lambda start, stop: matrix[start:stop], len(matrix), *arguments(features), n_threads)


def csr_arrays(matrix, also_stored):
    """CSR arrays of a matrix; zeros are stored where `also_stored` says so."""
    stored = (matrix != 0) | also_stored
    rows, indices = np.nonzero(stored)
    return offsets(np.bincount(rows, minlength=len(matrix))), indices, matrix[rows, indices]


def dense_of(sparse):
    codes = np.tile(sparse.zero_codes, (sparse.n_rows, 1))
    codes[np.repeat(np.arange(sparse.n_rows), np.diff(sparse.indptr)), sparse.indices] = sparse.codes
    return codes


@st.composite
def feature(draw):
    is_categorical = draw(st.booleans())
    elements = st.integers(-2, 40).map(float) if is_categorical else FINITE
    values = draw(st.sets(elements, min_size=is_categorical, max_size=8))
    return np.array(sorted(values), dtype=np.float64), is_categorical


@st.composite
def features_and_matrix(draw):
    features = draw(st.lists(feature(), min_size=1, max_size=4))
    edges = np.concatenate([v for v, _ in features])
    with np.errstate(over="ignore"):
        near = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    cells = st.one_of(st.sampled_from(SPECIAL + near.tolist()), st.just(0.0), st.floats())
    n_rows = draw(st.integers(0, 7))
    flat = draw(st.lists(cells, min_size=n_rows * len(features), max_size=n_rows * len(features)))
    matrix = np.array(flat, dtype=np.float64).reshape(n_rows, len(features))
    dtype = draw(st.sampled_from([np.float64, np.float32, np.int64, np.int8]))
    if np.issubdtype(dtype, np.integer):
        matrix = np.clip(np.nan_to_num(matrix), -100, 100)
    with np.errstate(over="ignore"):
        return features, matrix.astype(dtype)


@settings(max_examples=150, deadline=None)
@given(case=features_and_matrix(), n_threads=st.integers(1, 3))
def test_dense_codes_are_searchsorted(case, n_threads):
    features, matrix = case
    binned = bin_matrix(matrix, features, n_threads)
    assert binned.codes.dtype == np.uint8
    np.testing.assert_array_equal(binned.codes, brute_codes(matrix, features))


@settings(max_examples=150, deadline=None)
@given(case=features_and_matrix(), seed=st.integers(0, 99), n_threads=st.integers(1, 3))
def test_csr_codes_are_dense_codes(case, seed, n_threads):
    features, matrix = case
    also_stored = np.random.default_rng(seed).random(matrix.shape) < 0.3
    sparse = bin_csr(*csr_arrays(matrix, also_stored), *arguments(features), n_threads)
    np.testing.assert_array_equal(dense_of(sparse), brute_codes(matrix, features))


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_csr_with_summed_duplicates_and_empty_rows(index_dtype):
    features = [(np.array([0.5, 1.5, 2.5]), False), (np.array([0.0, 3.0]), True)]
    entries = ([1.0, 1.0, 3.0, -1.0, 1.0], ([1, 1, 1, 3, 3], [0, 0, 1, 0, 0]))
    csr = scipy.sparse.coo_matrix(entries, shape=(5, 2)).tocsr()
    arrays = csr.indptr.astype(index_dtype), csr.indices.astype(index_dtype), csr.data
    sparse = bin_csr(*arrays, *arguments(features))
    np.testing.assert_array_equal(dense_of(sparse), brute_codes(csr.toarray(), features))


def test_csr_longer_than_a_step():
    rng = np.random.default_rng(0)
    features = [(np.sort(rng.normal(size=30)), False) for _ in range(3)]
    matrix = rng.normal(size=(60_000, 3)).astype(np.float32)
    sparse = bin_csr(*csr_arrays(matrix, np.zeros(matrix.shape, bool)), *arguments(features), n_threads=2)
    np.testing.assert_array_equal(dense_of(sparse), brute_codes(matrix, features))


def test_a_value_on_an_edge_goes_to_the_bin_below_it():
    matrix = np.array([[1.0], [np.nextafter(1.0, 2)], [np.nextafter(1.0, 0)], [np.nan]])
    assert bin_matrix(matrix, [(np.array([1.0, 2.0]), False)]).codes[:, 0].tolist() == [0, 1, 0, 3]


def test_unknown_categories_are_missing_and_fractions_are_cut_off_as_by_lightgbm():
    matrix = np.array([[3.0], [4.0], [-1.0], [np.nan], [7.0], [np.inf], [3.5], [-0.5]])
    codes = bin_matrix(matrix, [(np.array([3.0, 7.0]), True)]).codes[:, 0]
    assert codes.tolist() == [0, 2, 2, 2, 1, 2, 0, 2]


@pytest.mark.parametrize("is_categorical", [False, True])
def test_255_bins_fit_a_byte(is_categorical):
    values = np.arange(255.0 if is_categorical else 254.0)
    matrix = np.concatenate([np.arange(255.0), [np.nan]])[:, None]
    codes = bin_matrix(matrix, [(values, is_categorical)]).codes[:, 0]
    assert codes.tolist() == list(range(256))


def test_dense_rows_are_read_once_in_small_blocks():
    matrix = np.arange(11.0)[:, None]
    read = []

    def rows_of(start, stop):
        read.append((start, stop))
        return matrix[start:stop].tolist()

    bin_dense(rows_of, 11, *arguments([(np.array([4.0]), False)]), n_threads=2)
    assert sorted(i for start, stop in read for i in range(start, stop)) == list(range(11))
    assert max(stop - start for start, stop in read) <= 2


@settings(max_examples=100, deadline=None)
@given(case=features_and_matrix(), picks=st.lists(st.integers(0, 6), max_size=9))
def test_take_gives_the_rows_asked_for(case, picks):
    features, matrix = case
    rows = np.array([i for i in picks if i < len(matrix)], dtype=np.int64)
    also_stored = np.zeros(matrix.shape, dtype=bool)
    sparse = bin_csr(*csr_arrays(matrix, also_stored), *arguments(features))
    dense = bin_matrix(matrix, features)
    np.testing.assert_array_equal(dense.take(rows).codes, dense.codes[rows])
    np.testing.assert_array_equal(dense_of(sparse.take(rows)), dense.codes[rows])
    assert sparse.take(rows).n_rows == dense.take(rows).n_rows == len(rows)


def test_sizes_are_reported():
    matrix = np.array([[0.0, 2.0], [0.0, 0.0], [1.0, 3.0]])
    features = [(np.array([0.5]), False)] * 2
    sparse = bin_csr(*csr_arrays(matrix, matrix > 9), *arguments(features))
    dense = bin_matrix(matrix, features)
    assert (dense.n_rows, dense.entries_per_row, dense.nbytes) == (3, 2, 6)
    assert (sparse.n_rows, sparse.entries_per_row) == (3, 1)
    assert sparse.nbytes == 4 * 8 + 3 * 4 + 3 + 2


def test_taken_codes_are_a_copy():
    codes = DenseCodes(np.zeros((3, 2), dtype=np.uint8))
    taken = codes.take(np.arange(3)).codes
    assert not np.shares_memory(taken, codes.codes)
    taken.base[:] = 9
    assert not codes.codes.any()


def test_codes_are_read_only():
    dense = DenseCodes(np.zeros((3, 2), dtype=np.uint8))
    sparse = bin_csr(*csr_arrays(np.eye(3), np.eye(3) > 9), *arguments([(np.array([0.5]), False)] * 3))
    for codes in (dense, dense.take(np.arange(2)), sparse, sparse.take(np.arange(2))):
        assert not any(array.flags.writeable for array in vars(codes).values())
