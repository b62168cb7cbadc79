import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_commons.errors import StoreError
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.log import RUNS, RunLog
from kept_stores import copied, cut_off, end_process, restarted
from limits import no_more_descriptors
from xgb_fed.vertical.passive.journal import FOUND, MAX_JOURNALS, Journals, ResumptionTerms
from xgb_fed.vertical.protocol.splits import Splits

TERMS = ResumptionTerms("paillier", 2048, 32, "rows", "digest")
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
@settings(max_examples=30, deadline=None)
def test_what_was_kept_is_found(folder, requests, before, on_disk):
    journals = Journals(restarted(folder) if on_disk else None)
    assert journals.find(MODEL) is None
    written(journals, requests, before)
    reader = Journals(restarted(folder)) if on_disk else journals
    assert reader.find(MODEL) == (TERMS, splits_of(requests))
    assert reader.find(b"n" * 16) is None
    if on_disk:
        end_process(folder)
        (folder / "party.store").unlink()


@given(REQUESTS.filter(any), st.data())
@settings(max_examples=15, deadline=None)
def test_a_log_cut_off_holds_whole_requests(folder, requests, data):
    """What a crash at any byte leaves: the requests that were answered, never half of one."""
    with TemporaryDirectory(dir=folder) as own:  # the log of another example would go on
        party = Path(own) / "party"
        store = restarted(party)
        written(Journals(store), requests)
        size = (party / "party.store-wal").stat().st_size
        cut = data.draw(st.integers(0, size))
        copy = cut_off(party / "party.store", Path(own) / "copy", cut)
        kept = Journals(StoreFile(copy, "a tester")).find(MODEL)
        end_process(own)
    answered = [splits for splits in requests if splits]
    states = [None, *((TERMS, splits_of(answered[:n])) for n in range(len(answered) + 1))]
    assert kept in states
    if cut == size:
        assert kept == states[-1]


def test_splits_are_on_the_disk_before_keep_returns(tmp_path):
    """A store says which of its records are, so that their loss is damage."""
    journals, kept = Journals(restarted(tmp_path / "bank")), Splits(list(NAMES))
    journal = journals.start(MODEL, TERMS, kept)
    kept.add(0, 0.5, True)
    journal.keep()
    copy = copied(tmp_path / "bank", tmp_path / "copy")
    assert Journals(restarted(copy)).find(MODEL) == journals.find(MODEL)
    copy = copied(tmp_path / "bank", tmp_path / "cut")
    os.truncate(copy / "party.store-wal", (copy / "party.store-wal").stat().st_size - 1)
    with pytest.raises(StoreError, match="damaged at record"):
        restarted(copy)


def test_a_start_that_fails_leaves_the_old_journal(tmp_path, monkeypatch):
    store = restarted(tmp_path)
    journals = Journals(store)
    written(journals, [[(0, 0.5, True)]])

    def full(kind, key, place, content):
        raise OSError(28, "No space left on device")

    for n_written in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(store, "write_entry", nth(n_written, store.write_entry, full))
            with pytest.raises(OSError, match="No space"):
                journals.start(MODEL, TERMS, Splits(list(NAMES)))
        assert journals.find(MODEL) == (TERMS, splits_of([[(0, 0.5, True)]]))


def nth(n, before, then):
    """A function that is one for some calls and then another."""
    calls = []

    def call(*args):
        calls.append(args)
        return (before if len(calls) <= n else then)(*args)

    return call


def test_a_training_begun_again_starts_where_it_is_taken_up(tmp_path):
    splits = [(0, 0.5, True), (1, 1.5, False), (0, 2.5, True)]
    journals = Journals(restarted(tmp_path))
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
def store(tmp_path):
    return restarted(tmp_path / "models")


@pytest.fixture
def journals(store):
    return Journals(store)


def test_a_journal_is_one_models(journals):
    journals.start(ONE, TERMS, one_split())
    assert journals.find(OTHER) is None


@pytest.mark.parametrize(
    "split", [[2, 0.5, True], [-1, 0.5, True], [True, 0.5, True], [0, "0.5", True], [0, 0.5, 1], [0, 0.5], 3]
)
def test_splits_are_checked_when_read(journals, store, split):
    journals.start(ONE, TERMS, one_split())
    RunLog(store, ONE).store.append(FOUND, "", [[1, 0.5, False]])
    assert len(journals.find(ONE)[1]) == 2
    RunLog(store, ONE).store.append(FOUND, "", [split])
    with pytest.raises(StoreError, match="damaged"):
        journals.find(ONE)


@pytest.mark.parametrize("about", [[], {}, 7, None, {"names": 3}, {"names": [], "terms": {}}])
def test_terms_are_checked_when_read(journals, store, about):
    journals.start(ONE, TERMS, one_split())
    store.put(RUNS, ONE.hex(), about)
    if about is None:
        assert journals.find(ONE) is None
    else:
        with pytest.raises(StoreError, match="damaged"):
            journals.find(ONE)


@pytest.mark.parametrize("on_disk", [True, False])
def test_the_oldest_of_too_many_go(journals, on_disk):
    journals = journals if on_disk else Journals()
    models = [bytes([k]) * 16 for k in range(MAX_JOURNALS + 3)]
    for model in models:
        journals.start(model, TERMS, one_split())
    assert [journals.find(model) is None for model in models] == [True] * 3 + [False] * MAX_JOURNALS


def test_a_training_under_way_needs_no_further_descriptor(journals):
    journal = journals.start(ONE, TERMS, one_split())
    with no_more_descriptors():
        journal.splits.add(0, 1.5, False)
        journal.keep()
    assert len(journals.find(ONE)[1]) == 2


def test_a_run_whose_journal_was_removed_goes_on_and_leaves_no_splits_without_terms(journals):
    """Splits without terms would take the place of another run, and nothing would ever read them."""
    kept, store = Splits(list(NAMES)), journals.store
    kept.add(0, 1.0, True)
    journal = journals.start(MODEL, TERMS, kept)
    models = [bytes([k]) * 16 for k in range(MAX_JOURNALS)]
    for model in models:
        journals.start(model, TERMS, splits_of([]))
    assert journals.find(MODEL) is None
    for threshold in (2.0, 3.0):
        kept.add(1, threshold, False)
        journal.keep()
        assert journals.find(MODEL) is None
        assert set(store.keys(RUNS)) == {model.hex() for model in models}
        assert not RunLog(store, MODEL).store.kinds()
    # The run is begun anew, with all of its splits: they are kept from then on.
    journal = journals.start(MODEL, TERMS, kept)
    kept.add(0, 4.0, True)
    journal.keep()
    assert journals.find(MODEL) == (TERMS, kept)
    assert len(kept) == 4
    assert [model.hex() in store.keys(RUNS) for model in models] == [False] + [True] * (MAX_JOURNALS - 1)
