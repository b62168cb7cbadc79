"""Bins are those of the public bounds, whatever the rows."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import lgb_dp
from small_training import binary_data, dataset, train

X, Y = binary_data()


def test_bins_and_header_do_not_depend_on_the_rows():
    other = lgb_dp.Dataset(X[:50] * 0.01, label=1 - Y[:50], bounds=(-3, 3), max_bin=8).construct()
    mine = dataset(X, Y).construct()
    for a, b in zip(mine.bins.values, other.bins.values, strict=True):
        np.testing.assert_array_equal(a, b)
    assert mine.bins.feature_infos == other.bins.feature_infos == ["[-3.0:3.0]"] * 4


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, scipy.sparse.csr_matrix])
def test_bins_are_those_of_the_bounds_in_every_kind_of_matrix(kind):
    data = lgb_dp.Dataset(kind(X * [0, 0.01, 0.01, 0.01]), Y, bounds=(-3, 3), max_bin=8).construct()
    for edges in data.bins.values:
        np.testing.assert_array_equal(edges, np.linspace(-3, 3, 9)[1:-1])
    assert data.bins.feature_infos == ["[-3.0:3.0]"] * 4


@pytest.mark.parametrize("name", ["", "a\nTree=0", "a\r", "a\0", "a" * 257, 'q"x', "a:b", "[a]", "=", "=a"])
def test_names_that_a_model_file_cannot_hold_are_refused_before_anything_is_released(name):
    """Before, all noise was drawn, and the model could not be read."""
    budget = lgb_dp.Budget(1.0, 1e-5)
    before = budget.spent
    match = r"name of column 0 has |LightGBM accepts no name with one of"
    for rows, names in (
        (X, {"feature_name": [name, "b", "c", "d"]}),
        (pd.DataFrame(X, columns=[name, "b", "c", "d"]), {}),
    ):
        with pytest.raises(lgb_dp.InvalidArgumentError, match=match):
            train(
                lgb_dp.Dataset(rows, Y, bounds=(-3, 3), max_bin=8, **names),
                lgb_dp.NewtonBoost(0.5, 1e-6, rounds=5, budget=budget),
            )
    assert budget.spent == before


@pytest.mark.parametrize("entry", ["feature_name", "table", "automatic bounds"])
@pytest.mark.parametrize("twins", [("a b", "a_b"), ("  ", "__"), ("a b_c", "a_b c")])
def test_names_that_lightgbm_makes_equal_are_refused_before_anything_is_released(entry, twins):
    """It writes blanks as underscores, and refuses what is equal then, without a name of its own error."""
    budget, names = lgb_dp.Budget(1.0, 1e-5), [*twins, "c", "d"]
    before = budget.spent
    table = pd.DataFrame(X, columns=names)

    def fitted():
        if entry == "automatic bounds":
            estimator = lgb_dp.DPLGBMClassifier(epsilon=0.5, delta=1e-6, auto_bounds=0.2, n_estimators=2)
            estimator.fit(table, Y, budget=budget)
        rows, given = (X, {"feature_name": names}) if entry == "feature_name" else (table, {})
        train(
            lgb_dp.Dataset(rows, Y, bounds=(-3, 3), max_bin=8, **given),
            lgb_dp.NewtonBoost(0.5, 1e-6, rounds=5, budget=budget),
        )

    with pytest.raises(lgb_dp.InvalidArgumentError, match=re.escape(repr(sorted(twins)))):
        fitted()
    assert budget.spent == before


def test_one_blank_is_no_reason_to_refuse_a_name():
    booster = train(
        lgb_dp.Dataset(X, Y, bounds=(-3, 3), max_bin=8, feature_name=["a b", "ab", "a", "b"]),
        lgb_dp.NewtonBoost(0.5, 1e-6, rounds=5),
    )
    assert booster.feature_name() == ["a_b", "ab", "a", "b"]


def test_categories_that_no_row_has_are_kept():
    frame = pd.DataFrame({"a": pd.Categorical(list("xy") * 200, categories=list("wxyz")), "b": [1, 3] * 200})
    bins = lgb_dp.Dataset(frame, Y, categories={"a": "dtype", "b": range(5)}).construct().bins
    assert bins.columns.categories == {0: tuple("wxyz")}
    assert bins.n_bins.tolist() == [4, 5]
    assert bins.feature_infos == ["0:1:2:3", "0:1:2:3:4"]


@pytest.mark.parametrize("n_rows", [2, 400])
def test_settings_left_open_do_not_depend_on_the_number_of_rows(n_rows):
    booster = train(dataset(X[:n_rows], Y[:n_rows]), lgb_dp.DPBoost(1.0), max_depth=-1)
    assert "[max_depth: 6]" in booster.model_to_string()
    releases = [*(f"splits of level {level}" for level in range(1, 7)), "leaf values"]
    assert [row["release"] for row in booster.privacy.ledger] == releases
    assert {row["disjoint_sets_of_rows"] for row in booster.privacy.ledger} == {3}
