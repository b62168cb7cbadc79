"""A party's memory: one object's at a time, and never other in the process than in its store."""

import numpy as np
import pytest

from gbdt_commons.errors import StoreError
from gbdt_commons.store import MemoryStore
from gbdt_commons.store_file import StoreFile
from kept_stores import end_process
from xgb_fed import HorizontalParty
from xgb_fed.horizontal.common.party_state import PartyState

RUN = b"r" * 16


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else StoreFile(tmp_path / "a.store", "a tester")


CHANGES = {
    "begin_run": (lambda kept: kept.begin_run(RUN), lambda kept: kept.rounds_of),
    "count_round": (lambda kept: kept.count_round(RUN, 0, 5), lambda kept: kept.n_rounds),
    "count_run": (lambda kept: kept.count_run(RUN, 2, 5), lambda kept: (kept.n_rounds, kept.rounds_of)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_change_that_could_not_be_kept_was_not_made_and_is_made_again(store, change, error, monkeypatch):
    """Else a round that is asked for again would count as counted, and after a restart it would not."""
    make, seen = CHANGES[change]
    kept = PartyState(bytes(32), store)
    before = seen(kept)

    def full(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_entry", full)
        with pytest.raises(type(error)):
            make(kept)
    assert seen(kept) == before
    make(kept)
    assert seen(kept) != before
    assert seen(PartyState(None, store)) == seen(kept)


def test_draws_come_back_with_the_store(store):
    first, again = PartyState(None, store), PartyState(None, store)
    np.testing.assert_array_equal(again.stream("a").words(1, 4), first.stream("a").words(1, 4))


def party(folder):
    return HorizontalParty(np.eye(12), np.arange(12) % 2, "p", categorical_labels=True, directory=folder)


def test_a_party_s_folder_is_one_object_s_until_it_is_closed(tmp_path):
    first = party(tmp_path)
    with pytest.raises(StoreError, match=r"'horizontal.store'.*use"):
        party(tmp_path)
    first.close()
    second = party(tmp_path)
    end_process(tmp_path)
    assert party(tmp_path).name == second.name
