import json
import os
import stat
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_parties._entries import entry_of, read_entries
from gbdt_parties.errors import ProtocolError
from limits import no_more_descriptors
from xgb_fed.vertical.passive.journal import MAX_JOURNALS, Journals, Terms
from xgb_fed.vertical.protocol.splits import Splits

TERMS = Terms("paillier", 2048, 32, "rows", "digest")
MODEL = b"m" * 16
NAMES = ["a", "β"]
SPLIT = st.tuples(
    st.integers(0, 1), st.floats(width=32, allow_nan=False, allow_infinity=False), st.booleans()
)
REQUESTS = st.lists(st.lists(SPLIT, max_size=3), max_size=4)


def splits_of(requests):
    kept = Splits(list(NAMES))
    for splits in requests:
        for split in splits:
            kept.add(*split)
    return kept


def written(journals, requests, before=0):
    """A journal of a training whose first splits were there when it was started."""
    kept = splits_of(requests[:before])
    journal = journals.start(MODEL, TERMS, kept)
    for splits in requests[before:]:
        for split in splits:
            kept.add(*split)
        journal.keep()
    return kept


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("journals")


@given(REQUESTS, st.integers(0, 4), st.booleans())
@settings(max_examples=50)
def test_what_was_kept_is_found(folder, requests, before, on_disk):
    journals = Journals(folder if on_disk else None)
    assert journals.find(MODEL) is None
    written(journals, requests, before)
    reader = Journals(folder) if on_disk else journals
    assert reader.find(MODEL) == (TERMS, splits_of(requests))
    assert reader.find(b"n" * 16) is None
    assert os.listdir(folder) == ([f"{MODEL.hex()}.journal"] if on_disk else [])
    (folder / f"{MODEL.hex()}.journal").unlink(missing_ok=True)


@given(REQUESTS.filter(any), st.data())
@settings(max_examples=40)
def test_a_file_cut_off_holds_whole_requests_or_is_refused(folder, requests, data):
    """What a crash at any byte leaves: the requests that were answered, never half of one."""
    journals = Journals(folder)
    written(journals, requests)
    path = folder / f"{MODEL.hex()}.journal"
    content = path.read_bytes()
    ends = [end for _, end in read_entries(path)]
    end = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:end])
    try:
        terms, kept = journals.find(MODEL)
    except ProtocolError:
        assert end < ends[0]
    else:
        # The first entry is the terms, the second the splits that were there from the start: none.
        n_requests = max(0, sum(whole <= end for whole in ends) - 2)
        assert (terms, kept) == (TERMS, splits_of([splits for splits in requests if splits][:n_requests]))
    path.unlink()


@given(REQUESTS.filter(any), st.data())
@settings(max_examples=40)
def test_a_changed_byte_is_refused(folder, requests, data):
    journals = Journals(folder)
    written(journals, requests)
    path = folder / f"{MODEL.hex()}.journal"
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 2))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(ProtocolError, match="journal of the training run is damaged"):
        journals.find(MODEL)
    path.unlink()


def test_splits_are_on_the_disk_before_keep_returns(tmp_path, monkeypatch):
    journals, synced, fdatasync = Journals(tmp_path), [], os.fdatasync
    path = tmp_path / f"{MODEL.hex()}.journal"
    kept = Splits(list(NAMES))
    journal = journals.start(MODEL, TERMS, kept)

    def noted(fd):
        synced.append(path.read_bytes())
        fdatasync(fd)

    monkeypatch.setattr("gbdt_parties._entries.os.fdatasync", noted)
    kept.add(0, 0.5, True)
    journal.keep()
    assert synced == [path.read_bytes()]
    assert b"0.5" in synced[0]


def test_a_start_that_fails_leaves_the_old_journal(tmp_path, monkeypatch):
    journals = Journals(tmp_path)
    written(journals, [[(0, 0.5, True)]])

    def full(source, target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("gbdt_commons.files.os.replace", full)
        with pytest.raises(OSError, match="No space"):
            journals.start(MODEL, TERMS, Splits(list(NAMES)))
    assert journals.find(MODEL) == (TERMS, splits_of([[(0, 0.5, True)]]))
    assert os.listdir(tmp_path) == [f"{MODEL.hex()}.journal"]


def test_a_training_begun_again_starts_where_it_is_taken_up(tmp_path):
    splits = [(0, 0.5, True), (1, 1.5, False), (0, 2.5, True)]
    journals = Journals(tmp_path)
    written(journals, [[split] for split in splits])
    kept = journals.find(MODEL)[1].first(1)
    journal = journals.start(MODEL, TERMS, kept)
    kept.add(*splits[2])
    journal.keep()
    assert journals.find(MODEL)[1] == splits_of([[splits[0], splits[2]]])


def test_of_many_trainings_in_memory_the_oldest_goes():
    journals = Journals()
    models = [bytes([k]) * 16 for k in range(MAX_JOURNALS + 1)]
    for model in models[:-1]:
        journals.start(model, TERMS, Splits([]))
    # Taken up again, the first is not the oldest any more.
    journals.start(models[0], TERMS, Splits([]))
    journals.start(models[-1], TERMS, Splits([]))
    assert [journals.find(model) is None for model in models] == [k == 1 for k in range(len(models))]


def test_terms_that_a_training_goes_on_under():
    for now in (TERMS, replace(TERMS, key_bits=3072)):
        TERMS.check(now)
    for now, words in [
        (replace(TERMS, key_bits=2047), "shorter key"),
        (replace(TERMS, scheme="plain", key_bits=4096), "another scheme"),
        (replace(TERMS, max_bin=33), "max_bin"),
        (replace(TERMS, data="other"), "data"),
    ]:
        with pytest.raises(ProtocolError, match=words):
            TERMS.check(now)


ONE, OTHER = b"1" * 16, b"2" * 16


def one_split():
    return Splits(["a", "b"], [1], [0.5], [True])


@pytest.fixture
def journals(tmp_path):
    return Journals(tmp_path / "models")


def file_of(tmp_path, model):
    return tmp_path / "models" / f"{model.hex()}.journal"


def test_a_journal_is_one_models(journals, tmp_path):
    journals.start(ONE, TERMS, one_split())
    file_of(tmp_path, ONE).rename(file_of(tmp_path, OTHER))
    with pytest.raises(ProtocolError, match="damaged"):
        journals.find(OTHER)


@pytest.mark.parametrize(
    "split", [[2, 0.5, True], [-1, 0.5, True], [True, 0.5, True], [0, "0.5", True], [0, 0.5, 1], [0, 0.5], 3]
)
def test_splits_are_checked_when_read(journals, tmp_path, split):
    journals.start(ONE, TERMS, one_split())
    with open(file_of(tmp_path, ONE), "ab") as file:
        file.write(entry_of(json.dumps([[1, 0.5, False]]).encode()))
    assert len(journals.find(ONE)[1]) == 2
    with open(file_of(tmp_path, ONE), "ab") as file:
        file.write(entry_of(json.dumps([split]).encode()))
    with pytest.raises(ProtocolError, match="damaged"):
        journals.find(ONE)


@pytest.mark.parametrize("on_disk", [True, False])
def test_the_oldest_of_too_many_go(journals, tmp_path, on_disk):
    journals = journals if on_disk else Journals()
    models = [bytes([k]) * 16 for k in range(MAX_JOURNALS + 3)]
    for age, model in enumerate(models):
        journals.start(model, TERMS, one_split())
        if on_disk:
            # Times of files are coarse.
            os.utime(file_of(tmp_path, model), (age, age))
    assert [journals.find(model) is None for model in models] == [True] * 3 + [False] * MAX_JOURNALS


def test_a_training_under_way_needs_no_further_descriptor(journals):
    journal = journals.start(ONE, TERMS, one_split())
    with no_more_descriptors():
        journal.splits.add(0, 1.5, False)
        journal.keep()
    assert len(journals.find(ONE)[1]) == 2


def test_a_journal_that_is_gone_closes_its_file(journals):
    journal = journals.start(ONE, TERMS, one_split())
    descriptor = journal._file._descriptor
    os.fstat(descriptor)
    del journal
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_journals_are_their_owners_only(journals, tmp_path):
    before = os.umask(0o022)
    try:
        journals.start(ONE, TERMS, one_split())
    finally:
        os.umask(before)
    assert stat.S_IMODE(file_of(tmp_path, ONE).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "models").stat().st_mode) == 0o700
