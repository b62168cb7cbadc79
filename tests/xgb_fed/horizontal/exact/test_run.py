"""What a party checks and counts of a run before the first sum of its rows leaves."""

import numpy as np
import pytest

from exact_training import Between, X, Y, party, train
from gbdt_parties.secure_sum.messages import AskSum
from xgb_fed import ExactTerms, HorizontalParty, PartyRefusedError
from xgb_fed.horizontal.exact.run import ExactSubject


class Stopped(BaseException):
    pass


def test_rounds_are_counted_of_a_run_that_goes_no_further_than_its_first_sum():
    """Else a coordinator that begins run after run is told the first sum as often as it likes."""
    members = [Between(party(0, max_rounds=5)), party(1), party(2)]

    def stop_after(number, message, send):
        answer = send()
        if isinstance(message, AskSum):
            raise Stopped
        return answer

    members[0].disturb = stop_after
    for _ in range(2):
        with pytest.raises(Stopped):
            train(members)
    members[0].disturb = lambda number, message, send: send()
    with pytest.raises(PartyRefusedError, match="2 further rounds; this party has taken part in 4"):
        train(members)
    train(members, 1)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("is_held_out", [False, True])
def test_labels_that_have_no_sum_are_refused_before_anything_leaves(wrong, is_held_out, monkeypatch):
    """No power of two holds them, and their sums would be of any size."""
    monkeypatch.delattr(ExactSubject, "answer")
    y = Y.astype(np.float64)
    others = np.where(np.arange(len(y)) == 7, wrong, y)
    terms = ExactTerms(held_out=[(X + 10, others)] if is_held_out else [])
    member = HorizontalParty(X, y if is_held_out else others, "ada", exact=terms)
    with pytest.raises(PartyRefusedError, match="y has missing or infinite labels"):
        train([member, (X, y)], params={"objective": "reg:squarederror", "max_depth": 2})
