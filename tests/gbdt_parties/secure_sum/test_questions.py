"""Computations that stop at questions: a generator and a thread behave alike."""

import gc
import threading
from dataclasses import dataclass

import pytest

from gbdt_parties.errors import ProtocolError
from gbdt_parties.secure_sum.questions import GeneratorComputation, ThreadComputation
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


def function(last, fails):
    def run(ask):
        told = [ask(Number(k)) for k in range(last)]
        if fails:
            raise fails("no model of these sums")
        return told

    return run


KINDS = {
    "generator": lambda *settings: GeneratorComputation(steps(*settings)),
    "thread": lambda *settings: ThreadComputation(function(*settings)),
}


def test_a_computation_that_waits_does_not_keep_a_process_alive():
    before = set(threading.enumerate())
    computation = KINDS["thread"](3, None)
    (thread,) = set(threading.enumerate()) - before
    assert computation.question().what == 0
    assert thread.daemon


@pytest.mark.parametrize("kind", KINDS)
def test_questions_are_asked_one_after_the_other(kind):
    computation = KINDS[kind](3, None)
    for k in range(3):
        assert computation.question() is computation.question()
        assert computation.question().what == k
        with pytest.raises(ProtocolError, match="has not ended"):
            computation.result()
        computation.tell(10 * k)
    assert computation.question() is None
    assert computation.result() == [0, 10, 20]


@pytest.mark.parametrize("kind", KINDS)
def test_a_computation_that_has_failed_stays_so(kind):
    """An opened sum cannot be taken back: there is no other question under its number."""
    computation = KINDS[kind](1, ValueError)
    computation.question()
    computation.tell(1)
    for ask in (computation.question, computation.result, computation.question):
        with pytest.raises(ValueError, match="no model of these sums"):
            ask()


@pytest.mark.parametrize("kind", KINDS)
def test_a_computation_that_is_interrupted_has_not_ended(kind):
    """Without its error it would seem to have ended, without a result."""
    computation = KINDS[kind](1, KeyboardInterrupt)
    computation.question()
    computation.tell(1)
    for ask in (computation.question, computation.result, computation.question):
        with pytest.raises(KeyboardInterrupt, match="no model of these sums"):
            ask()


def test_a_thread_ends_with_its_computation():
    before = set(threading.enumerate())  # threads of other tests may end meanwhile
    computation = KINDS["thread"](3, None)
    computation.question()
    (own,) = set(threading.enumerate()) - before
    del computation
    gc.collect()
    own.join(60)
    assert not own.is_alive()
