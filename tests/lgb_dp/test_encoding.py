"""Encoded tables: LightGBM and its C interface score them as `predict` does."""

import ctypes
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lgb_dp
from encoded_tables import BOUNDS, CATEGORIES, DAYS, TRAINED, mixed_table, model_of

TABLE = mixed_table()


@pytest.fixture(scope="module")
def model():
    return model_of(TABLE)


@pytest.fixture
def path(model, tmp_path):
    model.save_model(tmp_path / "model.txt")
    return tmp_path / "model.txt"


def scores_of_the_c_interface(path, matrix):
    (library,) = Path(lightgbm.__file__).parent.glob("lib/lib_lightgbm.*")
    code, handle, n_trees = ctypes.CDLL(str(library)), ctypes.c_void_p(), ctypes.c_int()
    assert not code.LGBM_BoosterCreateFromModelfile(
        str(path).encode(), ctypes.byref(n_trees), ctypes.byref(handle)
    )
    scores, n_scores = np.zeros(len(matrix)), ctypes.c_int64()
    is_float64, by_rows, plain = 1, 1, 0
    rows = np.ascontiguousarray(matrix)
    assert not code.LGBM_BoosterPredictForMat(
        handle,
        rows.ctypes.data_as(ctypes.c_void_p),
        is_float64,
        ctypes.c_int32(rows.shape[0]),
        ctypes.c_int32(rows.shape[1]),
        by_rows,
        plain,
        0,
        -1,
        b"",
        ctypes.byref(n_scores),
        scores.ctypes.data_as(ctypes.c_void_p),
    )
    assert n_scores.value == len(matrix)
    code.LGBM_BoosterFree(handle)
    return scores


def test_each_column_becomes_what_the_model_has_for_it(model):
    matrix = dict(zip(TRAINED, lgb_dp.encode(TABLE, model).T, strict=True))
    expected = {
        "city": {"Rome": 0, "Oslo": 1, "Bern": 2},
        "level": {5: 5, 3: 3, 9: 9},
        "change": {-1: 0, 3: 1},
        "is_new": {True: 1, False: 0},
        "day": dict(zip(DAYS, range(3), strict=True)),
        "member": {True: 1, False: 0},
    }
    for name, codes in expected.items():
        wanted = [np.nan if cell is None else codes[cell] for cell in TABLE[name]]
        np.testing.assert_array_equal(matrix[name], wanted, err_msg=name)
    np.testing.assert_array_equal(matrix["x"], TABLE["x"])
    np.testing.assert_array_equal(matrix["since"], TABLE["since"].astype("datetime64[s]").astype(np.int64))


def test_lightgbm_and_its_c_interface_score_the_matrix_as_predict_does(model, path):
    matrix, scores = lgb_dp.encode(TABLE, path), model.predict(TABLE)
    assert len(set(model.feature_importance() > 0)) == 1
    assert len(np.unique(scores)) > 100
    np.testing.assert_array_equal(lightgbm.Booster(model_file=path).predict(matrix), scores)
    np.testing.assert_array_equal(scores_of_the_c_interface(path, matrix), scores)


def test_the_encoding_travels_with_the_text_and_with_boosters_of_lightgbm_alone(model, path):
    matrix = lgb_dp.encode(TABLE, model)
    for other in (path, str(path), path.read_text(), lightgbm.Booster(model_file=path)):
        np.testing.assert_array_equal(lgb_dp.encode(TABLE, other), matrix)
    classifier = lgb_dp.DPLGBMClassifier(8.0, n_estimators=2).fit(
        TABLE[["x"]], TABLE["member"], bounds=(-3, 3)
    )
    np.testing.assert_array_equal(lgb_dp.encode(TABLE[["x"]], classifier), TABLE[["x"]])


def with_midnights(table):
    return table.assign(day=pd.to_datetime(table["day"]))


@pytest.mark.parametrize("library", [pl.from_pandas, pa.Table.from_pandas, with_midnights])
def test_libraries_of_tables_give_the_same_matrix(model, library):
    table = library(TABLE)
    np.testing.assert_array_equal(lgb_dp.encode(table, model), lgb_dp.encode(TABLE, model))
    lgb_dp.check_bounds(library(TABLE[TRAINED]), BOUNDS, categories=CATEGORIES)  # as training reads them


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"city": "Paris"}, r"column 'city'.*100\.0%"),
        ({"level": 7}, "column 'level'"),
        ({"day": "01/02/2026"}, "column 'day'"),
        ({"day": pd.Timestamp(2026, 3, 1, 12)}, "column 'day'"),
    ],
)
def test_values_that_were_not_declared_are_refused_unless_the_column_is_named(model, change, named):
    (name,) = change
    changed = TABLE.assign(**change)
    for use in (
        lambda **how: lgb_dp.encode(changed, model, **how),
        lambda **how: model.predict(changed, **how),
    ):
        with pytest.raises(lgb_dp.InvalidArgumentError, match=named):
            use()
        use(accept_undeclared=[name])
        for wrong in (["town"], name):
            with pytest.raises(lgb_dp.InvalidArgumentError, match="accept_undeclared must hold"):
                use(accept_undeclared=wrong)
    few = changed[:99]
    missing = few.assign(**{name: None})
    np.testing.assert_array_equal(model.predict(few, accept_undeclared=[name]), model.predict(few))
    assert np.isnan(lgb_dp.encode(missing, model)[:, TRAINED.index(name)]).all()


def test_one_in_a_hundred_may_be_undeclared(model):
    for n, is_refused in ((3, False), (5, True)):
        changed = TABLE.copy()
        changed.loc[: n - 1, "city"] = "Paris"
        if is_refused:
            with pytest.raises(lgb_dp.InvalidArgumentError, match=r"'city'.*1\.2%"):
                model.predict(changed)
        else:
            model.predict(changed)


@pytest.mark.filterwarnings("ignore::lgb_dp.NotPrivateWarning")
def test_side_door_no_value_of_private_rows_ends_a_fit_or_a_search():
    table = TABLE[["city", "x"]].assign(city="Paris")
    table.loc[:5, "city"] = "Rome"
    y = (TABLE["x"] > 0).astype(int)
    declared = {"bounds": {"x": (-3, 3)}, "categories": {"city": CATEGORIES["city"]}}
    lgb_dp.DPLGBMClassifier(1.0, n_estimators=2).fit(table, y, **declared)
    search = lgb_dp.DPRandomizedSearchCV(lgb_dp.DPLGBMClassifier(1.0, n_estimators=2), {"max_depth": [1]})
    search.fit(table, y, classes=[0, 1], **declared)


@pytest.mark.parametrize("table", [TABLE[["x"]].to_numpy(), [[1.0]], None])
def test_a_matrix_is_encoded_already(model, table):
    with pytest.raises(lgb_dp.ArgumentTypeError, match="table must be"):
        lgb_dp.encode(table, model)


def test_columns_that_are_missing_and_models_that_are_none_are_named(model):
    with pytest.raises(lgb_dp.InvalidArgumentError, match="'city'"):
        lgb_dp.encode(TABLE.drop(columns="city"), model)
    with pytest.raises(lgb_dp.ArgumentTypeError, match="model must be"):
        lgb_dp.encode(TABLE, 3)
