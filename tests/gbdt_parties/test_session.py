"""Sessions: opened once, answered in order, ended by a refusal, and never quoting data."""

import copy
import errno
import logging
import struct
from threading import Event, Thread
from typing import Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_commons.errors import VeilboostError
from gbdt_parties import messages
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.messages import Done, Finish, Message, Refusal
from gbdt_parties.session import SessionHandler


class Hello(Message, kind=9001):
    number: Annotated[int, "i", -9, 1 << 31]


class Ask(Message, kind=9002):
    number: Annotated[int, "i", -9, 1 << 31]


class Counting(SessionHandler):
    """Keeps what each session was asked; a negative number fails in some way."""

    opening = (Hello,)
    closing = (Finish,)

    def __init__(self, max_sessions=1, used=None):
        super().__init__(used)
        self.max_sessions = max_sessions
        self.failure = InvalidDataError("negative")
        self.done = []

    def open(self, message, session):
        self._check(message)
        return [message.number], Done()

    def answer(self, kept, message):
        if isinstance(message, Ask):
            self._check(message)
            kept.append(message.number)
        return Done()

    def closed(self, kept):
        self.done.append(kept)

    def _check(self, message):
        if message.number < 0:
            raise self.failure


def ask(handler, session, number, message):
    envelope = messages.read(handler.handle(messages.write(session, number, message)))
    assert (envelope.session, envelope.sequence) == (session, number)
    return envelope.message


ONE, TWO, THREE = (bytes([k]) * 16 for k in range(1, 4))
MESSAGES = {"hello": Hello(1), "ask": Ask(1), "fail": Ask(-1), "finish": Finish(), "stray": Done()}
STEPS = st.lists(
    st.tuples(st.sampled_from([ONE, TWO, THREE]), st.integers(0, 4), st.sampled_from(sorted(MESSAGES))),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, max_sessions=st.integers(1, 3))
def test_requests_are_answered_once_and_in_order_whatever_comes(steps, max_sessions):
    """Compared with a model that only knows the next number of each open session, in order of opening."""
    handler = Counting(max_sessions)
    following, used = {}, set()
    for session, number, what in steps:
        message = {"hello": Hello(1), "ask": Ask(1), "fail": Ask(-1), "finish": Finish(), "stray": Done()}[
            what
        ]
        answer = ask(handler, session, number, message)
        if what == "hello":
            fine = number == 0 and session not in used
            if fine:
                used.add(session)
                while len(following) >= max_sessions:
                    del following[next(iter(following))]
                following[session] = 1
        elif session not in following:
            assert isinstance(answer, Refusal)
            assert answer.code == messages.NO_SESSION
            continue
        else:
            fine = number == following[session] and what != "fail"
            following[session] += 1
        assert isinstance(answer, Done) == fine
        if not fine:
            assert answer.code == messages.OTHER_REASON
        if not fine or what == "finish":
            following.pop(session, None)
        assert handler.is_idle(60.0) == (not following)


@given(length=st.integers(1, 6), data=st.data())
def test_a_replay_of_any_request_is_refused_and_ends_the_session(length, data):
    handler = Counting()
    requests = [messages.write(ONE, 0, Hello(0)), *(messages.write(ONE, k, Ask(k)) for k in range(1, length))]
    for request in requests:
        assert isinstance(messages.read(handler.handle(request)).message, Done)
    again = data.draw(st.sampled_from(requests))
    assert isinstance(messages.read(handler.handle(again)).message, Refusal)
    assert handler.done == [list(range(length))]
    assert ask(handler, ONE, length, Ask(0)).code == messages.NO_SESSION
    assert "twice" in ask(handler, ONE, 0, Hello(0)).reason


def test_the_oldest_session_ends_when_there_are_too_many():
    handler = Counting(max_sessions=2)
    for k, session in enumerate((ONE, TWO, THREE)):
        ask(handler, session, 0, Hello(k))
    assert handler.done == [[0]]
    assert ask(handler, ONE, 1, Ask(1)).code == messages.NO_SESSION
    assert isinstance(ask(handler, TWO, 1, Ask(1)), Done)


def test_an_opening_that_is_refused_ends_no_other_session():
    handler = Counting()
    ask(handler, ONE, 0, Hello(1))
    assert ask(handler, TWO, 0, Hello(-1)).reason == "negative"
    assert isinstance(ask(handler, ONE, 1, Ask(1)), Done)
    assert "twice" in ask(handler, TWO, 0, Hello(1)).reason


def test_sessions_used_elsewhere_are_not_opened():
    used = set()
    ask(Counting(used=used), ONE, 0, Hello(1))
    assert "twice" in ask(Counting(used=used), ONE, 0, Hello(1)).reason


def test_bytes_that_are_not_a_message_are_refused_and_end_nothing():
    handler = Counting()
    ask(handler, ONE, 0, Hello(1))
    answer = messages.read(handler.handle(b"x" * 100))
    assert (answer.session, answer.sequence) == (bytes(16), 0)
    assert isinstance(answer.message, Refusal)
    assert isinstance(ask(handler, ONE, 1, Ask(1)), Done)


@pytest.mark.parametrize("sequence", [0, 5])
def test_a_kind_of_message_that_is_not_known_is_refused_to_the_session_that_sent_it(sequence):
    request = bytearray(messages.write(ONE, sequence, Done()))
    struct.pack_into("<H", request, 6, 0xFFFF)
    answer = messages.read(Counting().handle(bytes(request)))
    assert (answer.session, answer.sequence) == (ONE, sequence)
    assert "not of this kind of training" in answer.message.reason


@pytest.mark.parametrize("error", [ValueError("HIV-positive"), KeyError("HIV-positive"), MemoryError()])
def test_an_unforeseen_error_is_logged_by_its_place_only(error, caplog):
    handler = Counting()
    handler.failure = error
    ask(handler, ONE, 0, Hello(1))
    with caplog.at_level(logging.ERROR):
        assert ask(handler, ONE, 1, Ask(-1)).reason == "internal error"
    assert type(error).__name__ in caplog.text
    assert "test_session.py" in caplog.text
    assert "HIV" not in caplog.text
    assert handler.done == [[1]]


def test_every_named_error_is_a_refusal_in_its_words():
    handler = Counting()
    handler.failure = VeilboostError("too few rows")
    ask(handler, ONE, 0, Hello(1))
    assert ask(handler, ONE, 1, Ask(-1)).reason == "too few rows"


def test_a_file_that_cannot_be_written_is_a_refusal_without_its_path():
    handler = Counting()
    handler.failure = OSError(errno.EACCES, "Permission denied", "/secret/path")
    ask(handler, ONE, 0, Hello(1))
    reason = ask(handler, ONE, 1, Ask(-1)).reason
    assert "Permission denied" in reason
    assert "secret" not in reason


def test_a_full_disk_is_not_a_refusal_but_ends_the_session():
    handler = Counting()
    handler.failure = OSError(errno.ENOSPC, "full")
    ask(handler, ONE, 0, Hello(1))
    with pytest.raises(OSError, match="full"):
        ask(handler, ONE, 1, Ask(-1))
    assert handler.done == [[1]]
    assert ask(handler, ONE, 1, Ask(1)).code == messages.NO_SESSION


def test_sessions_end_that_a_condition_holds_for():
    handler = Counting(max_sessions=3)
    for k, session in enumerate((ONE, TWO, THREE)):
        ask(handler, session, 0, Hello(k))
    handler.end_sessions(lambda kept: kept[0] != 1)
    assert handler.done == [[0], [2]]
    assert isinstance(ask(handler, TWO, 1, Ask(1)), Done)


def test_a_handler_is_idle_without_sessions_or_after_some_time():
    handler = Counting()
    assert handler.is_idle(60.0)
    ask(handler, ONE, 0, Hello(1))
    assert not handler.is_idle(60.0)
    assert handler.is_idle(-1.0)
    ask(handler, ONE, 1, Finish())
    assert handler.is_idle(60.0)


def test_a_handler_at_work_is_not_idle():
    is_at_work, may_end = Event(), Event()

    class Slow(Counting):
        def open(self, message, session):
            is_at_work.set()
            assert may_end.wait(60)
            return super().open(message, session)

    handler = Slow()
    worker = Thread(target=ask, args=(handler, ONE, 0, Hello(1)))
    worker.start()
    assert is_at_work.wait(60)
    assert not handler.is_idle(-1.0)
    may_end.set()
    worker.join(60)
    assert handler.is_idle(-1.0)


def test_a_copy_knows_the_same_sessions_and_goes_its_own_way():
    handler = Counting()
    ask(handler, ONE, 0, Hello(1))
    other = copy.deepcopy(handler)
    assert "twice" in ask(other, ONE, 0, Hello(1)).reason
    assert isinstance(ask(handler, ONE, 1, Ask(1)), Done)
