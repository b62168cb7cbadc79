import os
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import numpy as np
import pytest

import xgb_fed
from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import ConsentError, PartyRefusedError, ProtocolError, SessionLostError
from gbdt_parties.traffic import Traffic

ESCAPES = "\x1b[2J\x1b]0;title\x07\nall is well\u202e"


class Says:
    name = "bank"

    def __init__(self, answer):
        self.answer = answer

    def handle(self, request):
        return self.answer


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (messages.OTHER_REASON, PartyRefusedError),
        (messages.NO_CONSENT, ConsentError),
        (messages.NO_SESSION, SessionLostError),
    ],
)
def test_reasons_of_another_party_are_quoted(code, kind):
    answer = messages.write(b"s" * 16, 0, messages.Refusal("not today" + ESCAPES * 10_000, code))
    channel = Channel(Says(answer), b"s" * 16, Traffic())
    with pytest.raises(kind, match="'bank' refuses: not today") as caught:
        channel.ask(messages.Finish(), messages.Done)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 2500


def test_answers_that_are_no_messages_are_the_partys_fault():
    channel = Channel(Says(ESCAPES.encode()), b"s" * 16, Traffic())
    with pytest.raises(ProtocolError, match="'bank'") as caught:
        channel.ask(messages.Finish(), messages.Done)
    assert str(caught.value).isprintable()


def test_a_request_of_another_thread_waits_for_its_turn():
    begun, may_answer, asked = Event(), Event(), []

    class Answers:
        name = "bank"

        def handle(self, request):
            session, number = messages.address(request)
            asked.append(number)
            begun.set()
            may_answer.wait(600)
            return messages.write(session, number, messages.Done())

    channel, found = Channel(Answers(), b"s" * 16, Traffic()), []

    def ask():
        found.append(channel.ask(messages.Finish(), messages.Done))

    threads = [Thread(target=ask) for _ in range(3)]
    threads[0].start()
    assert begun.wait(600)
    for thread in threads[1:]:
        thread.start()
    may_answer.set()
    for thread in threads:
        thread.join(600)
    # Without it, both would have the number of the first one, and be refused.
    assert asked == [0, 1, 2]
    assert len(found) == 3


def test_answers_to_requests_that_were_sent_before_come_in_their_order():
    asked = []

    class Answers:
        name = "bank"

        def handle(self, request):
            session, number = messages.address(request)
            asked.append(number)
            return messages.write(session, number, messages.refusal("no") if number == 1 else messages.Done())

    channel = Channel(Answers(), b"s" * 16, Traffic())
    first, second, third = (channel.begin(messages.Finish(), messages.Done) for _ in range(3))
    with ThreadPoolExecutor(2) as pool:
        later = pool.submit(third)
        refused = pool.submit(second)
        assert isinstance(first(), messages.Done)
        assert isinstance(refused.exception(600), PartyRefusedError)
        assert isinstance(later.result(600), messages.Done)
    assert asked == [0, 1, 2]
    channel.ask(messages.Finish(), messages.Done)
    assert asked[3] == 3


def test_a_request_that_is_interrupted_before_its_turn_keeps_no_later_one_waiting():
    class Answers:
        name = "bank"

        def handle(self, request):
            return messages.write(*messages.address(request), messages.Done())

    def interrupt(*_):
        raise KeyboardInterrupt

    channel = Channel(Answers(), b"s" * 16, Traffic())
    first = channel.begin(messages.Finish(), messages.Done)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            channel.ask(messages.Finish(), messages.Done)
    finally:
        signal.signal(signal.SIGALRM, before)
    first()
    found = []
    later = Thread(target=lambda: found.append(channel.ask(messages.Finish(), messages.Done)), daemon=True)
    later.start()
    later.join(20)
    assert len(found) == 1


def test_a_model_is_its_owners_only(tmp_path):
    before = os.umask(0o022)
    try:
        xgb_fed.LocalParty(np.zeros((3, 1)), "bank").save_model(tmp_path / "model")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "model" / "party.txt").stat().st_mode) == 0o600
