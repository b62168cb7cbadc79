"""What a party of SimFL has told is never other in the process than in its store."""

import numpy as np
import pytest

from gbdt_commons.store import MemoryStore
from gbdt_commons.store_file import StoreFile
from xgb_fed.horizontal.common.party_state import PartyState
from xgb_fed.horizontal.common.rows import HorizontalRows
from xgb_fed.horizontal.common.told_rows import ToldRows
from xgb_fed.horizontal.simfl.disclosures import Disclosures


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else StoreFile(tmp_path / "a.store", "a tester")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_change_that_could_not_be_kept_was_not_made_and_is_made_again(store, error, monkeypatch):
    known = Disclosures(PartyState(bytes(32), store))

    def full(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_entry", full)
        with pytest.raises(type(error)):
            known.change(hashes={"functions": 3})
    assert known.told.hashes == {}
    known.change(hashes={"functions": 3})
    assert Disclosures(PartyState(None, store)).told.hashes == {"functions": 3}


def test_groups_and_draws_come_back_with_the_store(store):
    rows = HorizontalRows.of(np.eye(9), np.arange(9) % 2, "p", None, True, 3, 0, 100, 10)

    def known():
        state = PartyState(None, store)
        state.rows = ToldRows(store, state.stream, rows)
        return Disclosures(state)

    first = known()
    first.group(np.arange(18, dtype=np.int32).reshape(9, 2), rows.counted(), 3, b"functions")
    again = known()
    for name in ("order", "starts"):
        np.testing.assert_array_equal(getattr(again.groups, name), getattr(first.groups, name))
    np.testing.assert_array_equal(again.order(50), first.order(50))
    assert again.contribution() == first.contribution()
