"""Computations that stop at questions."""

from contextvars import ContextVar
from dataclasses import dataclass

import pytest

from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.engine import Computation, carried_out, drive
from gbdt_parties.secure_sum.rings import MODULO_64


@dataclass(frozen=True)
class Number:
    what: int
    ring = MODULO_64
    n_values = 1

    @property
    def parts(self):
        return (b"%d" % self.what,)


def steps(last, fails):
    told = []
    for k in range(last):
        told.append((yield Number(k)))
    if fails:
        raise fails("no model of these sums")
    return told


def test_questions_are_asked_one_after_the_other():
    computation = Computation(steps(3, None))
    for k in range(3):
        assert computation.question() is computation.question()
        assert computation.question().what == k
        with pytest.raises(ProtocolError, match="has not ended"):
            computation.result()
        computation.tell(10 * k)
    assert computation.question() is None
    assert computation.result() == [0, 10, 20]


def test_a_computation_that_has_failed_stays_so():
    """An opened sum cannot be taken back: there is no other question under its number."""
    computation = Computation(steps(1, ValueError))
    computation.question()
    computation.tell(1)
    for ask in (computation.question, computation.result, computation.question):
        with pytest.raises(ValueError, match=r"model.*sums"):
            ask()


def test_a_computation_that_is_interrupted_has_not_ended():
    """Without its error it would seem to have ended, without a result."""
    computation = Computation(steps(1, KeyboardInterrupt))
    computation.question()
    computation.tell(1)
    for ask in (computation.question, computation.result, computation.question):
        with pytest.raises(KeyboardInterrupt, match=r"model.*sums"):
            ask()


def test_a_computation_keeps_the_context_in_which_it_began():
    """So that an observer of releases observes those of its run, whoever asks for its questions."""
    name = ContextVar("name", default="of the caller")

    def asks():
        yield Number(0)
        return name.get()

    name.set("of the run")
    computation = Computation(asks())
    name.set("of another")
    computation.question()
    computation.tell(None)
    assert computation.result() == "of the run"


def answered(question):
    """Half of each answer is waited for."""
    return question.what + (yield "the other half")


def test_a_run_is_driven_by_answers_that_wait_in_turn():
    given = iter(range(100, 400, 100))
    assert carried_out(drive(steps(3, None), answered), lambda: next(given)) == [100, 201, 302]
    with pytest.raises(ValueError, match="no model"):
        carried_out(drive(steps(1, ValueError), answered), lambda: 0)


def test_errors_of_waiting_are_raised_where_it_is_waited():
    said = []

    def lost():
        raise KeyboardInterrupt

    def waiting():
        try:
            yield "a message"
        except KeyboardInterrupt:
            said.append("lost")
            raise

    with pytest.raises(KeyboardInterrupt):
        carried_out(waiting(), lost)
    assert said == ["lost"]


def test_a_closed_computation_ends_where_it_waits_and_asks_nothing_more():
    closed = []

    def waiting():
        try:
            yield Number(1)
        finally:
            closed.append(True)

    computation = Computation(waiting())
    assert computation.question().what == 1
    computation.close()
    assert closed == [True]
    assert computation.question() is None
