"""Bins, label scales, initial scores and categories come from public inputs only."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import lgb_dp
from lgb_dp.boosting.labels import LabelScale
from lgb_dp.dpboost.square_loss import quantise_gradients
from small_training import binary_data, dataset, train

X, Y = binary_data()


def test_bins_and_header_do_not_depend_on_the_rows():
    other = lgb_dp.Dataset(X[:50] * 0.01, label=1 - Y[:50], bounds=(-3, 3), max_bin=8).construct()
    mine = dataset(X, Y).construct()
    for a, b in zip(mine.bins.values, other.bins.values, strict=True):
        np.testing.assert_array_equal(a, b)
    assert mine.bins.feature_infos == other.bins.feature_infos == ["[-3.0:3.0]"] * 4


def test_the_first_gradients_start_from_zero_whatever_the_labels(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "lgb_dp.dpboost.square_loss.quantise_gradients",
        lambda g, w: seen.append(g.copy()) or quantise_gradients(g, w),
    )
    train(dataset(X, np.ones(len(X))), lgb_dp.DPBoost(1.0), n_rounds=1)
    assert (seen[0] == -1.0).all()


def test_the_centre_of_a_regression_is_that_of_the_public_bounds():
    data = lgb_dp.Dataset(X, label=np.full(len(X), 7.0), bounds=(-3, 3), label_bounds=(0, 20))
    booster = train(
        data, lgb_dp.DPBoost(1e-4, glc=False), n_rounds=1, objective="regression", learning_rate=1e-9
    )
    np.testing.assert_allclose(booster.predict(X), 10.0, atol=1e-6)


def test_bounds_and_label_bounds_read_from_data_warn_and_void_the_report():
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="bounds"):
        booster = train(lgb_dp.Dataset(X, label=Y), lgb_dp.DPBoost(1.0))
    assert not booster.privacy.private
    data = lgb_dp.Dataset(X, label=X[:, 0], bounds=(-3, 3))
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="label_bounds"):
        booster = train(data, lgb_dp.DPBoost(1.0), objective="regression")
    assert "label_bounds" in booster.privacy.reasons[0]


def test_label_scale_needs_no_labels():
    assert LabelScale("regression", 1, 0.0, 10.0).centre == 5.0
    assert LabelScale("binary", 1, 0.0, 1.0).centre == 0.0


def test_leaks_are_inherited_from_the_reference():
    with pytest.warns(lgb_dp.PrivacyLeakWarning):
        leaky = lgb_dp.Dataset(X, Y).construct()
    for other in (lgb_dp.Dataset(X, Y, reference=leaky), leaky.create_valid(X, Y)):
        assert not train(other, lgb_dp.DPBoost(1.0)).privacy.private
    with pytest.raises(ValueError, match="differ from those of the reference"):
        lgb_dp.Dataset(X, Y, bounds=(0, 1), reference=leaky).construct()


def test_categories_of_a_dtype_void_the_report_unless_declared():
    frame = pd.DataFrame({"a": pd.Categorical(list("xy") * 200)})
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="categories"):
        undeclared = train(lgb_dp.Dataset(frame, Y), lgb_dp.DPBoost(1.0)).privacy
    assert not undeclared.private
    assert "dtype" in undeclared.reasons[0]
    for categories in ({"a": ["x", "y"]}, {"a": "dtype"}, "dtype"):
        declared = train(lgb_dp.Dataset(frame, Y, categories=categories), lgb_dp.DPBoost(1.0)).privacy
        assert declared.private
        assert declared.notes == ()


@pytest.mark.parametrize("bounds", [(-1.7e308, 1.7e308), (0, 5e-324)])
def test_label_bounds_that_overflow_or_vanish_raise(bounds):
    with pytest.raises(ValueError, match="label_bounds"):
        dataset(X, Y, label_bounds=bounds)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, scipy.sparse.csr_matrix])
def test_bins_are_those_of_the_bounds_in_every_kind_of_matrix(kind):
    data = lgb_dp.Dataset(kind(X * [0, 0.01, 0.01, 0.01]), Y, bounds=(-3, 3), max_bin=8).construct()
    for edges in data.bins.values:
        np.testing.assert_array_equal(edges, np.linspace(-3, 3, 9)[1:-1])
    assert data.bins.feature_infos == ["[-3.0:3.0]"] * 4


def test_categories_that_no_row_has_are_kept():
    frame = pd.DataFrame({"a": pd.Categorical(list("xy") * 200, categories=list("wxyz")), "b": [1, 3] * 200})
    bins = lgb_dp.Dataset(frame, Y, categories={"a": "dtype", "b": range(5)}).construct().bins
    assert bins.columns.categories == {0: tuple("wxyz")}
    assert bins.n_bins.tolist() == [4, 5]
    assert bins.feature_infos == ["0:1:2:3", "0:1:2:3:4"]


@pytest.mark.parametrize("rows", [list("xy") * 200, list("w") * 300])
@pytest.mark.parametrize("categories", [{"a": list("wxyz")}, {"a": "dtype"}])
def test_the_model_file_holds_the_declared_categories_of_a_dtype(rows, categories):
    frame = pd.DataFrame({"a": pd.Categorical(rows, categories=list("wxyz")), "b": 0.5})
    data = lgb_dp.Dataset(frame, Y[: len(rows)], categories=categories, bounds={"b": (0, 1)})
    text = train(data, lgb_dp.DPBoost(1.0)).model_to_string()
    (line,) = [line for line in text.splitlines() if line.startswith("pandas_categorical")]
    assert line == 'pandas_categorical:[["w", "x", "y", "z"]]'


@pytest.mark.parametrize("n_rows", [2, 400])
def test_settings_left_open_do_not_depend_on_the_number_of_rows(n_rows):
    booster = train(dataset(X[:n_rows], Y[:n_rows]), lgb_dp.DPBoost(1.0), max_depth=-1)
    assert "[max_depth: 6]" in booster.model_to_string()
    releases = [*(f"splits of level {level}" for level in range(1, 7)), "leaf values"]
    assert [row["release"] for row in booster.privacy.ledger] == releases
    assert {row["disjoint_sets_of_rows"] for row in booster.privacy.ledger} == {3}


def test_leaks_are_inherited_by_folds():
    with pytest.warns(lgb_dp.PrivacyLeakWarning):
        data = lgb_dp.Dataset(X, Y).construct()
    folds = lgb_dp.folds(3, data)
    reasons = [data.subset(rows).provenance.leaks for rows, _ in folds.split()]
    assert reasons == [data.provenance.leaks] * 3
    assert len(reasons[0]) == 1
