"""Channels of a run of two parties: one process, requests and answers, and frames that are not those due."""

import struct
import subprocess
import sys
from concurrent.futures import Future
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.run.engine import carried_out
from gbdt_parties.run.flights import polled
from gbdt_parties.run.flights.frames import HEADER_BYTES, FrameKind, Link
from gbdt_parties.run.flights.polled import Answering, Asking, unpacked
from gbdt_parties.two_party.names import Step
from two_party_flights import Party, check_outcome, layout_of, watched, whole

STEP = Step(3, 4, 2)


def linked():
    """Both ends of a channel, the first one's link, and what takes messages from the other one's."""
    ends = watched()
    other = Link(ends[1], "hospital")
    return ends, Link(ends[0], "bank"), lambda *due: carried_out(other.take(*due), ends[1].receive)


def test_a_message_arrives_where_it_is_due():
    ends, one, take = linked()
    one.send(FrameKind.SHARES, b"shares", STEP)
    assert take(FrameKind.SHARES, 6, STEP) == b"shares"
    one.send(FrameKind.END, b"")
    assert take(FrameKind.END, 0) == b""
    for end in ends:
        end.close()
        with pytest.raises(PartyUnavailableError, match="ended the connection"):
            end.receive()


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        (0, b"VB2P", "run of two"),
        (1, FrameKind.ROUND, "message.*kind 7.*kind 8"),
        (2, 3, "flight 3 came where flight 2"),
        (3, 3, "attempt 3 came where attempt 4"),
        (4, 2, "round 2 came where round 3"),
        (5, 1, "number 1 came where number 0"),
    ],
)
def test_a_header_that_is_not_the_one_due_is_refused_by_its_field(field, value, text):
    header = [b"VB2F", FrameKind.SHARES, 2, 4, 3, 0]
    header[field] = value
    ends, _, take = linked()
    ends[0].send(struct.pack("<4sBBHII", *header) + b"shares")
    with pytest.raises(ProtocolError, match=text):
        take(FrameKind.SHARES, None, STEP)


def test_other_lengths_are_refused():
    ends, one, take = linked()
    one.send(FrameKind.SHARES, b"shares", STEP)
    with pytest.raises(ProtocolError, match=r"shares has 6 bytes.*7"):
        take(FrameKind.SHARES, 7, STEP)
    ends[0].send(bytes(HEADER_BYTES - 1))
    with pytest.raises(ProtocolError, match=r"15 bytes.*shorter"):
        take(FrameKind.SHARES, None, STEP)


def test_refusals_are_quoted():
    _, one, take = linked()
    one.refuse("no\x1b[2J" + "x" * 5000)
    with pytest.raises(PartyRefusedError) as found:
        take(FrameKind.END)
    text = str(found.value)
    assert text.startswith(r"party 'hospital' refuses: no\x1b[2Jxx")
    assert len(text) < 1100


def test_a_refusal_to_a_side_that_is_gone_is_not_an_error():
    def fail(message):
        raise PartyUnavailableError

    Link(SimpleNamespace(send=fail), "bank").refuse("reason")


@pytest.mark.parametrize("messages", [[], [b""], [b"a"], [b"a", b"", b"bcd" * 100]])
def test_messages_of_a_request_come_back(messages):
    packed = length_prefixed(messages)
    assert unpacked(packed) == unpacked(memoryview(packed)) == messages
    for cut in range(1, len(packed)):
        try:
            found = unpacked(packed[:cut])
        except ProtocolError:
            continue
        assert found == messages[: len(found)] != messages


def answered(ask):
    """What sends a request that is answered at once; errors come where the answer is waited for."""

    def begin(request, is_last):
        answer = Future()
        try:
            answer.set_result(ask(request, is_last))
        except PartyUnavailableError as error:
            answer.set_exception(error)
        return answer.result

    return begin


def test_a_run_over_requests_and_answers():
    """Requests of a round: the last flight of the one before, choices, and tables of some rows each."""
    pytest.importorskip("nacl")
    parties = [Party(place, [layout_of()] * 3) for place in (0, 1)]
    requests, answers, found = [], [], []

    def serve(channel):
        found.append((yield from whole(parties[1], parties[1].process(), channel)))

    answering = Answering(serve)

    def ask(request, is_last):
        assert is_last
        requests.append([message[4] for message in unpacked(request)])
        # As it comes from a server: words are at odd places.
        answer = answering.answer(memoryview(b"." + request)[1:])
        answers.append([message[4] for message in unpacked(answer)])
        return answer

    asking = Asking(answered(ask))
    opened = carried_out(whole(parties[0], parties[0].process(), asking), asking.receive)
    asking.finish()
    assert answering.is_over
    assert found == [opened]
    check_outcome(parties)
    begun, some = [FrameKind.BEGIN, *[FrameKind.ROUND] * 3], [FrameKind.ROUND]
    rest = [FrameKind.ROUND, FrameKind.SHARES]
    assert requests == [
        [FrameKind.GREETING],
        [FrameKind.POINTS, FrameKind.TREES],
        [FrameKind.SEAL, *begun],
        some,
        rest,
        [FrameKind.SHARES],
        begun,
        some,
        rest,
        [FrameKind.SHARES],
        begun,
        some,
        rest,
        [FrameKind.SHARES],
        [FrameKind.END],
    ]
    # The other side's choices answer the last flight before, so that both sides make theirs at once, and
    # corrections the tables of the same rows.
    assert answers == [
        [FrameKind.GREETING, FrameKind.POINTS],
        [FrameKind.TREES, FrameKind.SEAL],
        begun,
        some,
        rest,
        begun,
        [],
        some,
        rest,
        begun,
        [],
        some,
        rest,
        [FrameKind.END],
        [],
    ]


def test_rounds_are_the_same_without_assertions():
    pytest.importorskip("nacl")
    this = f"{__file__}::{test_a_run_over_requests_and_answers.__name__}"
    command = [sys.executable, "-O", "-m", "pytest", "-q", "-p", "no:cacheprovider", this]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout


def test_messages_that_are_long_together_travel_in_several_requests(monkeypatch):
    monkeypatch.setattr(polled, "MAX_REQUEST_BYTES", 10)
    requests = []

    def ask(request, is_last):
        requests.append((unpacked(request), is_last))
        return length_prefixed([b"answer"]) if is_last else b""

    asking, messages = Asking(answered(ask)), [b"1234567", b"89", b"0", b"much too long for one"]
    for message in messages:
        asking.send(message)
    assert asking.receive() == b"answer"
    assert requests == [(messages[:3], False), (messages[3:], True)]


def test_requests_are_under_way_while_this_side_goes_on():
    sent, answers = [], [Future() for _ in range(polled.MAX_UNDER_WAY + 1)]

    def begin(request, is_last):
        sent.append(unpacked(request))
        return answers[len(sent) - 1].result

    asking = Asking(begin)
    asking.hand_over()  # of nothing
    for number in range(polled.MAX_UNDER_WAY):
        asking.send(b"%d" % number)
        asking.hand_over()
    # This side came here, and no request is answered yet.
    assert sent == [[b"%d" % number] for number in range(polled.MAX_UNDER_WAY)]
    asking.send(b"one too many")
    further = Thread(target=asking.hand_over)
    further.start()
    further.join(0.1)
    assert further.is_alive()
    assert len(sent) == polled.MAX_UNDER_WAY
    # Answers are taken in the order of the requests, whichever comes first.
    answers[1].set_result(length_prefixed([b"b"]))
    answers[0].set_result(length_prefixed([b"a"]))
    further.join(600)
    assert [asking.receive(), asking.receive()] == [b"a", b"b"]
    for answer in answers[2:]:
        answer.set_result(b"")
    asking.finish()
    assert sent[-1] == [b"one too many"]


def test_without_a_further_thread_a_request_is_waited_for_at_once(monkeypatch):
    """Its answer must be taken by someone: all later requests of the session wait for that."""

    class NoThread(Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(polled, "Thread", NoThread)
    waited, asking = [], Asking(lambda request, is_last: lambda: waited.append(request) or b"")
    asking.send(b"first")
    asking.hand_over()
    assert waited == [length_prefixed([b"first"])]
    asking.finish()


def test_a_request_that_is_lost_is_noticed_where_its_answer_is_waited_for():
    def ask(request, is_last):
        raise PartyUnavailableError("the line is cut")

    for use in (Asking.finish, Asking.receive):
        asking = Asking(answered(ask))
        asking.send(b"first")
        asking.hand_over()
        asking.send(b"second")
        with pytest.raises(PartyUnavailableError, match="line is cut"):
            use(asking)


def waiting(n_messages, *said):
    """An answering side that says something, and waits for messages."""

    def steps(channel):
        for message in said:
            channel.send(message)
        for _ in range(n_messages):
            channel.send(b"to " + (yield "message"))

    return Answering(steps)


def test_an_answering_side_goes_on_with_every_message_that_it_waits_for():
    answering = waiting(2, b"first")
    assert answering.answer(b"", False) == b""
    assert unpacked(answering.answer(length_prefixed([b"1"]))) == [b"first", b"to 1"]
    assert unpacked(answering.answer(length_prefixed([b"2", b"beyond the end"]))) == [b"to 2"]
    assert answering.is_over
    assert answering.error is None


def test_an_answering_side_that_is_over_is_lost():
    answering = waiting(1)
    answering.close()
    ended = waiting(0)
    assert ended.answer(b"") == b""
    for over in (answering, ended):
        with pytest.raises(PartyUnavailableError, match="connection is over"):
            over.answer(b"")
    with pytest.raises(PartyUnavailableError, match="ended the connection"):
        Asking(answered(lambda request, is_last: b"")).receive()


def test_the_last_words_of_an_answering_side_arrive():
    def refuse(channel):
        channel.send(bytes((yield "message")) + b" is refused")
        raise ValueError("an error of its own")

    answering = Answering(refuse)
    asking = Asking(answered(answering.answer))
    asking.send(b"request")
    assert asking.receive() == b"request is refused"
    with pytest.raises(PartyUnavailableError):
        asking.receive()
    assert str(answering.error) == "an error of its own"


def test_an_answering_side_that_is_closed_meanwhile_ends_where_it_waits_next():
    began, may_go_on = Event(), Event()

    def steps(channel):
        began.set()
        may_go_on.wait(600)
        channel.send(b"said")
        yield "message"

    answering, said = Answering(steps), []
    server = Thread(target=lambda: said.append(unpacked(answering.answer(b""))))
    closer = Thread(target=answering.close)
    server.start()
    began.wait(600)
    closer.start()
    may_go_on.set()
    for thread in (server, closer):
        thread.join(600)
    assert said == [[b"said"]]
    assert answering.is_over
