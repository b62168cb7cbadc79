from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xgboost
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from allocated import peak_of
from gbdt_hosts.xgboost.versions import lowest_bounds_are_infinite
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting import features
from xgb_fed.boosting.features import (
    MAX_VALUE,
    Columns,
    bin_features,
    check_weight,
    numeric_vector,
    read_columns,
)
from xgb_fed.errors import ArgumentTypeError


@st.composite
def matrices(draw):
    """Columns of few values, of many, of one, of none; missing values anywhere."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows = draw(st.integers(1, 40))
    kinds = draw(st.lists(st.sampled_from(["few", "many", "constant", "empty"]), min_size=1, max_size=4))
    made = {
        "few": lambda: random.integers(-2, 3, n_rows),
        "many": lambda: random.normal(size=n_rows) * 10.0 ** random.integers(-30, 30),
        "constant": lambda: np.full(n_rows, random.normal()),
        "empty": lambda: np.full(n_rows, np.nan),
    }
    X = np.stack([made[kind]() for kind in kinds], axis=1).astype(np.float32)
    X[random.random(X.shape) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    return X


MAX_BIN = st.sampled_from([2, 5, 32])


@given(matrices(), MAX_BIN)
@examples(max_examples=40)
def test_cuts_and_codes_are_xgboost_s(X, max_bin):
    binned = bin_features(read_columns(X), max_bin)
    starts, values = xgboost.QuantileDMatrix(X, max_bin=max_bin).get_quantile_cut()
    assert binned.n_features == X.shape[1]
    for f, (a, b) in enumerate(pairwise(starts.tolist())):
        np.testing.assert_array_equal(binned.cuts[f], values[a + 1 : b])
        assert binned.lower[f] == values[a]
        for x, code in zip(X[:, f], binned.codes[:, f].tolist(), strict=True):
            below = [k for k, cut in enumerate(binned.cuts[f]) if x < cut]
            assert code == (len(binned.cuts[f]) if np.isnan(x) else below[0])
    assert np.diff(binned.bin_offsets).tolist() == [len(cuts) + 1 for cuts in binned.cuts]


@given(matrices(), MAX_BIN, st.data())
@examples(max_examples=40)
def test_rows_go_left_of_a_threshold_by_code_as_by_value(X, max_bin, data):
    binned = bin_features(read_columns(X), max_bin)
    f = data.draw(st.integers(0, X.shape[1] - 1))
    last_left = data.draw(st.integers(-1, len(binned.cuts[f]) - 1))
    default_left = data.draw(st.booleans())
    rows = np.array(data.draw(st.lists(st.integers(0, len(X) - 1))), dtype=np.int32)
    x = X[rows, f]
    expected = np.where(np.isnan(x), default_left, x < np.float32(binned.threshold(f, last_left)))
    np.testing.assert_array_equal(binned.goes_left(rows, f, last_left, default_left), expected)


@given(matrices(), MAX_BIN, st.data())
@examples(max_examples=40)
def test_sparse_is_dense_with_what_is_not_stored_missing(X, max_bin, data):
    stored = ~np.isnan(X)
    sparse = scipy.sparse.coo_matrix((X[stored], np.nonzero(stored)), X.shape)
    way = data.draw(st.sampled_from(["tocsr", "tocsc", "tocoo"]))
    one, other = read_columns(getattr(sparse, way)()), read_columns(X)
    for f in range(X.shape[1]):
        np.testing.assert_array_equal(one.column(f), X[:, f])
    a, b = bin_features(one, max_bin), bin_features(other, max_bin)
    np.testing.assert_array_equal(a.codes, b.codes)
    np.testing.assert_array_equal(np.concatenate(a.cuts), np.concatenate(b.cuts))
    rows = np.array(data.draw(st.lists(st.integers(0, len(X) - 1), min_size=1)))
    for f in range(X.shape[1]):
        np.testing.assert_array_equal(one.take(rows).column(f), X[rows, f])
        np.testing.assert_array_equal(other.take(rows).column(f), X[rows, f])


def test_stored_zeros_are_values_and_stored_twice_is_added():
    sparse = scipy.sparse.csr_matrix(([0.0, 1.0, 2.0], [0, 1, 1], [0, 1, 3]), (2, 2))
    columns = read_columns(sparse)
    np.testing.assert_array_equal(columns.column(0), [0, np.nan])
    np.testing.assert_array_equal(columns.column(1), [np.nan, 3])


def test_codes_are_as_narrow_as_they_can_be(monkeypatch):
    X = np.arange(300.0)[:, None]
    assert bin_features(read_columns(X), 255).codes.dtype == np.uint8
    wide = bin_features(read_columns(X), 300)
    assert wide.codes.dtype == np.uint16
    assert wide.codes.max() == 299
    monkeypatch.setattr(features, "MAX_BINS", 200)
    with pytest.raises(InvalidDataError, match=r"max_bin=300.*200 bins"):
        bin_features(read_columns(X), 300)


def test_no_columns():
    binned = bin_features(read_columns(np.empty((3, 0))), 16)
    assert (binned.n_features, binned.codes.shape, binned.bin_offsets.tolist()) == (0, (3, 0), [0])


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.zeros(3), "1 dimensions"),
        (np.zeros((0, 2)), "no rows"),
        ([[1, np.inf]], "infinite"),
        ([[-np.inf, 1]], "infinite"),
        (scipy.sparse.csr_matrix([[np.inf, 0]]), "infinite"),
        ([["a", "b"]], "must hold numbers"),
        ([[1, 2], [3]], "must hold numbers"),
        (pd.DataFrame({"a": [1.0], "b": ["x"]}), r"not numbers: \['b'\]"),
        (pd.DataFrame({"a": pd.Categorical(["x"])}), "categorical"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "duplicate column names"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_named(X, words):
    with pytest.raises(InvalidDataError, match=f"X of bank.*{words}"):
        read_columns(X, "X of bank")


@pytest.mark.filterwarnings("ignore:overflow")
def test_values_beyond_float32_are_infinite():
    with pytest.raises(InvalidDataError, match="as float32"):
        read_columns(np.array([[1e39]]))
    assert read_columns(np.array([[1e38]])).data.dtype == np.float32


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("sparse", [False, True])
def test_values_whose_cuts_would_be_infinite_are_refused(sign, sparse):
    """Before, a sentinel such as FLT_MAX was trained on, and no party could read its own splits again."""
    X = np.array([[sign * MAX_VALUE], [0], [1], [np.nan]], dtype=np.float32)
    X = scipy.sparse.csr_matrix(X) if sparse else X
    binned = bin_features(read_columns(X), 4)
    assert np.isfinite(binned.cuts[0]).all()
    assert np.isfinite(binned.lower).all() != lowest_bounds_are_infinite()
    for sentinel in (np.nextafter(np.float32(MAX_VALUE), np.float32(np.inf)), np.finfo(np.float32).max):
        X[0, 0] = sign * sentinel
        with pytest.raises(InvalidDataError, match=r"X of bank.*beyond ±1\.7e\+38"):
            read_columns(X, "X of bank")


def test_data_frames_keep_their_names_and_missing_values():
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [True, False], 3: [0.5, np.nan]})
    columns = read_columns(frame)
    assert columns.names == ["a", "b", "3"]
    np.testing.assert_array_equal(columns.data, np.array([[1, 1, 0.5], [np.nan, 0, np.nan]]))
    assert read_columns(columns) is columns
    assert read_columns(np.zeros((1, 2))).names == ["f0", "f1"]


def test_vectors_that_are_none_are_refused_without_their_values():
    with pytest.raises(InvalidDataError, match=r"^label .*numbers only, got a list$"):
        numeric_vector(["HIV-positive", "x"], "label")
    with pytest.raises(InvalidDataError, match="shape"):
        numeric_vector(np.zeros((3, 2)), "label")
    assert numeric_vector([[1], [2]], "label").tolist() == [1.0, 2.0]


@pytest.mark.parametrize("read", [read_columns, lambda X: numeric_vector(X[:, 0], "label")])
def test_side_door_no_error_quotes_a_private_cell_nor_has_one_that_does_behind_it(read):
    X = np.full((3, 2), 1.0, dtype=object)
    X[1, 0] = "SECRET-7301"
    with pytest.raises(InvalidDataError, match="must hold numbers") as caught:
        read(X)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None
    with pytest.raises(InvalidDataError, match="numbers, got complex128"):
        read_columns(scipy.sparse.csr_matrix(np.eye(3)).astype(complex))


@pytest.mark.parametrize(
    ("weight", "words"),
    [([1.0], "1 weights for 2"), ([1, -1], "not negative"), ([0, 0], "all zero"), ([1, np.nan], "finite")],
)
def test_weights_that_are_none_are_refused(weight, words):
    assert check_weight(None, 2, "weight") is None
    with pytest.raises(InvalidDataError, match=words):
        check_weight(weight, 2, "weight")


def test_counts_of_bins_take_no_wide_copy_of_all_codes():
    columns = read_columns(np.random.default_rng(0).integers(0, 9, (5000, 40)).astype(float))
    binned = bin_features(columns, 16)
    counts, peak = peak_of(binned.counts)
    places = binned.codes + binned.bin_offsets[:-1]
    assert counts.tolist() == np.bincount(places.ravel(), minlength=binned.bin_offsets[-1]).tolist()
    assert peak < 0.5 * 8 * binned.codes.size


@pytest.mark.parametrize("place", [0, features.VALUES_AT_ONCE, -1])
def test_a_value_that_is_too_large_is_found_in_every_part(place):
    values = np.zeros((4 * features.VALUES_AT_ONCE + 2, 1), dtype=np.float32)
    _, peak = peak_of(lambda: read_columns(values))
    assert peak < 0.5 * values.nbytes
    values[place] = -np.inf
    with pytest.raises(InvalidDataError, match="infinite"):
        read_columns(values)


WITH_MISSING = pa.table(
    {
        "whole": pa.array([1, None, (1 << 24) + 1]),
        "flag": pa.array([True, None, False]),
        "real": pa.array([0.5, None, float("nan")]),
        "price": pa.array([Decimal("1.25"), None, Decimal("-2.50")], type=pa.decimal128(9, 2)),
        "small": pa.array([1, None, 255], type=pa.uint8()),
    }
)
READ = np.array([[1, 1, 0.5, 1.25, 1], [np.nan] * 5, [(1 << 24) + 1, 0, np.nan, -2.5, 255]], dtype=np.float32)


@pytest.mark.parametrize(
    "convert",
    [
        lambda table: table,
        lambda table: table.to_batches()[0],
        lambda table: pa.concat_tables([table[:1], table[1:]]),
        pl.from_arrow,
        lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
        lambda table: table.to_pandas().convert_dtypes().astype({"price": "Float64"}),
    ],
    ids=["Arrow", "batch", "chunks", "polars", "pandas of Arrow", "nullable"],
)
def test_missing_values_of_every_library_and_type_are_nan(convert):
    columns = read_columns(convert(WITH_MISSING))
    assert columns.names == WITH_MISSING.column_names
    np.testing.assert_array_equal(columns.data, READ)


TIMES = np.array(["2024-01-01", "2024-01-02"], dtype="M8[us]")


@pytest.mark.parametrize(
    "X",
    [
        TIMES[:, None],
        TIMES.astype("M8[ns]")[:, None],
        (TIMES - TIMES)[:, None],
        pd.DataFrame({"when": TIMES}),
        pl.DataFrame({"when": TIMES}),
        pa.table({"when": TIMES}),
        pd.DataFrame({"when": pd.Series(TIMES).astype("category")}),
    ],
    ids=lambda X: type(X).__name__,
)
def test_times_are_refused_whose_unit_could_be_another_one_in_later_rows(X):
    """Before, an array's counts of its unit were values: fit in seconds, predict in nanoseconds."""
    with pytest.raises(InvalidDataError, match=r"bank.*64|bank.*'when'|'when'.*bank"):
        read_columns(X, "X of bank", enable_categorical=True)


@pytest.mark.parametrize("values", [np.array([[1 + 2j]]), np.array([[1 + 2j]], dtype=object), [[1 + 2j]]])
def test_imaginary_parts_are_not_dropped(values):
    with pytest.raises((InvalidDataError, ArgumentTypeError), match="X"):
        read_columns(values)
    with pytest.raises((InvalidDataError, ArgumentTypeError), match="y"):
        numeric_vector(values, "y")


def test_names_are_checked_wherever_columns_come_from():
    data = np.zeros((1, 2), dtype=np.float32)
    with pytest.raises(InvalidDataError, match=r"column 1.*type ChunkedArray"):
        Columns(data, ["a", pa.chunked_array([[7301.5]])])
