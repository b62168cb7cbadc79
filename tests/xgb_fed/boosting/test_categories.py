"""Categories: their codes and bins, and the values and types that are refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import xgb_fed
from categorical_columns import BASE, fitted, frames
from gbdt_parties.errors import InvalidDataError, ProtocolError
from kept_splits import give_splits
from vertical_training import Recorder, train
from xgb_fed.boosting.features import MAX_BINS, Columns, bin_features, read_columns, read_columns_like
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")


def test_codes_and_bins_of_categories():
    codes = np.array([[2.0], [np.nan], [0.7], [5.0]])
    columns = read_columns(codes, feature_types=["c"])
    binned = bin_features(columns, 2)
    assert binned.codes[:, 0].tolist() == [2, 6, 0, 5]  # one bin up to the largest; fractions are cut off
    assert binned.categorical == {0}
    assert bin_features(read_columns(np.full((3, 1), np.nan), feature_types=["c"]), 2).counts().tolist() == [
        0,
        3,
    ]
    known = read_columns_like(codes, ["f0"], {0: ("a", "b")})
    assert known.categories == {0: ("a", "b")}
    assert isinstance(known, Columns)


def test_categories_in_another_order_are_recoded():
    own, theirs, y = frames()
    model, bank = fitted(own, theirs, y)
    expected = model.predict(own, [bank])
    other, shops = own.copy(), theirs.copy()
    other["region"] = own["region"].cat.reorder_categories([*"wesno", "unused"])
    other["region"] = other["region"].cat.add_categories(["never used by a row"])
    shops["shop"] = shops["shop"].cat.reorder_categories(sorted(theirs["shop"].cat.categories, reverse=True))
    np.testing.assert_array_equal(model.predict(other, [bank.with_rows(shops)]), expected)
    fresh = xgb_fed.LocalParty(shops, "bank", enable_categorical=True)
    give_splits(bank, fresh)
    np.testing.assert_array_equal(model.predict(other, [fresh]), expected)


def test_categories_that_were_not_declared_are_refused_by_name():
    own, theirs, y = frames()
    model, bank = fitted(own, theirs, y)
    other, shops = own.copy(), theirs.copy()
    other["region"] = other["region"].cat.rename_categories({"n": "abroad"})
    shops["shop"] = shops["shop"].cat.rename_categories({"shop 3": "a new shop"})
    with pytest.raises(InvalidDataError, match=r"'region' of X.*categories.*\d+ rows") as error:
        model.predict(other, [bank])
    assert "abroad" not in str(error.value)
    with pytest.raises(InvalidDataError, match=r"column 'shop' of X.*'bank'"):
        bank.with_rows(shops)
    with pytest.raises(InvalidDataError, match=r"column 'shop' of eval_sets\[0\]"):
        xgb_fed.LocalParty(theirs, "bank", eval_sets=[shops], enable_categorical=True)
    fresh = xgb_fed.LocalParty(shops, "bank", enable_categorical=True)
    give_splits(bank, fresh)
    with pytest.raises(ProtocolError, match=r"column 1.*categories") as refused:
        model.predict(own, [fresh])
    assert "shop" not in str(refused.value)  # names stay with their party
    with pytest.raises(InvalidDataError, match=r"'region' of X.*dtype"):
        model.predict(own.assign(region=1.0), [bank])
    with pytest.raises(InvalidDataError, match="'age' of X was numeric"):
        model.predict(own.assign(age=pd.Categorical(["a"] * len(own))), [bank])


@pytest.mark.parametrize(
    ("values", "words"),
    [([-1.0, 2.0], "invalid categories in 20 rows"), ([0.0, float(MAX_BINS)], f"from 0 to {MAX_BINS - 1}")],
)
def test_invalid_codes_are_refused_by_name_before_parties_are_asked(values, words):
    def never(*_):
        raise AssertionError("asked")

    X = np.array(values * 20, dtype=np.float32)[:, None]
    silent = Recorder(xgb_fed.LocalParty(X, "bank", feature_types=["c"]), never)
    with pytest.raises(InvalidDataError, match=f"column 'f0'.*active_data.*{words}"):
        train({**BASE, "feature_types": ["c"]}, X, np.tile([0, 1], 20), [silent], 1)
    with pytest.raises(ProtocolError, match="invalid categories"):
        train({**BASE, "enable_categorical": True}, None, np.tile([0, 1], 20), [silent.party], 1)


def test_categories_that_are_not_enabled_are_refused_by_name():
    own, theirs, y = frames(60)
    with pytest.raises(InvalidDataError, match=r"\['shop', 'plan'\]; .*enable_categorical=True"):
        xgb_fed.LocalParty(theirs, "bank")
    bank = xgb_fed.LocalParty(theirs, "bank", enable_categorical=True)
    with pytest.raises(InvalidArgumentError, match=r"2 columns.*'bank'.*enable"):
        train(BASE, own[["age"]], y, [bank], 1)
    params = {**BASE, "objective": "multi:softprob", "num_class": 2, "enable_categorical": True}
    with pytest.raises(UnsupportedParameterError, match=r"multi_output=True.*supported"):
        train({**params, "multi_output": True}, own, y, [], 1)
    for value, words in (("yes", "enable_categorical='yes'"), (0, "max_cat_to_onehot=0")):
        name = words.split("=")[0]
        with pytest.raises(InvalidArgumentError, match=words):
            train({**BASE, name: value}, own, y, [bank], 1)
    with pytest.raises(InvalidDataError, match="feature_types of data of active_data"):
        train({**BASE, "feature_types": ["c", "q"]}, own[["age"]], y, [bank], 1)
    with pytest.raises(InvalidDataError, match="texts nor finite"):
        read_columns(pd.DataFrame({"d": pd.Categorical([(1, 2)])}), enable_categorical=True)
    with pytest.raises(InvalidDataError, match="categorical features"):
        read_columns(own)


COLOURS = ["red", "blue", None, "red"]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(COLOURS).astype("category"),
        pd.Series(COLOURS).astype(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
        pl.Series(COLOURS, dtype=pl.Enum(["red", "green", "blue"])),
        pl.Series(COLOURS, dtype=pl.Categorical),
        pa.array(COLOURS).dictionary_encode(),
        pa.chunked_array([pa.array(COLOURS[:2]), pa.array(COLOURS[2:])]).dictionary_encode(),
    ],
    ids=["pandas", "pandas of Arrow", "Enum", "Categorical", "dictionary", "chunks"],
)
def test_categories_of_every_library_have_the_codes_of_training(column):
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame}.get(
        type(column).__module__.split(".")[0], pa.table
    )
    X = table({"size": column, "n": [1.0, 2.0, 3.0, 4.0]} if table is not pa.table else {"size": column})
    own = read_columns(X, enable_categorical=True)
    assert [own.categories[0][int(code)] for code in own.data[[0, 1, 3], 0]] == ["red", "blue", "red"]
    assert np.isnan(own.data[2, 0])
    known = read_columns_like(X, own.names, {0: ("green", "blue", "red")})
    np.testing.assert_array_equal(known.data[:, 0], [2, 1, np.nan, 2])
    with pytest.raises(InvalidDataError, match=r"not numbers: \['size'\].*enable_categorical"):
        read_columns(X, enable_categorical=False)
    with pytest.raises(InvalidDataError, match=r"'size' of X.*categories.*1 rows"):
        read_columns_like(X, own.names, {0: ("red",)})


def test_a_column_of_a_table_must_be_of_categories_as_in_training():
    with pytest.raises(InvalidDataError, match=r"'size' of X.*dtype"):
        read_columns_like(pa.table({"size": [1, 2]}), ["size"], {0: ("red",)})
