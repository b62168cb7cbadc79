"""Labels as places among classes."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.labels import encode_labels, places_among

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")


def test_labels_do_not_widen_to_the_longest_class():
    labels = np.array(["a", "b"])[np.arange(100_000) % 2]
    tracemalloc.start()
    try:
        codes = places_among(["a", "b", "c" * 200], labels)
        assert tracemalloc.get_traced_memory()[1] < 100 * len(labels)
    finally:
        tracemalloc.stop()
    assert codes[:3].tolist() == [0, 1, 0]
    assert places_among(["a"], ["b", "a"]).tolist() == [-1, 0]


MISSING = [None, float("nan"), pd.NA, np.datetime64("NaT")]


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["yes", "no", "yes"]),
        ["yes", "no", "yes"],
        pd.Series(["yes", "no", "yes"], dtype=object),
        pd.Series(["yes", "no", "yes"], dtype="string"),
        pd.Categorical(["yes", "no", "yes"], categories=["maybe", "no", "yes"]),
        pd.DataFrame({"y": ["yes", "no", "yes"]}),
        pl.Series(["yes", "no", "yes"]),
        pl.DataFrame({"y": ["yes", "no", "yes"]}),
        pa.array(["yes", "no", "yes"]),
        pa.chunked_array([["yes"], ["no", "yes"]]),
        pa.table({"y": ["yes", "no", "yes"]}),
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_labels_of_all_libraries_are_the_same_classes(labels):
    classes, codes = encode_labels(labels)
    assert (classes.tolist(), codes.tolist()) == (["no", "yes"], [1, 0, 1])
    assert places_among(["maybe", "yes"], labels).tolist() == [1, -1, 1]


@pytest.mark.parametrize("missing", MISSING, ids=str)
@pytest.mark.parametrize("label", ["SECRET", 7301])
def test_missing_labels_are_refused_and_are_no_class(missing, label):
    labels = np.array([label, missing, label, label - 1 if label == 7301 else "x"], dtype=object)
    with pytest.raises(InvalidDataError, match="infinite labels") as caught:
        encode_labels(labels)
    assert str(label) not in repr(caught.value)
    with pytest.raises(InvalidDataError, match="infinite labels"):
        encode_labels(labels.tolist())
    assert places_among([label], labels).tolist() == [0, -1, 0, -1]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1, "1", 0], "either numbers or texts"),
        (np.array([1, "SECRET"], dtype=object), "either numbers or texts"),
        (np.array([(1,), (2,)], dtype=[("a", int)]), "structured"),
        (np.ma.masked_array([0, 1, 1], mask=[0, 0, 1]), "masked"),
        (np.array(["2024-01-01"], dtype="M8[D]"), "datetime64"),
        (np.array([1j, 2]), "Complex"),
        ([[1, 2], [3]], "either numbers or texts"),
        ({"a": 1}, "dict"),
        (pl.DataFrame({"y": [1, 2]}).lazy(), "LazyFrame"),
    ],
    ids=str,
)
def test_labels_of_no_kind_are_refused_by_name(labels, words):
    if isinstance(labels, list) and "1" in labels:
        labels = np.array(labels, dtype=object)
    with pytest.raises(InvalidDataError, match=words) as caught:
        encode_labels(labels)
    assert "SECRET" not in repr(caught.value)
    assert caught.value.__context__ is None


def test_nullable_numbers_are_labels():
    for labels in (pd.Series([1, 0, 1], dtype="Int64"), pl.Series([1, 0, 1]), pd.Series([True, False, True])):
        assert encode_labels(labels)[1].tolist() == [1, 0, 1]
    for labels in (pd.Series([1, 0, None], dtype="Int64"), pl.Series([1, 0, None]), pa.array([1, 0, None])):
        with pytest.raises(InvalidDataError, match="missing"):
            encode_labels(labels)
