"""Whose turn a round is."""

import pytest

from gbdt_parties.errors import ProtocolError
from xgb_fed.horizontal.simfl.boosting_state import Turns


def test_parties_take_turns_of_some_rounds_each():
    turns = Turns(3, 2, 9)
    assert [turns.builder(number) for number in range(9)] == [0, 0, 1, 1, 2, 2, 0, 0, 1]
    with pytest.raises(ProtocolError, match="opened for 9 rounds"):
        turns.builder(9)


@pytest.mark.parametrize(("per_turn", "n_rounds"), [(0, 1), (-1, 1), (1, -1)])
def test_numbers_that_no_run_has_are_refused(per_turn, n_rounds):
    with pytest.raises(ProtocolError, match="malformed"):
        Turns(2, per_turn, n_rounds)
