"""`lgb_dp.check_bounds`: the table, its remarks, and that nothing of it is kept."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import lgb_dp
from lgb_dp.bounds_check import undeclared_shares
from lgb_dp.errors import InvalidArgumentError


def lines(capsys, *args, **options):
    """Cells of the printed table by column of the data, and the text below it."""
    assert lgb_dp.check_bounds(*args, **options) is None
    table = capsys.readouterr().out.splitlines()
    return {line.split()[0]: line for line in table[1:-2]}, "\n".join(table[-2:])


def patients():
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": np.r_[np.full(10, 18.0), np.full(10, 90.0), random.integers(19, 90, 180).astype(float)],
            "income": random.lognormal(10.0, 1.0, 200),
            "bmi": np.r_[np.full(20, np.nan), np.full(50, 10.0), np.full(30, 90.0), np.full(100, 25.0)],
            "city": ["a"] * 100 + ["b"] * 60 + ["elsewhere"] * 40,
        }
    )


BOUNDS = {"age": (18, 90), "income": (0, 1e12), "bmi": (15, 60)}
CITIES = {"city": ["a", "b", "c"]}


def test_shares_bins_and_remarks(capsys):
    with pytest.raises(InvalidArgumentError, match=r"'city'.*20\.0%"):
        lines(capsys, patients(), BOUNDS, categories=CITIES)
    assert "not declared" in capsys.readouterr().out
    table, note = lines(capsys, patients(), BOUNDS, categories=CITIES, accept_undeclared=["city"])
    assert table["bmi"].split()[1:4] == ["25.0%", "15.0%", "10.0%"]
    assert table["bmi"].split()[4:] == ["3", "of", "255"]
    assert table["city"].split()[1:5] == ["0", "2", "of", "3"]
    assert "not declared, and counted as missing: 20.0%" in table["city"]
    assert "equal the observed minimum and maximum" in table["age"]
    assert "too wide" in table["income"]
    assert "too wide" not in table["age"]
    assert "not a private release" in note


@pytest.mark.parametrize(
    ("declared", "cells"),
    [
        (["a", "b"], ["a", "b", "c", None]),
        (["a", "b"], ["a", "b", b"a", None]),
        ([1, 2], [1, 2, 3, None]),
        ([1, 2], [1.0, 2.0, 0.0, float("nan")]),
        ([1, 2], [1, 2, "x", pd.NA]),
        (["a", 1.5], ["a", 1.5, 2.5, None]),
    ],
)
def test_values_that_are_not_declared_are_told_from_missing_ones(capsys, declared, cells):
    X = pd.DataFrame({"c": pd.Series(cells, dtype=object)})
    assert undeclared_shares(X, {"c": declared}) == {"c": 0.25}
    table, _ = lines(capsys, X, {}, categories={"c": declared}, accept_undeclared=["c"])
    assert table["c"].split()[1:5] == ["25.0%", "2", "of", "2"]
    assert "not declared, and counted as missing: 25.0%" in table["c"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_the_same_shares_of_every_library(library):
    table = pa.table({"x": [1.0, 3.0, None, float("nan")] * 5, "c": ["a", "b", None, "a"] * 5})
    X = {"pandas": table.to_pandas, "polars": lambda: pl.from_arrow(table), "pyarrow": lambda: table}[
        library
    ]()
    assert undeclared_shares(X, {"x": [1, 2], "c": ["a"]}) == {"x": 0.25, "c": 0.25}


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_matrix])
def test_matrices_have_the_same_table(capsys, kind):
    X = np.array([[0.0, 5.0], [1.0, 0.0], [2.0, 40.0], [0.0, -3.0]])
    table, _ = lines(capsys, kind(X), (0, 10))
    assert table["Column_0"].split()[1:4] == ["0", "0", "0"]
    assert table["Column_1"].split()[1:4] == ["25.0%", "25.0%", "0"]


def test_edges_give_the_bounds(capsys):
    X = np.array([[0.0], [1.0], [2.0], [30.0]])
    table, _ = lines(capsys, X, {}, bin_edges={0: [0.5, 1.5, 2.5]})
    assert table["Column_0"].split()[1:7] == ["25.0%", "25.0%", "0", "4", "of", "4"]


def test_bounds_are_needed():
    with pytest.raises(InvalidArgumentError, match="lack the numeric"):
        lgb_dp.check_bounds(patients(), None, categories=CITIES)


def test_empty_data_and_columns_without_values(capsys):
    with pytest.raises(InvalidArgumentError, match="must have rows"):
        lgb_dp.check_bounds(np.empty((0, 2)), (0, 1))
    table, _ = lines(capsys, np.array([[np.nan, 0.5], [np.nan, 0.7]]), (0, 1))
    assert table["Column_0"].endswith("no values")
