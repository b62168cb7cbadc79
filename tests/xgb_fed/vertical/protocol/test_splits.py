import errno
import json
import os
import stat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_commons.files import append_lines, is_out_of_room, make_folder, open_to_append, write_atomically
from gbdt_commons.sealed import write_sealed
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.features import MAX_VALUE, read_columns
from xgb_fed.errors import CorruptDataError
from xgb_fed.vertical.protocol.splits import Splits

VALUES = st.floats(-MAX_VALUE, MAX_VALUE, width=32)
SPLITS = st.lists(st.tuples(st.integers(0, 2), VALUES, st.booleans()), max_size=6)


def splits_of(splits, names=("a", "β\n", '"c"')):
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


def test_columns_must_be_those_of_the_splits():
    named, unnamed = splits_of([]), Splits(["f0", "f1", "f2"])
    assert unnamed.is_unnamed
    assert not named.is_unnamed
    plain = read_columns(np.zeros((1, 3)))
    for kept in (named, unnamed):
        kept.check_columns(plain)
    with pytest.raises(InvalidDataError, match="number of columns"):
        named.check_columns(read_columns(np.zeros((1, 2))))
    plain.names[:] = ["a", "secret", "c"]
    with pytest.raises(InvalidDataError, match="other names") as caught:
        named.check_columns(plain)
    assert "secret" not in str(caught.value)


GOOD = {
    "format": 1,
    "names": ["a", "b"],
    "features": [1, 0],
    "thresholds": [0.5, -2.0],
    "default_left": [True, False],
}


def test_a_file_cut_off_anywhere_is_refused(tmp_path):
    path = tmp_path / "splits.json"
    splits_of([(1, 0.5, True), (0, -3e30, False)]).save(path)
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(CorruptDataError, match="splits of a model"):
            Splits.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"names": None},
        {"names": "ab"},
        {"names": [1, 2]},
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


def test_files_without_a_digest_of_their_content_are_refused(tmp_path):
    path = tmp_path / "splits.json"
    write_sealed(path, GOOD)
    kept = path.read_text()
    for altered in (json.dumps(GOOD), kept.replace("-2.0", "-3.0"), kept.replace("true", "false")):
        path.write_text(altered)
        with pytest.raises(CorruptDataError):
            Splits.load(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b"null", b"\xff\xfe", b"[" * 100_000])
def test_files_of_anything_else_are_refused(tmp_path, content):
    (tmp_path / "splits.json").write_bytes(content)
    with pytest.raises(CorruptDataError):
        Splits.load(tmp_path / "splits.json")


@pytest.mark.parametrize("step", ["os.replace", "os.fsync", "os.open"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step, error):
    path = tmp_path / "model.json"
    for old in (None, "old"):
        if old is not None:
            write_atomically(path, old)

        def fail(*args, **kwargs):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(f"gbdt_commons.files.{step}", fail, raising=False)
            with pytest.raises(type(error)):
                write_atomically(path, "new")
        assert [p.name for p in tmp_path.iterdir()] == ([] if old is None else ["model.json"])
        assert old is None or path.read_text() == old


def test_a_file_is_complete_on_the_disk_before_it_takes_the_name(tmp_path, monkeypatch):
    """What a process that ends between the two leaves: the old file under its name."""
    path, seen = tmp_path / "model.json", []
    write_atomically(path, "old")
    fsync, replace = os.fsync, os.replace

    def noted_fsync(fd):
        seen.append(("fsync", path.read_text()))
        fsync(fd)

    def noted_replace(source, target):
        seen.append(("replace", path.read_text(), source.read_text(), source.parent == target.parent))
        replace(source, target)

    monkeypatch.setattr("gbdt_commons.files.os.fsync", noted_fsync)
    monkeypatch.setattr("gbdt_commons.files.os.replace", noted_replace)
    write_atomically(path, "né")
    assert seen == [("fsync", "old"), ("replace", "old", "né", True), ("fsync", "né")]
    assert path.read_text() == "né"


@pytest.fixture
def _everyone_may_read():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("_everyone_may_read")
def test_files_and_folders_are_their_owners_only(tmp_path):
    folder = make_folder(tmp_path / "a" / "b")
    assert [mode(f) for f in (tmp_path / "a", folder)] == [0o700, 0o700]
    write_atomically(folder / "x", "secret")
    (folder / "y").write_text("was readable")
    write_atomically(folder / "y", b"secret")
    Splits(["f0"], [0], [0.5], [True]).save(folder / "z")
    os.close(open_to_append(folder / "w"))
    assert [mode(folder / name) for name in "xyzw"] == [0o600] * 4
    assert sorted(path.name for path in folder.iterdir()) == ["w", "x", "y", "z"]


def test_a_folder_that_is_there_stays_as_it_is(tmp_path):
    tmp_path.chmod(0o750)
    assert make_folder(tmp_path) == tmp_path
    assert mode(tmp_path) == 0o750
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="exists"):
        make_folder(tmp_path / "file")


def test_what_lies_where_the_new_file_is_written_is_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    (tmp_path / f".x.{os.getpid()}.part").symlink_to(elsewhere)
    write_atomically(tmp_path / "x", "content")
    assert elsewhere.read_text() == "untouched"
    assert (tmp_path / "x").read_text() == "content"


def test_the_new_name_is_on_the_disk_too(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync

    def noted(descriptor):
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr("gbdt_commons.files.os.fsync", noted)
    write_atomically(tmp_path / "x", "content")
    assert synced == [False, True]


def test_lines_after_a_torn_one_are_whole(tmp_path):
    (tmp_path / "x").write_text("whole\nto")
    descriptor = open_to_append(tmp_path / "x")
    append_lines(descriptor, "new\n")
    append_lines(descriptor, "newer\n")
    os.close(descriptor)
    assert (tmp_path / "x").read_text() == "whole\nto\nnew\nnewer\n"


def test_a_damaged_splits_file_is_refused_without_its_path(tmp_path):
    path = tmp_path / "secret-folder.json"
    path.write_text("nonsense")
    with pytest.raises(CorruptDataError) as caught:
        Splits.load(path)
    assert "secret" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_what_is_worth_waiting_for():
    assert is_out_of_room(OSError(errno.ENOSPC, "No space left on device"))
    assert not is_out_of_room(FileNotFoundError(errno.ENOENT, "none"))
