"""What a party checks and counts of a run before the first sum of its rows leaves."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from exact_training import PARAMS, Between, X, Y, party, train
from gbdt_commons.store import MemoryStore
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.secure_sum.messages import AskSum
from gbdt_parties.secure_sum.rings import MODULO_64
from xgb_fed import ExactTerms, HorizontalParty, PartyRefusedError
from xgb_fed.horizontal.common.rows import RunLimits
from xgb_fed.horizontal.exact.questions import Question
from xgb_fed.horizontal.exact.rows.samples import RowDraws
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


def test_a_run_that_just_meets_the_limits_of_a_party_is_accepted(tmp_path):
    limits = RunLimits(max_bin=8, max_depth=2)

    def limited():
        member = party(0, max_rounds=2)
        sessions = member.for_caller(tmp_path, MemoryStore(), set(), MemoryAllowance(sys.maxsize), limits)
        return Between(SimpleNamespace(name=member.name, handle=sessions.handle))

    train([limited(), party(1), party(2)], 2)
    for n_rounds, params, reason in (
        (2, {"max_bin": 9}, "max_bin=9; this party accepts at most 8"),
        (2, {"max_depth": 3}, "max_depth=3; this party accepts at most 2"),
        (3, {}, "3 rounds; this party takes part in at most 2"),
    ):
        with pytest.raises(PartyRefusedError, match=reason):
            train([limited(), party(1), party(2)], n_rounds, {**PARAMS, **params})


@pytest.mark.parametrize(("n_values", "n_asked"), [(4096, 4096), (4097, 4096)])
def test_contributions_to_a_sum_have_32_mib_at_all_parties_together(n_values, n_asked):
    """As the wire protocol says: parties that cut sums into other parts cannot add them up."""

    def asking():
        yield (Question("rows", MODULO_64, MODULO_64.zeros(n_values), 40),)

    task, roster = SimpleNamespace(n_rounds=1), SimpleNamespace(names=[f"p{k}" for k in range(1024)])
    training = SimpleNamespace(task=task, draws=RowDraws(None, "", 0), run=asking)
    computation = ExactSubject._begin(SimpleNamespace(), training, roster, b"")
    assert computation.question().n_values == n_asked
