"""A party's own hashes, and those that it takes."""

import json

import numpy as np
import pytest

from gbdt_parties import messages
from gbdt_parties.errors import PartyRefusedError
from made_up_coordinator import LOGISTIC, N_FEATURES, N_ROWS, Coordinator, victim
from xgb_fed.horizontal.common.messages import HorizontalOpened, OpenHorizontal
from xgb_fed.horizontal.simfl.messages import ColumnMoments, HashRows, HashTable, TellMoments


def test_attack_an_earlier_seed_is_the_partys_own_last_one_only():
    party = victim()
    request = HashRows(b"", 2, np.zeros(N_FEATURES), np.ones(N_FEATURES))
    coordinator = Coordinator(party)
    coordinator.ask(TellMoments(0), ColumnMoments)
    with pytest.raises(PartyRefusedError, match="no previous session"):
        coordinator.ask(request, HashTable)
    _, table = Coordinator(party).hash_table(n_hashes=2)
    coordinator = Coordinator(party)
    coordinator.ask(TellMoments(0), ColumnMoments)
    assert np.array_equal(coordinator.ask(request, HashTable).hashes, table.reshape(-1))


def test_attack_a_hash_table_is_taken_once_from_each_party():
    coordinator = Coordinator(victim())
    _, table = coordinator.hash_table()
    message = HashTable(0, table.reshape(-1))
    coordinator.ask(message, messages.Done)
    with pytest.raises(PartyRefusedError, match="out of turn"):
        coordinator.ask(message, messages.Done)


def test_attack_hash_tables_of_another_size_are_refused():
    coordinator = Coordinator(victim())
    _, table = coordinator.hash_table()
    with pytest.raises(PartyRefusedError, match="another size"):
        coordinator.ask(HashTable(0, table.reshape(-1)[1:]), messages.Done)


def test_attack_more_hashes_than_columns_are_refused():
    with pytest.raises(PartyRefusedError, match=r"L < d"):
        Coordinator(victim()).hash_table(n_hashes=N_FEATURES)


def test_attack_opening_a_session_twice_does_not_hash_twice():
    coordinator = Coordinator(victim())
    coordinator.hash_table(n_hashes=2)
    again = OpenHorizontal(json.dumps(LOGISTIC), "[0, 1]", 0, np.array([N_ROWS, N_ROWS]), 1, 100)
    with pytest.raises(PartyRefusedError, match="opened already"):
        coordinator.ask(again, HorizontalOpened)
