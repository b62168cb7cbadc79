"""Channels of a run of two parties: one process, requests and answers, and frames that are not those due."""

import struct
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.run.flights import polled
from gbdt_parties.run.flights.frames import HEADER_BYTES, FrameKind, Link
from gbdt_parties.run.flights.polled import Answering, Asking, unpacked
from gbdt_parties.two_party.names import Step
from two_party_flights import Party, check_outcome, layout_of, watched

STEP = Step(3, 4, 2)


def linked():
    ends = watched()
    return ends, Link(ends[0], "bank"), Link(ends[1], "hospital")


def test_a_message_arrives_where_it_is_due():
    ends, one, other = linked()
    one.send(FrameKind.SHARES, b"shares", STEP)
    assert other.take(FrameKind.SHARES, 6, STEP) == b"shares"
    other.send(FrameKind.END, b"")
    assert one.take(FrameKind.END, 0) == b""
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
    ends, _, other = linked()
    ends[0].send(struct.pack("<4sBBHII", *header) + b"shares")
    with pytest.raises(ProtocolError, match=text):
        other.take(FrameKind.SHARES, step=STEP)


def test_other_lengths_are_refused():
    ends, one, other = linked()
    one.send(FrameKind.SHARES, b"shares", STEP)
    with pytest.raises(ProtocolError, match=r"shares has 6 bytes.*7"):
        other.take(FrameKind.SHARES, 7, STEP)
    ends[0].send(bytes(HEADER_BYTES - 1))
    with pytest.raises(ProtocolError, match=r"15 bytes.*shorter"):
        other.take(FrameKind.SHARES, step=STEP)


def test_refusals_are_quoted():
    _, one, other = linked()
    one.refuse("no\x1b[2J" + "x" * 5000)
    with pytest.raises(PartyRefusedError) as found:
        other.take(FrameKind.END)
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


def test_a_run_over_requests_and_answers():
    """Three requests for a round: the last flight of the one before, choices, and tables."""
    pytest.importorskip("nacl")
    parties = [Party(place, [layout_of()] * 3) for place in (0, 1)]
    answering, requests, answers, found = Answering(60.0), [], [], []

    def ask(request, is_last):
        assert is_last
        requests.append([message[4] for message in unpacked(request)])
        # As it comes from a server: words are at odd places.
        answer = answering.answer(memoryview(b"." + request)[1:])
        answers.append([message[4] for message in unpacked(answer)])
        return answer

    def serve():
        try:
            exchange = parties[1].process()
            exchange.connect(answering)
            found.append(parties[1].train(exchange))
        finally:
            answering.close()

    server = Thread(target=serve)
    server.start()
    exchange = parties[0].process()
    exchange.connect(Asking(ask))
    opened = parties[0].train(exchange)
    server.join(600)
    assert found == [opened]
    check_outcome(parties)
    begun, tables = [FrameKind.BEGIN, *[FrameKind.ROUND] * 3], [FrameKind.ROUND] * 2 + [FrameKind.SHARES]
    sums = tables
    assert requests == [
        [FrameKind.GREETING],
        [FrameKind.POINTS, FrameKind.TREES],
        [FrameKind.SEAL, *begun],
        tables,
        [FrameKind.SHARES],
        begun,
        tables,
        [FrameKind.SHARES],
        begun,
        tables,
        [FrameKind.SHARES],
        [FrameKind.END],
    ]
    # The other side's choices answer the last flight before, so that both sides make theirs at once.
    assert answers == [
        [FrameKind.GREETING, FrameKind.POINTS],
        [FrameKind.TREES, FrameKind.SEAL],
        begun,
        sums,
        begun,
        [],
        sums,
        begun,
        [],
        sums,
        [FrameKind.END],
        [],
    ]


def test_messages_that_are_long_together_travel_in_several_requests(monkeypatch):
    monkeypatch.setattr(polled, "MAX_REQUEST_BYTES", 10)
    requests = []

    def ask(request, is_last):
        requests.append((unpacked(request), is_last))
        return length_prefixed([b"answer"]) if is_last else b""

    asking, messages = Asking(ask), [b"1234567", b"89", b"0", b"much too long for one"]
    for message in messages:
        asking.send(message)
    assert asking.receive() == b"answer"
    assert requests == [(messages[:3], False), (messages[3:], True)]


def test_a_request_is_under_way_while_this_side_goes_on():
    may_answer, requests = Event(), []

    def ask(request, is_last):
        may_answer.wait(600)
        requests.append(unpacked(request))
        return length_prefixed([b"answer"] * (len(requests) == 1))

    asking = Asking(ask)
    asking.hand_over()  # of nothing
    asking.send(b"first")
    asking.hand_over()
    asking.send(b"second")
    # This side came here, and the first request is not answered yet.
    assert requests == []
    may_answer.set()
    asking.hand_over()
    assert requests[0] == [b"first"]
    assert asking.receive() == b"answer"
    asking.send(b"third")
    asking.finish()
    assert requests == [[b"first"], [b"second"], [b"third"]]


def test_a_request_that_is_lost_is_noticed_where_its_answer_is_waited_for():
    def ask(request, is_last):
        raise PartyUnavailableError("the line is cut")

    for use in (Asking.hand_over, Asking.finish, Asking.receive):
        asking = Asking(ask)
        asking.send(b"first")
        asking.hand_over()
        asking.send(b"second")
        with pytest.raises(PartyUnavailableError, match="line is cut"):
            use(asking)


def test_an_answering_side_that_is_over_or_too_slow_is_lost():
    answering = Answering(0.02)
    with pytest.raises(PartyUnavailableError, match="answer was ready"):
        answering.answer(length_prefixed([b"message"]))
    for use in (lambda: answering.answer(b""), lambda: answering.send(b"")):
        with pytest.raises(PartyUnavailableError, match="connection is over"):
            use()
    answering = Answering(0.02)
    with pytest.raises(PartyUnavailableError, match="silent for"):
        answering.receive()
    answering = Answering(0.02)
    answering.close()
    with pytest.raises(PartyUnavailableError, match="ended the connection"):
        answering.receive()
    with pytest.raises(PartyUnavailableError, match="ended the connection"):
        Asking(lambda request, is_last: b"").receive()


def test_the_last_words_of_an_answering_side_arrive():
    answering = Answering(10.0)
    answering.send(b"refusal")
    answering.close()
    with pytest.raises(PartyUnavailableError):
        answering.answer(b"")
    answering = Answering(10.0)

    def refuse():
        answering.receive()
        answering.send(b"refusal")
        answering.close()

    server = Thread(target=refuse)
    server.start()
    asking = Asking(answering.answer)
    asking.send(b"request")
    assert asking.receive() == b"refusal"
    with pytest.raises(PartyUnavailableError):
        asking.receive()
    server.join(600)
