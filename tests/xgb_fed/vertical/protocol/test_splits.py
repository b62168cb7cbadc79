import errno
import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_commons.files import is_out_of_room
from gbdt_commons.sealed import write_sealed
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.features import MAX_VALUE, Columns, read_columns
from xgb_fed.errors import CorruptDataError
from xgb_fed.vertical.protocol.messages import RevealedCategories, RevealedSplits
from xgb_fed.vertical.protocol.splits import Splits, checked_right

VALUES = st.floats(-MAX_VALUE, MAX_VALUE, width=32)
SPLITS = st.lists(st.tuples(st.integers(0, 2), VALUES, st.booleans()), max_size=6)


def splits_of(splits, names=("a", "β 😀", '"c"')):
    kept = Splits(list(names))
    numbers = [kept.add(*split) for split in splits]
    assert numbers == list(range(len(splits)))
    return kept


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("splits")


@given(SPLITS)
@settings(max_examples=40)
def test_what_is_saved_is_loaded(folder, splits):
    kept = splits_of(splits)
    kept.save(folder / "splits.json")
    assert Splits.load(folder / "splits.json") == kept
    assert os.listdir(folder) == ["splits.json"]


@given(SPLITS, st.data())
@settings(max_examples=40)
def test_the_first_splits(splits, data):
    kept = splits_of(splits)
    count = data.draw(st.integers(0, len(splits)))
    first = kept.first(count)
    assert first == splits_of(splits[:count])
    first.add(0, 1.5, True)
    assert kept == splits_of(splits)
    kept.truncate(count)
    assert kept == splits_of(splits[:count])
    for wrong in (-1, len(kept) + 1):
        with pytest.raises(IndexError):
            kept.first(wrong)


@given(SPLITS.filter(bool), st.lists(VALUES | st.just(np.nan), min_size=1, max_size=9))
@settings(max_examples=40)
def test_rows_below_the_threshold_go_left(splits, values):
    kept = splits_of(splits)
    X = np.array(values + [t for _, t, _ in splits] + [np.nan], dtype=np.float32)[:, None].repeat(3, axis=1)
    columns, rows = read_columns(X), np.arange(len(X))[::-1]
    for k, (feature, threshold, default_left) in enumerate(splits):
        expected = [default_left if np.isnan(x) else bool(x < threshold) for x in X[rows, feature].tolist()]
        assert kept.goes_left(k, columns, rows).tolist() == expected


def test_splits_that_are_forgotten_take_their_categories_with_them():
    kept = Splits(["a"], categories={0: None})
    for right in ((0,), (1, 3)):
        kept.add(0, 0.0, False, right)
    kept.truncate(1)
    assert kept.right == {0: (0,)}
    kept.add(0, 0.0, False, (2,))
    assert kept.rule(1).right == (2,)


def test_columns_are_known_by_name_and_those_that_no_split_needs_may_come_and_go():
    named, unnamed = splits_of([(2, 0.5, True), (0, 0.5, True)]), Splits(["f0", "f1", "f2"])
    assert unnamed.is_unnamed
    assert not named.is_unnamed
    plain = read_columns(np.zeros((1, 3)))
    for kept in (named, unnamed):
        assert kept.columns_among(plain) is None
    for wide in (2, 4):
        with pytest.raises(InvalidDataError, match="number of columns"):
            named.columns_among(read_columns(np.zeros((1, wide))))
    first, second, third = named.names
    for own, places in (
        ([third, first], [1, 0, 0]),
        (["new", first, second, third], [1, 2, 3]),
        ([third, second, first], [2, 1, 0]),
    ):
        assert named.columns_among(Columns(np.zeros((1, len(own))), own)) == places
    with pytest.raises(InvalidDataError, match=r"1 columns.*needs") as caught:
        named.columns_among(Columns(np.zeros((1, 3)), [first, "secret", "c"]))
    assert not {"secret", third} & set(str(caught.value).split())


GOOD = {
    "format": 1,
    "names": ["a", "b"],
    "features": [1, 0],
    "thresholds": [0.5, -2.0],
    "default_left": [True, False],
}


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"names": None},
        {"names": "ab"},
        {"names": [1, 2]},
        {"names": ["a", "\ud800"]},
        {"names": ["a", "a"]},
        {"features": [1, 2]},
        {"features": [-1, 0]},
        {"features": [0.5, 0]},
        {"features": [True, 0]},
        {"features": [1]},
        {"features": "10"},
        {"thresholds": ["0.5", 1.0]},
        {"thresholds": [None, 1.0]},
        {"thresholds": [float("nan"), 1.0]},
        {"thresholds": [float("inf"), 1.0]},
        {"thresholds": {"0": 1, "1": 2}},
        {"default_left": [1, 0]},
        {"default_left": ["no", True]},
        {"default_left": None},
        {"more": 1},
    ],
    ids=str,
)
def test_files_of_other_content_are_refused(tmp_path, change):
    path = tmp_path / "splits.json"
    write_sealed(path, GOOD)
    assert len(Splits.load(path)) == 2
    write_sealed(path, {**GOOD, **change})
    with pytest.raises(CorruptDataError):
        Splits.load(path)
    write_sealed(path, {name: value for name, value in GOOD.items() if name not in change})
    if "more" not in change:
        with pytest.raises(CorruptDataError):
            Splits.load(path)


def test_a_damaged_splits_file_is_refused_without_its_path(tmp_path, caplog):
    path = tmp_path / "secret-folder.json"
    path.write_text("nonsense")
    with pytest.raises(CorruptDataError, match="log says") as caught:
        Splits.load(path)
    assert "secret" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert str(path) in caplog.text


def test_what_is_worth_waiting_for():
    assert is_out_of_room(OSError(errno.ENOSPC, "No space left on device"))
    assert not is_out_of_room(FileNotFoundError(errno.ENOENT, "none"))


def test_splits_are_revealed_in_the_types_of_the_message():
    kept = splits_of([(1, 0.5, True), (0, -2.0, False)])
    found = kept.revealed()
    assert type(found) is RevealedSplits
    assert (found.features.tolist(), found.thresholds.tolist()) == ([1, 0], [0.5, -2.0])
    assert found.default_left.tolist() == [1, 0]
    kinds = found.features.dtype, found.thresholds.dtype, found.default_left.dtype
    assert kinds == (np.int32, np.float32, np.uint8)
    assert json.loads(found.names) == ["a", "β 😀", '"c"']
    with pytest.raises(InvalidDataError, match=r"column 1.*type float32"):
        splits_of([], ("a", np.float32(7301.5), "c")).revealed()
    categorical = Splits(["a", "b"], categories={1: None})
    categorical.add(0, 0.5, True)
    categorical.add(1, 0.0, False, (0, 3))
    found = categorical.revealed()
    assert type(found) is RevealedCategories
    assert found.categorical.tolist() == [1]
    assert (found.n_right.tolist(), found.right.tolist()) == ([0, 2], [0, 3])
    assert {one.dtype for one in (found.categorical, found.n_right, found.right)} == {np.dtype(np.int32)}


@pytest.mark.parametrize("right", [[0], [0, 1, 4], [4]])
def test_categories_that_go_right_are_ascending_and_exist(right):
    assert checked_right(right, 5) == tuple(right)


@pytest.mark.parametrize("right", [[-1], [5], [0, 5], [1, 0], [0, 0], [-1, 0]])
def test_other_categories_are_refused(right):
    with pytest.raises(ValueError, match="impossible categories"):
        checked_right(right, 5)


@pytest.mark.parametrize("right", [[], (0,), [0.0], [True], [0, 1.0], None, "0"])
def test_lists_of_other_things_are_no_categories(right):
    with pytest.raises(TypeError, match="not categories"):
        checked_right(right, 5)
