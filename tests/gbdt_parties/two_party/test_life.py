"""Sessions that are over, copied or forked cannot be used, and failures are counted."""

import copy
import os
import pickle
from threading import Event, Thread

import pytest

from gbdt_parties.errors import ProtocolError, TransferCheckError
from gbdt_parties.two_party.life import MAX_FAILURES, Failures, Life, Unrepeatable


def test_a_failure_ends_the_session_and_three_end_all():
    failures = Failures()
    for k in range(MAX_FAILURES):
        life = Life(failures)
        life.check()
        with pytest.raises(TransferCheckError, match=r"inconsistent.*over"):
            life.fail("inconsistent")
        with pytest.raises(ProtocolError, match=r"transfers.*inconsistent"):
            life.check()
        assert failures.count == k + 1
    with pytest.raises(TransferCheckError, match=r"failed 3.*begins"):
        Life(failures)
    assert MAX_FAILURES == 3


def test_a_session_is_of_one_process(monkeypatch):
    life = Life(Failures())
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(ProtocolError, match="forked process: pads"):
        life.check()


def test_a_session_that_is_over_counts_no_other_failure():
    failures = Failures()
    life = Life(failures)
    life.end("done")
    with pytest.raises(ProtocolError, match="is over: done"):
        life.fail("late")
    assert failures.count == 0


def test_kept_failures_go_on():
    with pytest.raises(TransferCheckError):
        Life(Failures(count=3))


def test_secrets_are_not_copied():
    secret = Unrepeatable()
    for repeat in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied or pickled"):
            repeat(secret)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_refused_also_while_a_thread_of_the_parent_holds_the_session():
    life, is_held, is_over = Life(Failures()), Event(), Event()

    def hold():
        with life.held():
            is_held.set()
            is_over.wait(60)

    holder = Thread(target=hold)
    holder.start()
    is_held.wait(60)
    child = os.fork()
    if child == 0:
        try:
            with life.held():
                os._exit(0)
        except ProtocolError as error:
            os._exit(7 if "forked process" in str(error) else 1)
    is_over.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    life.check()


def test_one_thread_at_a_time_has_a_session_which_it_may_end():
    life, order = Life(Failures()), []

    def late():
        with pytest.raises(ProtocolError, match="is over: first"), life.held():
            order.append("late")

    with life.held(), life.held():
        other = Thread(target=late)
        other.start()
        life.end("first")
    other.join()
    assert order == []
