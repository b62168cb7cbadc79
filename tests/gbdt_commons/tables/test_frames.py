"""Names, kinds and categories of tables, which follow from declarations and never from a cell."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbdt_commons.tables.frames import (
    MAX_NAME,
    as_frame,
    as_series,
    categories_of_dtype,
    check_names,
    codes_of_dtype,
    column_names,
    index_of,
    is_table,
    kinds_of,
    types_of,
)

ARROW = pa.table({"a": [1.5, 2.5], "b": ["x", "y"], "c": pa.array(["u", None]).dictionary_encode()})


def names_of(table):
    return column_names(as_frame(table, ValueError))


@pytest.mark.parametrize(
    "convert", [lambda t: t, lambda t: t.to_batches()[0], pl.from_arrow, pa.Table.to_pandas]
)
def test_names_and_kinds_are_those_of_the_schema(convert):
    table = convert(ARROW)
    assert is_table(table)
    frame = as_frame(table, ValueError)
    assert column_names(frame) == ("a", "b", "c")
    assert kinds_of(frame)[::2] == ["number", "category"]
    assert (index_of(table) is None) == (not isinstance(table, pd.DataFrame))


def test_sparse_columns_of_pandas_are_numbers():
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([1.5, np.nan]), "b": pd.arrays.SparseArray([1, 0])})
    assert kinds_of(as_frame(frame, ValueError)) == ["number", "number"]


def test_numbers_as_pandas_gives_them_are_names():
    assert names_of(pd.DataFrame(np.zeros((1, 2)))) == ("0", "1")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([1.5, "b"], "data.*column 0"),
        (["a", ("secret", 1)], "name of column 1"),
        (["a", None], "name of column 1"),
        (["", "b"], "name.*column 0.*0 characters"),
        (["a", "secret\n"], "name of column 1"),
        (["a", "\u202eb"], "name of column 1"),
        (["a", "secret" * MAX_NAME], "name.*column 1.*1536 characters.*1.*256"),
        (["a", "a"], r"duplicate column names: \['a'\]"),
        (["1", 1], r"duplicate column names: \['1'\]"),
    ],
)
def test_names_that_are_no_different_printable_texts_are_refused(columns, words):
    with pytest.raises(KeyError, match=words) as caught:
        as_frame(pd.DataFrame(np.zeros((1, 2)), columns=columns), KeyError)
    assert "secret" not in str(caught.value)


def test_names_that_arrow_has_twice_are_refused_without_values():
    table = pa.Table.from_arrays([pa.array([7301.5]), pa.array([7301.5])], names=["x", "x"])
    for one in (table, table.to_batches()[0]):
        with pytest.raises(ValueError, match=r"duplicate column names: \['x'\]") as caught:
            as_frame(one, ValueError)
        assert "7301" not in repr(caught.value)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=MAX_NAME), unique=True
    )
)
def test_any_different_printable_texts_are_names(names):
    check_names(names, ValueError, "data")


def test_half_a_character_is_no_name():
    with pytest.raises(ValueError, match=r"column 0.*character"):
        check_names(["\ud800"], ValueError, "data")


def test_many_names_twice_are_refused_in_no_time():
    with pytest.raises(ValueError, match="duplicate") as caught:
        check_names([str(k // 2) for k in range(100_000)], ValueError, "data")
    assert len(str(caught.value)) < 500


def test_categories_and_codes_of_types():
    declared = pd.Categorical(["b", None, "a"], categories=["b", "a"])
    series = as_series(pd.Series(declared))
    assert categories_of_dtype(series) == ["b", "a"]
    assert codes_of_dtype(series).tolist() == [0, -1, 1]
    enum = as_series(pl.Series(["a"], dtype=pl.Enum(["b", "a"])))
    assert (categories_of_dtype(enum), codes_of_dtype(enum)) == (["b", "a"], None)
    arrow = as_series(pd.Series(["u"]).astype(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))))
    assert (categories_of_dtype(arrow), codes_of_dtype(arrow)) == (None, None)


def test_types_of_tables_and_matrices():
    assert types_of(ARROW.select(["a"]), ValueError) == ("a: Float64",)
    assert types_of(np.zeros((2, 3), dtype=np.float32), ValueError) == ("3 columns of float32",)
    assert types_of(np.zeros(3), ValueError) == ("ndarray",)
