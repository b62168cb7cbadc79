"""Tables of every library are encoded as declared, in training and, from the model file, in prediction."""

import datetime as dt
import pickle
import subprocess
import sys

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lgb_dp
from lgb_dp.data.cells import plain_value
from lgb_dp.data.tables import TableColumns, time_as_number

CITIES = ["Oslo", "Bergen", "Turku"]
FIRST, LAST = dt.datetime(2020, 1, 1), dt.date(2023, 1, 1)
N = 240


def rows_of(seed):
    rng = np.random.default_rng(seed)
    since = np.datetime64("2020-01-01") + rng.integers(0, 1000, N).astype("timedelta64[D]")
    return pd.DataFrame(
        {
            "age": rng.uniform(0, 90, N),
            "city": rng.choice(CITIES, N).astype(object),
            "since": since.astype("M8[us]"),
            "stay": pd.to_timedelta(rng.uniform(0, 9, N), unit="h").astype("m8[us]"),
            "smokes": rng.random(N) < 0.5,
            "visits": rng.integers(0, 9, N),
        }
    )


FRAME, NEW = rows_of(0), rows_of(1)
Y = ((FRAME.city == "Oslo") ^ (FRAME.age > 60)).to_numpy().astype(float)
DECLARED = {
    "bounds": {
        "age": (0, 90),
        "since": (FIRST, LAST),
        "stay": (dt.timedelta(0), dt.timedelta(hours=9)),
        "visits": (0, 9),
    },
    "categories": {"city": CITIES},
}
NULLABLE = {"age": "Float64", "city": "string", "smokes": "boolean", "visits": "Int64"}
FORMS = {
    "object": lambda frame: frame,
    "str": lambda frame: frame.astype({"city": "str"}),
    "nullable": lambda frame: frame.astype(NULLABLE),
    "arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "category": lambda frame: frame.astype({"city": pd.CategoricalDtype(CITIES)}),
    "category of another order": lambda frame: frame.astype({"city": pd.CategoricalDtype(sorted(CITIES))}),
    "polars": pl.from_pandas,
    "enum": lambda frame: pl.from_pandas(frame).with_columns(pl.col("city").cast(pl.Enum(sorted(CITIES)))),
    "categorical of polars": lambda frame: pl.from_pandas(frame).with_columns(
        pl.col("city").cast(pl.Categorical)
    ),
    "dates": lambda frame: pl.from_pandas(frame).with_columns(pl.col("since").cast(pl.Date)),
    "time zone": lambda frame: frame.assign(
        since=frame.since.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    ),
    "nanoseconds": lambda frame: frame.astype({"since": "M8[ns]", "stay": "m8[ns]"}),
    "pyarrow": lambda frame: pl.from_pandas(frame).to_arrow(),
    "dictionary": lambda frame: pa.table(
        {
            name: pa.array(frame[name]).dictionary_encode() if name == "city" else pa.array(frame[name])
            for name in frame.columns
        }
    ),
}


def as_matrix(frame):
    """What a process that has only LightGBM computes: codes, seconds since 1970, seconds."""
    city = frame.city.map(CITIES.index)
    since = (frame.since - pd.Timestamp(0)).dt.total_seconds()
    stay = frame.stay.dt.total_seconds()
    columns = [frame.age, city, since, stay, frame.smokes, frame.visits]
    return np.column_stack([column.to_numpy(dtype=float) for column in columns])


def train(data, label=Y, n_rounds=12, **settings):
    data = lgb_dp.Dataset(data, label, **{**DECLARED, **settings})
    params = {"objective": "binary", "verbosity": -1}
    return lgb.train(params, data, n_rounds, callbacks=[lgb_dp.NewtonBoost(20.0, 1e-5)])


@pytest.fixture(scope="module")
def model():
    return train(FRAME)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_trains_and_predicts(model, form):
    form = FORMS[form]
    booster = train(form(FRAME))
    assert booster.privacy.private
    expected = booster.predict(NEW)
    assert len(np.unique(expected)) > 5
    np.testing.assert_array_equal(booster.predict(form(NEW)), expected)
    np.testing.assert_array_equal(model.predict(form(NEW)), model.predict(NEW))
    codes, others = (lgb_dp.Dataset(f, Y, **DECLARED).construct().codes for f in (form(FRAME), FRAME))
    np.testing.assert_array_equal(codes.codes, others.codes)


def test_a_process_with_lightgbm_alone_predicts_from_codes(model):
    stock = lgb.Booster(model_str=model.model_to_string())
    assert type(stock) is lgb.Booster
    np.testing.assert_array_equal(stock.predict(as_matrix(NEW)), model.predict(NEW))
    np.testing.assert_array_equal(model.predict(as_matrix(NEW)), model.predict(NEW))


@pytest.mark.parametrize("form", ["object", "polars", "nullable"])
def test_the_encoding_survives_files_pickles_and_copies(model, form, tmp_path):
    new, expected = FORMS[form](NEW), model.predict(NEW)
    model.save_model(tmp_path / "model.txt")
    loaded = lgb_dp.DPBooster(model_file=tmp_path / "model.txt")
    np.testing.assert_array_equal(loaded.predict(new), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(loaded)).predict(new), expected)
    resaved = lgb.Booster(model_file=tmp_path / "model.txt").model_to_string()
    np.testing.assert_array_equal(lgb_dp.DPBooster(model_str=resaved).predict(new), expected)
    assert lgb_dp.privacy_of(loaded) == lgb_dp.privacy_of(resaved) == model.privacy


def test_a_fresh_process_predicts_from_the_file(model, tmp_path):
    model.save_model(tmp_path / "model.txt")
    FORMS["polars"](NEW).write_parquet(tmp_path / "new.parquet")
    script = (
        "import polars, lgb_dp, numpy\n"
        f"model = lgb_dp.DPBooster(model_file={str(tmp_path / 'model.txt')!r})\n"
        f"found = model.predict(polars.read_parquet({str(tmp_path / 'new.parquet')!r}))\n"
        f"numpy.save({str(tmp_path / 'found.npy')!r}, found)\n"
    )
    # An older Dask, which LightGBM imports, announces its future.
    quiet = [sys.executable, "-W", "ignore::FutureWarning"]
    done = subprocess.run([*quiet, "-c", script], capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), model.predict(NEW))


@pytest.mark.parametrize("form", ["object", "str", "category", "nullable", "polars", "pyarrow"])
@pytest.mark.parametrize("method", ["newton", "dpboost"])
def test_estimators_take_tables(form, method):
    form = FORMS[form]
    model = lgb_dp.DPLGBMClassifier(10.0, method=method, n_estimators=5)
    model.fit(form(FRAME), Y, eval_set=[(form(NEW), Y)], public_eval_set=True, **DECLARED)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(form(NEW)), model.predict_proba(NEW))
    assert list(model.feature_names_in_) == list(FRAME.columns)


@pytest.mark.parametrize("form", ["polars", "pyarrow", "nullable"])
def test_labels_weights_and_persons_are_columns(form):
    rng = np.random.default_rng(0)
    columns = pd.DataFrame(
        {"y": pd.array(Y > 0, dtype="boolean"), "w": rng.uniform(0, 2, N), "id": np.arange(N) // 2}
    )
    table = {"nullable": lambda c: c, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}[form](
        columns
    )
    data = lgb_dp.Dataset(
        FORMS[form](FRAME),
        table["y"],
        weight=table["w"],
        weight_bound=2.0,
        groups=table["id"],
        rows_per_group=2,
        init_score=table["w"],
        public_init_score=True,
        **DECLARED,
    ).construct()
    np.testing.assert_array_equal(data.label, Y)
    np.testing.assert_array_equal(data.weight, columns.w)
    np.testing.assert_array_equal(data.group_of_row, columns.id)
    np.testing.assert_array_equal(data.start_scores[:, 0], columns.w)
    model = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(FORMS[form](FRAME), table["y"], **DECLARED)
    assert model.classes_.dtype == bool


def test_missing_values_of_every_library_are_missing():
    missing = np.arange(N) % 3 == 0
    frame = FRAME.mask(pd.Series(missing))
    expected = np.where(missing[:, None], np.nan, as_matrix(FRAME))
    columns = lgb_dp.Dataset(FRAME, Y, **DECLARED).construct().bins.columns
    pandas = frame.astype({"smokes": "boolean", "visits": "Int64"})
    for table in (pandas, FORMS["arrow"](pandas), pl.from_pandas(pandas), pl.from_pandas(pandas).to_arrow()):
        np.testing.assert_array_equal(columns.matrix(table, 6), expected)


@pytest.mark.parametrize("form", ["object", "polars", "pyarrow"])
def test_columns_in_another_order_are_put_right_by_name(model, form):
    new = FORMS[form](NEW)
    names = list(NEW.columns)[::-1]
    turned = new.select(names) if form != "object" else new[names]
    np.testing.assert_array_equal(model.predict(turned), model.predict(NEW))
    valid = lgb_dp.Dataset(FRAME, Y, **DECLARED).construct().create_valid(turned, Y).construct()
    np.testing.assert_array_equal(valid.codes.codes, valid.reference.bins.transform(new).codes)
    booster = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(turned, Y, **DECLARED).booster_
    assert booster.feature_name() == names


def test_columns_whose_names_are_numbers():
    frame = pd.DataFrame(np.random.default_rng(0).uniform(0, 1, (N, 3)))
    model = lgb_dp.DPLGBMClassifier(n_estimators=5).fit(frame, Y, bounds=(0, 1))
    booster = model.booster_
    np.testing.assert_array_equal(booster.predict(frame[[2, 0, 1]]), booster.predict(frame))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda frame: frame.drop(columns="age"), r"missing are \['age'\].*unknown.*\[\]"),
        (
            lambda frame: frame.rename(columns={"age": "years"}),
            r"missing are \['age'\].*unknown.*\['years'\]",
        ),
        (lambda frame: frame.assign(city=1), "column 'city'.*expected"),
        (
            lambda frame: frame.assign(age="secret"),
            # Before 3.0, pandas keeps text as objects.
            r"column 'age' holds text; expected are numbers|feature 'age' must hold numbers only",
        ),
        (lambda frame: frame.assign(since=1.6e9), "column 'since'.*datetimes"),
        (lambda frame: frame.assign(age=frame.since), "column 'age' holds datetimes"),
        (lambda frame: frame.assign(age=[["secret"]] * N), "feature 'age' must hold"),
    ],
)
@pytest.mark.parametrize("where", ["predict", "valid", "estimator"])
def test_other_columns_are_named(model, change, says, where):
    fitted = lgb_dp.DPLGBMClassifier(n_estimators=1)
    calls = {
        "predict": model.predict,
        "valid": lambda new: lgb_dp.Dataset(FRAME, Y, **DECLARED).create_valid(new, Y).construct(),
        "estimator": lambda new: fitted.fit(FRAME, Y, **DECLARED).predict(new),
    }
    with pytest.raises(lgb_dp.InvalidArgumentError, match=says) as refused:
        calls[where](change(NEW))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_a_column_that_came_later_is_no_reason_to_refuse(model, form):
    table = {"pandas": lambda frame: frame, "polars": FORMS["polars"]}[form]
    late = NEW.assign(debt="secret")[["debt", *NEW.columns[::-1]]]
    np.testing.assert_array_equal(model.predict(table(late)), model.predict(table(NEW)))


def test_text_without_categories_and_two_columns_of_one_name_are_refused():
    with pytest.raises(lgb_dp.InvalidArgumentError, match="column 'city' holds text"):
        lgb_dp.Dataset(FORMS["polars"](FRAME), Y, bounds={**DECLARED["bounds"], "city": (0, 1)}).construct()
    twice = pd.DataFrame(np.zeros((4, 2)), columns=["a", "a"])
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"duplicate column names: \['a'\]"):
        lgb_dp.Dataset(twice, [0, 1, 0, 1], bounds=(0, 1)).construct()
    with pytest.raises(lgb_dp.ArgumentTypeError, match="got LazyFrame"):
        lgb_dp.Dataset(FORMS["polars"](FRAME).lazy(), Y, **DECLARED).construct()


def test_categories_that_a_type_does_not_list_cannot_be_declared_by_it():
    table = FORMS["categorical of polars"](FRAME)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="lists its categories"):
        train(table, categories={"city": "dtype"})
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="categories"):
        read = train(table, categories=None)
    assert not read.privacy.private
    np.testing.assert_array_equal(read.predict(FRAME), read.predict(table))
    listed = train(FORMS["enum"](FRAME), categories="dtype")
    assert listed.privacy.private
    np.testing.assert_array_equal(listed.predict(FORMS["polars"](NEW)), listed.predict(NEW))


def test_unknown_categories_count_as_missing(model):
    elsewhere, nowhere = NEW.assign(city="Paris"), NEW.assign(city=None)
    unhashable = NEW.assign(city=[["Oslo"]] * N)
    for undeclared in (elsewhere, unhashable):
        predicted = model.predict(undeclared, accept_undeclared=["city"])
        np.testing.assert_array_equal(predicted, model.predict(nowhere))
    known = train(FRAME.assign(city="Paris"), n_rounds=3)
    assert len(np.unique(known.predict(FRAME))) > 1


def test_categories_of_any_type_come_back_from_the_file():
    bands = pd.cut(FRAME.age, [0, 30, 60, 90])
    booster = train(FRAME.assign(city=bands), categories="dtype")
    loaded = lgb_dp.DPBooster(model_str=booster.model_to_string())
    new = NEW.assign(city=pd.cut(NEW.age, [0, 30, 60, 90]))
    np.testing.assert_array_equal(loaded.predict(new), booster.predict(new))
    assert (booster.predict(new) != booster.predict(new.assign(city=None))).any()


def test_codes_stay_codes_in_columns_of_objects():
    frame = FRAME.assign(city=FRAME.city.map(CITIES.index))
    booster = train(frame, categories={"city": [0, 1, 2]})
    objects = frame.astype({"city": object})
    np.testing.assert_array_equal(booster.predict(objects), booster.predict(frame))


def test_training_continues_from_a_model_of_tables(model):
    data = lgb_dp.Dataset(FORMS["polars"](FRAME), Y, free_raw_data=False, **DECLARED)
    params = {"objective": "binary", "verbosity": -1}
    more = lgb.train(params, data, 3, init_model=model, callbacks=[lgb_dp.NewtonBoost(5.0, 1e-5)])
    assert more.num_trees() == 15
    np.testing.assert_array_equal(more.predict(NEW, num_iteration=12), model.predict(NEW))
    other = lgb_dp.Dataset(FRAME, Y, **{**DECLARED, "categories": {"city": sorted(CITIES)}})
    with pytest.raises(lgb_dp.InvalidArgumentError, match="categories of init_model"):
        lgb.train(params, other, 3, init_model=model, callbacks=[lgb_dp.NewtonBoost(5.0, 1e-5)])
    turned = lgb_dp.Dataset(FRAME[FRAME.columns[::-1]], Y, **DECLARED)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="columns of init_model"):
        lgb.train(params, turned, 3, init_model=model, callbacks=[lgb_dp.NewtonBoost(5.0, 1e-5)])


def test_private_metadata_of_tables():
    numbers = FORMS["polars"](FRAME).drop("city")
    (low, high), report = lgb_dp.private_bounds(numbers, 50.0, 1e-5)
    seconds = time_as_number(FIRST)
    assert low[1] <= seconds <= high[1]
    assert report.private
    bounds = {**DECLARED["bounds"], "smokes": (0, 1)}
    edges, _ = lgb_dp.private_quantile_edges(numbers, bounds, 50.0, 1e-5, max_bin=4)
    assert (np.abs(edges[1] - seconds) < 4 * 366 * 86400).all()
    with pytest.raises(lgb_dp.InvalidArgumentError, match="column 'city' holds text"):
        lgb_dp.private_bounds(FORMS["polars"](FRAME), 1.0, 1e-5)


def test_times_are_seconds():
    day = 86_400.0
    assert time_as_number(dt.date(1970, 1, 2)) == time_as_number(dt.datetime(1970, 1, 2)) == day
    tokyo = dt.timezone(dt.timedelta(hours=9))
    assert time_as_number(dt.datetime(1970, 1, 2, 9, tzinfo=tokyo)) == day
    assert time_as_number(np.datetime64("1970-01-02")) == time_as_number(pd.Timestamp(day, unit="s")) == day
    assert time_as_number(np.timedelta64(1, "D")) == time_as_number(pd.Timedelta(days=1)) == day
    assert time_as_number(3.5) == 3.5


def test_columns_are_what_json_has():
    columns = TableColumns(("a", "b", "c"), {0: ("x", 2, True)}, {1: (0, 5)}, {2: "datetime"})
    assert TableColumns.from_dict(columns.to_dict()) == columns
    assert TableColumns().to_dict() == {}
    values = [np.int64(3), np.str_("x"), None, pd.NA, pd.Timestamp("2020-01-01"), True]
    assert [plain_value(v) for v in values] == [3, "x", None, None, "2020-01-01 00:00:00", True]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_no_time_raises_an_error_and_units_do_not_matter(unit, zone):
    """Before, pyarrow quoted a duration beyond 2^53 nanoseconds, and overflowed at distant datetimes."""
    day = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit] * 86_400
    cells = [day, None, -day, 2**62, -(2**62), 104 * day + 7]
    arrow = {"datetime": pa.timestamp(unit, zone), "duration": pa.duration(unit)}
    for kind, dtype in arrow.items():
        column = pa.chunked_array([pa.array(cells, dtype)])
        frames = [pa.table({"t": column}), pd.DataFrame({"t": pd.Series(column, dtype=pd.ArrowDtype(dtype))})]
        if unit != "s":
            frames.append(pl.DataFrame({"t": pl.from_arrow(column)}))
        for frame in frames:
            seconds = TableColumns(times={0: kind}).matrix(frame, 1)[:, 0]
            assert np.isnan(seconds).tolist() == [False, True, False, False, False, False]
            assert seconds[[0, 2]].tolist() == [86_400, -86_400]
            assert seconds[3] == pytest.approx(2**62 / (day / 86_400), rel=1e-12)
            assert seconds[4] == pytest.approx(-(2**62) / (day / 86_400), rel=1e-12)


def test_dates_of_any_distance_are_seconds():
    column = pa.chunked_array([pa.array([1, None, 2**31 - 1], pa.int32()).cast(pa.date32())])
    for frame in (
        pa.table({"t": column}),
        pd.DataFrame({"t": pd.Series(column, dtype=pd.ArrowDtype(pa.date32()))}),
        pl.DataFrame({"t": pl.from_arrow(column)}),
    ):
        seconds = TableColumns(times={0: "datetime"}).matrix(frame, 1)[:, 0]
        assert np.array_equal(seconds, [86_400.0, np.nan, (2**31 - 1) * 86_400.0], equal_nan=True)
