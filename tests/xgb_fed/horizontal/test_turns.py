"""Whose turn a round is."""

import itertools

import pytest

from gbdt_parties.errors import ProtocolError
from xgb_fed.horizontal.turns import Turns


def test_parties_take_turns_of_some_rounds_each():
    turns = Turns(3, 2, 9)
    assert [turns.builder(number) for number in range(9)] == [0, 0, 1, 1, 2, 2, 0, 0, 1]
    with pytest.raises(ProtocolError, match="opened for 9 rounds"):
        turns.builder(9)


def test_rounds_of_others_are_counted():
    for n_parties, per_turn, n_rounds in itertools.product((1, 2, 3), (1, 2, 5), range(12)):
        turns = Turns(n_parties, per_turn, n_rounds)
        for place, first in itertools.product(range(n_parties), range(13)):
            expected = sum(turns.builder(number) != place for number in range(first, n_rounds))
            assert turns.n_of_others(place, first) == expected


@pytest.mark.parametrize(("per_turn", "n_rounds"), [(0, 1), (-1, 1), (1, -1)])
def test_numbers_that_no_run_has_are_refused(per_turn, n_rounds):
    with pytest.raises(ProtocolError, match="malformed"):
        Turns(2, per_turn, n_rounds)
