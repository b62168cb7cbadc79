import errno
import json
import os
import stat

import pytest

from xgb_fed.errors import CorruptDataError
from xgb_fed.share import Share, append_lines, is_out_of_room, make_folder, open_to_append, write_atomically


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
    Share(["f0"], [0], [0.5], [True]).save(folder / "z")
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

    monkeypatch.setattr("xgb_fed.share.os.fsync", noted)
    write_atomically(tmp_path / "x", "content")
    assert synced == [False, True]


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    write_atomically(tmp_path / "x", "old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("xgb_fed.share.os.fsync", full)
    with pytest.raises(OSError, match="No space") as caught:
        write_atomically(tmp_path / "x", "new")
    assert is_out_of_room(caught.value)
    assert not is_out_of_room(FileNotFoundError(errno.ENOENT, "none"))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_lines_after_a_torn_one_are_whole(tmp_path):
    (tmp_path / "x").write_text("whole\nto")
    descriptor = open_to_append(tmp_path / "x")
    append_lines(descriptor, "new\n")
    append_lines(descriptor, "newer\n")
    os.close(descriptor)
    assert (tmp_path / "x").read_text() == "whole\nto\nnew\nnewer\n"


WHOLE = {"format": 1, "names": ["a"], "features": [0], "thresholds": [0.5], "default_left": [True]}


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "{}",
        "[]",
        *(
            json.dumps(WHOLE | change)
            for change in (
                {"format": 9},
                {"names": "a"},
                {"names": [1]},
                {"features": [1]},
                {"features": [-1]},
                {"thresholds": ["0.5"]},
                {"default_left": [1]},
                {"thresholds": []},
                {"more": 1},
            )
        ),
    ],
)
def test_a_damaged_share_is_refused_without_its_path(tmp_path, text):
    path = tmp_path / "secret-folder.json"
    path.write_text(text)
    with pytest.raises(CorruptDataError) as caught:
        Share.load(path)
    assert "secret" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_a_share_comes_back(tmp_path):
    share = Share(["a", "b"], [1, 0], [0.5, float("inf")], [True, False])
    share.save(tmp_path / "share.json")
    assert Share.load(tmp_path / "share.json") == share
