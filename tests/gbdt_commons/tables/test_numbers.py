"""What holds numbers becomes an array of them, and the rest is refused by its type; nothing is changed."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from gbdt_commons.tables.numbers import canonical, read_numbers
from table_kinds import Lookalike

TIMES = np.array(["2024-01-01", "NaT"], dtype="M8[us]")


def read(values, dtype=np.float32):
    return read_numbers("y", values, dtype, KeyError, LookupError)


@pytest.mark.parametrize(
    "values",
    [
        [1, None, 3.5],
        np.array([1, np.nan, 3.5]),
        pd.Series([1, None, 3.5], dtype="Float64"),
        pd.array([1, None, 3.5], dtype="Float64"),
        pl.Series([1.0, None, 3.5]),
        pa.array([1.0, None, 3.5]),
        pa.chunked_array([[1.0, None], [3.5]]),
        ["1", "nan", "3.5"],
        range(1, 4),
    ],
    ids=lambda values: type(values).__name__,
)
def test_columns_of_all_libraries_are_numbers(values):
    found = read(values)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[[0, 2]], [1, 3 if isinstance(values, range) else 3.5])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ma.masked_array([1.0, 7301.0], mask=[0, 1]), "masked"),
        ([np.ma.masked_array([1.0, 7301.0], mask=[0, 1])], "masked"),
        (np.array([(1.0,)], dtype=[("a", float)]), "structured"),
        (np.array([1 + 7301j]), "Complex"),
        (np.array([1 + 7301j], dtype=object), "numbers only"),
        ([1 + 7301j], "numbers only"),
        (TIMES, "datetime64"),
        (TIMES - TIMES, "timedelta64"),
        (list(TIMES), "list"),
        (pd.Series(TIMES), "numbers only"),
        (pl.Series(TIMES), "Series"),
        (pa.array(TIMES), "Array"),
        (pa.table({"a": TIMES}), r"columns \['a'\]"),
        (pl.DataFrame({"a": TIMES}), r"columns \['a'\]"),
        (pd.DataFrame({"a": TIMES}), r"columns \['a'\]"),
        (pl.DataFrame({"a": [1]}).lazy(), "LazyFrame"),
        (Lookalike(np.full((2, 2), 7301.0), ["a", "b"]), "Lookalike"),
        (scipy.sparse.eye(2), "dia_matrix"),
        ({"a": 7301}, "dict"),
        (None, "NoneType"),
        (["x7301"], "list"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_holds_no_numbers_is_refused_by_its_type(values, words):
    with pytest.raises(LookupError, match=words) as caught:
        read(values)
    assert "7301" not in repr(caught.value)
    assert caught.value.__context__ is None


def test_numbers_of_the_type_are_not_copied_and_wider_ones_overflow_in_silence(recwarn):
    own = np.zeros(3, dtype=np.float32)
    assert read(own) is own
    assert read(np.array([1e300]))[0] == np.inf
    assert not recwarn.list


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 9)), max_size=12),
    st.sampled_from([scipy.sparse.csr_matrix, scipy.sparse.csc_matrix]),
    st.sampled_from([scipy.sparse.csr_matrix, scipy.sparse.csc_matrix, scipy.sparse.coo_matrix]),
    st.booleans(),
)
def test_sparse_matrices_are_ascending_without_a_change_of_the_given_one(entries, kind, given_as, stale):
    rows, columns, values = (np.array([e[k] for e in entries], dtype=np.int32) for k in range(3))
    expected = np.zeros((4, 3))
    np.add.at(expected, (rows, columns), values)
    # Entries of one row or column as they come: unsorted and more than once.
    order = np.argsort(rows if given_as is scipy.sparse.csr_matrix else columns, kind="stable")
    if given_as is scipy.sparse.coo_matrix:
        matrix = given_as((values.astype(float), (rows, columns)), shape=(4, 3))
    else:
        major, minor = (rows, columns) if given_as is scipy.sparse.csr_matrix else (columns, rows)
        starts = np.searchsorted(
            major[order], np.arange((4 if given_as is scipy.sparse.csr_matrix else 3) + 1)
        )
        matrix = given_as((values[order].astype(float), minor[order], starts), shape=(4, 3))
        matrix.has_sorted_indices = matrix.has_canonical_format = stale
    arrays = [one for one in vars(matrix).values() if isinstance(one, np.ndarray)]
    before = [one.tobytes() for one in arrays]
    for one in arrays:
        one.flags.writeable = False
    found = canonical(matrix, kind, "X", KeyError)
    assert [one.tobytes() for one in arrays] == before
    np.testing.assert_array_equal(found.toarray(), expected)
    for start, end in zip(found.indptr, found.indptr[1:], strict=False):
        assert (np.diff(found.indices[start:end]) > 0).all()


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix])
@pytest.mark.parametrize("name", ["csr", "csc", "coo", "bsr", "lil"])
def test_arrays_that_are_no_matrix_are_refused_before_they_are_converted(name, kind):
    matrix = getattr(scipy.sparse.csr_matrix(np.eye(3)), f"to{name}")()
    if name == "lil":
        matrix.rows[0] = [1 << 20]
    else:
        (matrix.row if name == "coo" else matrix.indices)[0] = 1 << 20
    with pytest.raises(KeyError, match=r"X.*sparse matrix"):
        canonical(matrix, kind, "X", KeyError)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix])
@pytest.mark.parametrize("name", ["lil", "dia", "dok"])
def test_matrices_of_every_format_are_read(name, kind):
    matrix = getattr(scipy.sparse.csr_matrix(np.diag([1.0, 2.0, 3.0])), f"to{name}")()
    found = canonical(matrix, kind, "X", KeyError)
    assert isinstance(found, kind)
    np.testing.assert_array_equal(found.toarray(), np.diag([1.0, 2.0, 3.0]))


def test_a_sparse_vector_is_no_matrix():
    with pytest.raises(KeyError, match="two dimensions"):
        canonical(scipy.sparse.coo_array(np.ones(3)), scipy.sparse.csc_matrix, "X", KeyError)
