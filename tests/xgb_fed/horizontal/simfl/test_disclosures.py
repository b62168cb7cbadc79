"""What a party of SimFL has told is never other in the process than in its store."""

import numpy as np
import pytest

from gbdt_commons.store import MemoryStore
from gbdt_commons.store_file import StoreFile
from xgb_fed.horizontal.common.party_state import PartyState
from xgb_fed.horizontal.common.row_groups import RowGroups
from xgb_fed.horizontal.simfl.disclosures import Disclosures

GROUPS = RowGroups(np.array([2, 0, 1], dtype=np.int64), np.array([0, 2], dtype=np.int64))


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else StoreFile(tmp_path / "a.store", "a tester")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_change_that_could_not_be_kept_was_not_made_and_is_made_again(store, error, monkeypatch):
    known = Disclosures(PartyState("rows", bytes(32), store))

    def full(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_entry", full)
        with pytest.raises(type(error)):
            known.change(hashes={"functions": 3})
    assert known.told.hashes == {}
    known.change(hashes={"functions": 3})
    assert Disclosures(PartyState("rows", None, store)).told.hashes == {"functions": 3}


def test_groups_and_draws_come_back_with_the_store(store):
    first = Disclosures(PartyState("rows", None, store))
    first.keep_groups(GROUPS)
    again = Disclosures(PartyState("rows", None, store))
    for name in ("order", "starts"):
        np.testing.assert_array_equal(getattr(again.groups, name), getattr(GROUPS, name))
    np.testing.assert_array_equal(again.order(50), first.order(50))
    assert again.contribution() == first.contribution()
