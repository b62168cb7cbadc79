"""A folder of progress: one training run's at a time, and refused by name if it is anything else."""

import fcntl

import pytest

from gbdt_commons.store import bytes_kind
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyArgumentError
from gbdt_parties.progress_folder import ProgressFolder
from kept_stores import damage

NOTES = bytes_kind("notes")


class Folder(ProgressFolder):
    store_file, role = "a.store", "a coordinator of tests"


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "new" / "folder", PartyArgumentError)


def test_what_was_kept_is_there_until_it_is_cleared(folder):
    folder.clear()
    assert not folder.folder.exists()
    with folder.opened() as store:
        store.put(NOTES, "", b"kept")
    with folder.opened() as store:
        assert store.get(NOTES, "") == b"kept"
    folder.clear()
    assert list(folder.folder.iterdir()) == []
    with folder.opened() as store:
        assert store.get(NOTES, "") is None


def test_the_progress_of_another_run_by_now_is_not_cleared(folder, caplog):
    with folder.opened() as store:
        store.put(NOTES, "", b"kept")
        folder.clear()
        assert "is not cleared" in caplog.text
        assert "is in use by another process" in caplog.text
        store.put(NOTES, "", b"kept on")
    with folder.opened() as store:
        assert store.get(NOTES, "") == b"kept on"


def test_a_folder_that_is_cleared_as_another_run_opens_it_has_one_lock(folder, monkeypatch):
    """The lock file that was opened before it was removed locks nothing out."""
    with folder.opened():
        pass
    real, cleared = fcntl.flock, []

    def lock(*args):
        if not cleared:
            cleared.append(True)
            folder.clear()
        real(*args)

    monkeypatch.setattr(fcntl, "flock", lock)
    with folder.opened(), pytest.raises(PartyArgumentError, match=r"use.*object"):
        folder.opened().__enter__()
    assert cleared


def test_a_folder_is_one_run_s_at_a_time_and_free_again_after_an_error(folder):
    def run():
        with folder.opened():
            with pytest.raises(PartyArgumentError, match=r"use.*object"):
                folder.opened().__enter__()
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run()


def damaged(path):
    damage(path, b"kept", b"Kept")


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def foreign(path):
    path.write_bytes(b"anything else" * 20)


def of_a_party(path):
    path.unlink()
    StoreFile(path, "a party of tests").close()


@pytest.mark.parametrize("spoil", [damaged, cut, foreign, of_a_party])
def test_another_store_is_refused_by_name_and_stays_as_it_is(folder, spoil):
    with folder.opened() as store:
        store.put(NOTES, "", b"kept")
    path = folder.folder / Folder.store_file
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(PartyArgumentError, match=r"'a.store'.*; remove"):
        folder.opened().__enter__()
    assert path.read_bytes() == before
