"""Who may go on with a training run, and how: one session at a time, on the same terms, losing nothing."""

import numpy as np
import pytest

import xgb_fed
from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.journal import Journals, Terms
from xgb_fed.vertical.messages import (
    Assignments,
    FindSplits,
    Gradients,
    OpenTraining,
    ResumeTraining,
    SplitNodes,
    StartTree,
    TrainingOpened,
)
from xgb_fed.vertical.passive import PassiveParty
from xgb_fed.vertical.splits import Splits

N_ROWS = 60
KEY = xgb_fed.OkamotoUchiyama(1024, allow_weak_key=True).generate()
OTHER_KEY = xgb_fed.Paillier(1024, allow_weak_key=True).generate()
NOTHING = np.empty(0, dtype=np.uint8)
RUN = b"M" * 16


class Talk:
    """One session at a party."""

    def __init__(self, party, session):
        self.party, self.session, self.sequence = party, session, 0

    def ask(self, message):
        request = messages.write(self.session, self.sequence, message)
        self.sequence += 1
        return messages.read(self.party.handle(request)).message

    def open(self, n_rows=N_ROWS, key=KEY, max_bin=8):
        none = np.empty(0, dtype=np.int32)
        rest = {"n_rows": n_rows, "max_bin": max_bin, "field_bits": 64, "n_groups": 1, "max_depth": 4}
        return self.ask(
            OpenTraining(
                public_key=key.public.public_bytes(), rows=none, eval_rows=none.astype(np.int64), **rest
            )
        )

    def grow(self, tree, n_rows=N_ROWS, key=KEY):
        """One tree with one split; the answer to the last question."""
        answer = self.ask(StartTree(tree, NOTHING, np.arange(3, dtype=np.int32)))
        if not isinstance(answer, messages.Done):
            return answer
        self.ask(Gradients(0, 0, key.public.to_bytes(key.encrypt([1] * n_rows))))
        self.ask(FindSplits(NOTHING, NOTHING))
        place = [np.array([k], dtype=np.int32) for k in (0, 0, 3)]
        return self.ask(SplitNodes(*place, np.array([0], dtype=np.uint8)))


@pytest.fixture
def party():
    """Parties of the same rows, or fewer, that share splits and journals, as one caller's at a server do."""
    X = np.random.default_rng(0).normal(size=(N_ROWS, 3))
    splits, journals = {}, Journals()

    def make(n_rows=N_ROWS):
        return PassiveParty(read_columns(X[:n_rows]), [], splits, journals=journals)

    make.splits = splits
    return make


def test_a_run_that_another_session_took_up_first_keeps_that_ones_terms(party):
    one, two = Talk(party(), RUN), Talk(party(50), b"2" * 16)
    one.open()
    two.open(50, OTHER_KEY, 16)
    assert isinstance(two.ask(ResumeTraining(RUN, 0)), messages.Done)
    assert "not what the training run began with" in one.grow(0).reason
    assert isinstance(two.grow(0, 50, OTHER_KEY), Assignments)


def test_a_run_under_way_is_not_taken_up_on_other_terms(party):
    one, two = Talk(party(), RUN), Talk(party(50), b"2" * 16)
    one.open()
    assert isinstance(one.grow(0), Assignments)
    two.open(50)
    assert "not what the training run began with" in two.ask(ResumeTraining(RUN, 0)).reason
    assert isinstance(one.grow(1), Assignments)


def test_a_session_whose_run_was_taken_up_elsewhere_writes_no_more(party):
    one, two = Talk(party(), RUN), Talk(party(), b"2" * 16)
    one.open()
    one.grow(0)
    two.open()
    assert isinstance(two.ask(ResumeTraining(RUN, 1)), messages.Done)
    assert "another session has taken up" in one.grow(1).reason
    two.grow(1)
    assert isinstance(two.ask(messages.Finish()), messages.Done)
    assert len(party.splits[RUN]) == 2


def test_a_run_that_another_session_finished_is_not_replaced_by_fewer_splits(party):
    one, two = Talk(party(), RUN), Talk(party(), b"2" * 16)
    one.open()
    two.open()
    one.grow(0)
    assert isinstance(one.ask(messages.Finish()), messages.Done)
    assert "not kept 0 splits" in two.ask(ResumeTraining(RUN, 0)).reason
    assert len(party.splits[RUN]) == 1


@pytest.mark.parametrize("ended", [True, False])
def test_the_number_of_a_run_opens_no_session_after_a_restart(party, ended):
    one = Talk(party(), RUN)
    one.open()
    one.grow(0)
    if ended:
        one.ask(messages.Finish())
    answer = Talk(party(), RUN).open()
    assert "can only be resumed" in answer.reason
    assert isinstance(Talk(party(), b"2" * 16).open(), TrainingOpened)


def test_a_journal_is_not_started_with_splits_that_it_does_not_hold():
    journals, terms = Journals(), Terms("plain", 64, 8, "data")
    splits = Splits(["a", "b"])
    splits.add(0, 1.0, True)
    journals.start(RUN, terms, splits)
    other = Splits(["a", "b"])
    other.add(1, 1.0, True)
    with pytest.raises(ProtocolError, match="not kept those splits"):
        journals.start(RUN, terms, other)
    journals.start(RUN, terms, splits.first(0))
