"""The seed of hashes is drawn by all parties."""

import numpy as np
import pytest

from gbdt_parties.errors import PartyRefusedError
from made_up_coordinator import N_FEATURES, Coordinator, victim
from xgb_fed.horizontal.simfl.hash_seed import MAX_ABANDONED
from xgb_fed.horizontal.simfl.messages import (
    ColumnMoments,
    HashRows,
    HashTable,
    RevealSeed,
    SeedContribution,
    TellMoments,
)


def test_attack_a_seed_is_not_revealed_to_whoever_has_not_committed():
    coordinator = Coordinator(victim())
    with pytest.raises(PartyRefusedError, match="parties have committed"):
        coordinator.ask(RevealSeed(bytes(64)), SeedContribution)
    coordinator = Coordinator(victim())
    coordinator.commitments()
    with pytest.raises(PartyRefusedError, match="32 bytes for 2 parties"):
        coordinator.ask(RevealSeed(bytes(32)), SeedContribution)
    coordinator = Coordinator(victim())
    coordinator.commitments()
    with pytest.raises(PartyRefusedError, match="commitment was replaced"):
        coordinator.ask(RevealSeed(bytes(64)), SeedContribution)


@pytest.mark.parametrize("place", [0, 1])
def test_attack_a_seed_cannot_be_changed_after_it_is_known(place):
    coordinator = Coordinator(victim())
    coordinator.ask(TellMoments(0), ColumnMoments)
    told = bytearray(coordinator.agreed())
    told[32 * place] ^= 1
    with pytest.raises(PartyRefusedError, match=f"{place} revealed another hash"):
        coordinator.ask(HashRows(bytes(told), 2, np.zeros(N_FEATURES), np.ones(N_FEATURES)), HashTable)


def test_attack_seeds_are_not_drawn_until_one_is_liked():
    party = victim()
    for _ in range(MAX_ABANDONED):
        Coordinator(party).agreed()
    with pytest.raises(PartyRefusedError, match=r"revealed.*used"):
        Coordinator(party).agreed()
