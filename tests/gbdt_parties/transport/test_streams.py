import time
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import Parts
from gbdt_parties.transport import streams
from gbdt_parties.transport.streams import Watchdog, assemble, frames
from stopped_clock import StoppedClock

digests = st.lists(st.binary(min_size=32, max_size=32), max_size=4).map(tuple)


@given(st.binary(max_size=200), digests, st.integers(0, 3))
def test_what_was_cut_is_put_together(message, row_sets, beats):
    said = []
    pieces = [b"", streams.COMPILING] * beats + list(frames(message, row_sets))
    found = assemble(pieces, 200, heartbeats=True, compiling=lambda: said.append(1))
    assert found == (message, row_sets)
    assert len(said) == beats


def test_a_request_has_no_signs_of_life():
    for sign in (b"", streams.COMPILING):
        with pytest.raises(ProtocolError, match=r"start.*header"):
            assemble([sign, *frames(b"x")], 200, heartbeats=False)


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_anything_else_is_refused(pieces):
    with pytest.raises(ProtocolError):
        assemble(pieces, 1 << 20, heartbeats=True)


def pieces_of(message, row_sets=()):
    """The frames of a message that is not there as a whole when its header is sent."""
    later = Future()
    stream = frames(Parts(len(message), [later]), row_sets)
    header = next(stream)
    later.set_result(message)
    return [header, *stream]


@given(st.binary(min_size=1, max_size=100), st.sampled_from([frames, pieces_of]), st.data())
def test_damage_is_refused_or_changes_the_pieces_only(message, cut, data):
    stream = list(cut(message))
    where = data.draw(st.integers(0, 5))
    header = bytearray(stream[0])
    header[where] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ProtocolError):
        assemble([bytes(header), *stream[1:]], 1 << 20, heartbeats=True)
    with pytest.raises(ProtocolError, match="ended before"):
        assemble(stream[:-1], 1 << 20, heartbeats=True)
    with pytest.raises(ProtocolError, match="longer"):
        assemble([*stream[:-1], stream[-1] + b"x"], 1 << 20, heartbeats=True)
    with pytest.raises(ProtocolError, match=r"shorter|ended before"):
        assemble([*stream[:-1], stream[-1][:-1]], 1 << 20, heartbeats=True)
    for behind in (b"x", b""):
        # It can only be the next message, and is none.
        received = iter([*stream, behind])
        assert assemble(received, 1 << 20, heartbeats=False)[0] == message
        with pytest.raises(ProtocolError, match=r"start.*header"):
            assemble(received, 1 << 20, heartbeats=False)


@given(st.lists(st.tuples(st.binary(max_size=20), st.sampled_from([frames, pieces_of])), max_size=4), digests)
def test_messages_follow_each_other(sent, row_sets):
    received = iter([frame for message, cut in sent for frame in cut(message, row_sets)])
    for message, _ in sent:
        assert assemble(received, 100, heartbeats=False) == (message, row_sets)
    assert next(received, None) is None


def test_a_short_message_is_one_frame_and_a_long_one_is_not():
    short, long = bytes(streams.PIECE_BYTES), bytes(streams.PIECE_BYTES + 1)
    assert len(list(frames(short))) == len(list(frames(Parts(len(short), [short[:5], short[5:]])))) == 1
    assert [len(frame) for frame in frames(long)][1:] == [streams.PIECE_BYTES, 1]


@given(st.lists(st.binary(max_size=9), max_size=6), digests)
def test_a_message_in_parts_has_the_frames_of_the_whole(parts, row_sets):
    message = b"".join(parts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(streams, "PIECE_BYTES", 4)
        assert list(frames(Parts(len(message), parts), row_sets)) == list(frames(message, row_sets))


def test_the_first_pieces_are_given_before_the_last_parts_are_made():
    first, last = Future(), Future()
    stream = frames(Parts(streams.PIECE_BYTES + 3, [first, last]))
    next(stream)
    first.set_result(bytes(streams.PIECE_BYTES + 1))
    assert next(stream) == bytes(streams.PIECE_BYTES)
    last.set_result(b"ab")
    assert list(stream) == [b"\0ab"]


def test_frames_of_parts_that_are_given_up_end_early():
    never = Future()
    never.cancel()
    assert len(list(frames(Parts(9, [b"x" * 4, never])))) == 1


def test_requests_have_no_heartbeats():
    assert assemble([b"", *frames(b"x")], 10, heartbeats=True)[0] == b"x"
    with pytest.raises(ProtocolError, match=r"start.*header"):
        assemble([b"", *frames(b"x")], 10, heartbeats=False)


def test_pieces_are_as_long_as_they_can_be():
    message = bytes(streams.PIECE_BYTES + 5)
    header, first, last = frames(message)
    for pieces in ([first[:-1], first[-1:] + last], [first, last[:1], last[1:]], [first, b"", last]):
        with pytest.raises(ProtocolError, match=r"shorter pieces|longer than"):
            assemble([header, *pieces], 1 << 30, heartbeats=True)
    assert assemble([header, first, last], 1 << 30, heartbeats=False)[0] == message


def test_a_claim_beyond_the_limit_is_refused_before_anything_is_kept():
    header = next(frames(b""))
    claim = header[:8] + (1 << 60).to_bytes(8, "little")
    with pytest.raises(ProtocolError, match="announced; 1000 are accepted"):
        assemble([claim], 1000, heartbeats=True)


def test_pieces_are_bounded():
    message = bytes(3 * streams.PIECE_BYTES)
    assert max(len(piece) for piece in frames(message)) == streams.PIECE_BYTES


@pytest.fixture
def clock(monkeypatch):
    return StoppedClock(monkeypatch)


class Calls(list):
    """Notes when it is called; lets the thread that watches look at the clock before it is read."""

    def __call__(self):
        self.append(1)

    def eventually(self, n_calls):
        end = time.monotonic() + 60
        while len(self) < n_calls and time.monotonic() < end:
            time.sleep(0.005)
        time.sleep(0.05)
        return len(self)


def test_the_watchdog_fires_once_and_only_unfed(clock):
    calls = Calls()
    with Watchdog(0.02, calls) as dog:
        for _ in range(8):
            clock.forward(0.015)
            assert calls.eventually(0) == 0
            dog.feed()
        clock.forward(0.03)
        assert calls.eventually(1) == 1
        clock.forward(0.03)
        assert calls.eventually(1) == 1
    assert dog.fired
    with Watchdog(0.02, calls):
        pass
    clock.forward(1.0)
    assert calls.eventually(1) == 1


def test_the_watchdog_fires_at_the_end_however_well_it_is_fed(clock):
    calls = Calls()
    with Watchdog(0.02, calls, max_seconds=0.05) as dog:
        for _ in range(4):
            clock.forward(0.012)
            dog.feed()
            assert calls.eventually(0) == 0
        clock.forward(0.012)
        dog.feed()
        assert calls.eventually(1) == 1
