"""Leaks of a data set reach the reports of all models on its rows."""

import pandas as pd
import pytest

import lgb_dp
from small_training import binary_data, train

X, Y = binary_data()


def test_bounds_and_label_bounds_read_from_data_warn_and_void_the_report():
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="bounds"):
        booster = train(lgb_dp.Dataset(X, label=Y), lgb_dp.DPBoost(1.0))
    assert not booster.privacy.private
    data = lgb_dp.Dataset(X, label=X[:, 0], bounds=(-3, 3))
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="label_bounds"):
        booster = train(data, lgb_dp.DPBoost(1.0), objective="regression")
    assert "label_bounds" in booster.privacy.reasons[0]


def test_leaks_are_inherited_from_the_reference():
    with pytest.warns(lgb_dp.PrivacyLeakWarning):
        leaky = lgb_dp.Dataset(X, Y).construct()
    for other in (lgb_dp.Dataset(X, Y, reference=leaky), leaky.create_valid(X, Y)):
        assert not train(other, lgb_dp.DPBoost(1.0)).privacy.private
    with pytest.raises(ValueError, match=r"differ.*reference"):
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


def test_leaks_are_inherited_by_folds():
    with pytest.warns(lgb_dp.PrivacyLeakWarning):
        data = lgb_dp.Dataset(X, Y).construct()
    folds = lgb_dp.folds(3, data)
    reasons = [data.subset(rows).provenance.leaks for rows, _ in folds.split()]
    assert reasons == [data.provenance.leaks] * 3
    assert len(reasons[0]) == 1
