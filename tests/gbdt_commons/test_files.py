"""Files and folders are their owner's only, are written as a whole or not at all, and are on the disk."""

import os
import stat

import pytest

from gbdt_commons.files import append_lines, make_folder, open_to_append, write_atomically, write_signed
from xgb_fed.vertical.protocol.splits import Splits


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("splits")


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


def test_signatures_beside_a_model_are_its_own(tmp_path):
    path = tmp_path / "model.txt"
    write_signed(path, b"model", "signatures")
    assert (tmp_path / "model.signatures").read_text() == "signatures"
    write_signed(path, "another", "")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("model.txt", "another")]
