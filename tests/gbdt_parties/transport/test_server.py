"""What callers can hold, and for how long: every test is a caller that behaves badly, and another one."""

import errno
import gc
import os
import re
import resource
import socket
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from threading import Event, Semaphore

import grpc
import pytest

from deployment import HandlerService, connected, eventually, raw_calls, serving, tls
from gbdt_parties.errors import (
    AuthenticationError,
    PartyArgumentError,
    PartyRefusedError,
    PartyUnavailableError,
)
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.messages import Parts
from gbdt_parties.transport import server as module
from gbdt_parties.transport import streams
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import CALLS_EACH, Callers, Server, raise_descriptor_limit
from served_parties import Echo
from stopped_clock import StoppedClock

LONG = 90.0
"""Seconds after which a wait has failed."""


def header_of(n_bytes):
    """The header of a message that is not there yet."""
    return next(streams.frames(Parts(n_bytes, [Future()])))


BOTH = ("acme", "umbrella")


class Blocking:
    """Works on acme's requests until it is released; answers others at once."""

    def __init__(self):
        self.blocked = Identity.of(tls("acme").certificate).fingerprint
        self.released = Event()
        self.under_way = []
        self.most = 0
        self.requests = []

    def handle(self, caller, row_sets, request):
        if caller.fingerprint != self.blocked:
            return bytes(request)
        self.requests.append(weakref.ref(request.obj))
        self.under_way.append(1)
        self.most = max(self.most, len(self.under_way))
        self.released.wait(2 * LONG)
        self.under_way.pop()
        return b"late"


@pytest.fixture
def blocking():
    service = Blocking()
    yield service
    service.released.set()


def given_up(call, message=b"x"):
    """Send a request, wait until it is worked on, give it up; or say how it was turned away."""
    under_way = call(streams.frames(message), timeout=LONG)
    try:
        next(under_way)
    except grpc.RpcError as error:
        return error.code()
    under_way.cancel()
    return None


def test_calls_that_are_given_up_keep_their_place_until_the_work_ends(blocking):
    with serving(blocking, allowed=BOTH) as server, raw_calls(server) as call:
        codes = [given_up(call, b"\1" * 10_000) for _ in range(6)]
        assert codes[:CALLS_EACH] == [None] * CALLS_EACH
        assert set(codes[CALLS_EACH:]) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert len(blocking.requests) == CALLS_EACH
        begun = time.monotonic()
        with connected(server, "umbrella") as umbrella:
            assert umbrella.handle(b"fine") == b"fine"
        assert time.monotonic() - begun < LONG / 3
        blocking.released.set()
        eventually(lambda: not blocking.under_way and given_up(call) is None)
        assert blocking.most == CALLS_EACH
        # No request outlives the work on it.
        eventually(lambda: gc.collect() >= 0 and all(request() is None for request in blocking.requests[:2]))


def test_one_caller_too_many_is_unavailable_and_may_come_back(blocking):
    with serving(blocking) as server, raw_calls(server) as call, connected(server) as party:
        for _ in range(CALLS_EACH):
            given_up(call)
        with pytest.raises(PartyUnavailableError, match=r"2 requests of 'acme'.*way"):
            party.handle(b"x")
        blocking.released.set()
        eventually(lambda: not blocking.under_way)
        assert party.handle(b"x") == b"late"


def test_two_of_the_same_name_have_places_of_their_own(blocking):
    both = [f"sha256:{Identity.of(tls('acme', days=days).certificate).fingerprint}" for days in (365, 364)]
    with (
        serving(blocking, allowed=both) as server,
        raw_calls(server) as call,
        connected(server, days=364) as other,
    ):
        assert [given_up(call) for _ in range(CALLS_EACH)] == [None] * CALLS_EACH
        assert other.handle(b"fine") == b"fine"


def dripping(pieces, stop):
    """Frames, then one every now and then."""
    yield from pieces
    while not stop.wait(0.1):
        yield b""


@pytest.mark.parametrize("start", ["empty frames", "one byte at a time"])
def test_frames_of_nothing_are_refused_at_once(start):
    header = header_of(1000)
    frames = [b""] if start == "empty frames" else [header, b"\1"]
    stop = Event()
    with serving(HandlerService(Echo())) as server, raw_calls(server) as call:
        begun = time.monotonic()
        with pytest.raises(grpc.RpcError) as caught:
            list(call(dripping(frames, stop), timeout=LONG))
        stop.set()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert time.monotonic() - begun < LONG / 3


def test_an_upload_has_a_least_rate_and_an_end(monkeypatch):
    message = b"\0" * (60 * streams.PIECE_BYTES)

    def slow(seconds):
        for frame in streams.frames(message):
            yield frame
            time.sleep(seconds)

    for silence, transfer, pause in [(0.3, 100.0, 0.8), (100.0, 0.5, 0.4)]:
        monkeypatch.setattr(module, "SILENCE", silence)
        monkeypatch.setattr(module, "TRANSFER", transfer)
        with serving(HandlerService(Echo())) as server, raw_calls(server) as call:
            begun = time.monotonic()
            with pytest.raises(grpc.RpcError):
                list(call(slow(pause), timeout=LONG))
            assert time.monotonic() - begun < LONG / 3


@pytest.fixture
def places(monkeypatch):
    """Whose calls are under way."""
    taken, enter, leave = [], Callers.enter, Callers.leave

    def entered(callers, name):
        has_place = enter(callers, name)
        if has_place:
            taken.append(name)
        return has_place

    def left(callers, name):
        leave(callers, name)
        taken.remove(name)

    monkeypatch.setattr(Callers, "enter", entered)
    monkeypatch.setattr(Callers, "leave", left)
    return taken


def test_answers_that_nobody_takes_do_not_keep_their_place(monkeypatch, places):
    monkeypatch.setattr(module, "SILENCE", 1.0)
    clock, service = StoppedClock(monkeypatch), HandlerService(Echo())
    small = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65535)]
    with serving(service) as server, raw_calls(server, options=small) as call, connected(server) as party:
        party.handle(b"connected")
        eventually(lambda: not places)
        unread = [call(streams.frames(b"\0" * (1 << 19)), timeout=LONG) for _ in range(CALLS_EACH)]
        eventually(lambda: len(service.exchanges) == 1 + CALLS_EACH)
        assert len(places) == CALLS_EACH
        with pytest.raises(PartyUnavailableError, match="under way"):
            party.handle(b"x")
        eventually(lambda: clock.forward(0.3) or not places)
        assert party.handle(b"x") == b"x"
        del unread


def test_a_caller_cut_off_while_it_sends_leaves_its_place(monkeypatch, places):
    monkeypatch.setattr(module, "SILENCE", 1.0)
    clock = StoppedClock(monkeypatch)
    with serving(HandlerService(Echo())) as server, raw_calls(server) as call, connected(server) as party:
        stop = Event()

        def header_only():
            yield header_of(3)
            stop.wait(LONG)

        party.handle(b"connected")
        eventually(lambda: not places)
        cut_off = [call(header_only(), timeout=LONG) for _ in range(CALLS_EACH)]
        eventually(lambda: len(places) == CALLS_EACH)
        with pytest.raises(PartyUnavailableError, match="under way"):
            party.handle(b"x")
        eventually(lambda: clock.forward(0.3) or not places)
        assert party.handle(b"x") == b"x"
        assert all(one.code() is grpc.StatusCode.CANCELLED for one in cut_off)
        stop.set()


def test_callers_are_counted_one_by_one():
    callers = Callers(2)
    assert [callers.enter(name) for name in "aaabbb"] == [True, True, False, True, True, False]
    callers.leave("a")
    assert callers.enter("a")
    assert not callers.enter("a")


def test_a_connection_that_shows_no_certificate_is_closed(monkeypatch):
    monkeypatch.setattr(module, "HANDSHAKE", 0.3)
    with (
        serving(HandlerService(Echo())) as server,
        socket.create_connection(("127.0.0.1", server.port)) as idle,
    ):
        idle.settimeout(LONG)
        begun = time.monotonic()
        while idle.recv(100):
            pass
        assert time.monotonic() - begun < LONG / 3


def test_connections_leave_descriptors_for_files(monkeypatch):
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 5)
    with serving(HandlerService(Echo())) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
        for one in idle:
            one.settimeout(0.3)

        def closed(one):
            try:
                return one.recv(100) == b""
            except (TimeoutError, BlockingIOError):
                return False
            except ConnectionResetError:
                return True

        eventually(lambda: sum(map(closed, idle[5:])) >= 7)
        for one in idle:
            one.close()

        def is_answered():
            try:
                with connected(server) as party:
                    return party.handle(b"x") == b"x"
            except PartyUnavailableError:
                return False

        eventually(is_answered)  # the server notices closed connections when it gets to them


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOSPC])
def test_a_party_out_of_room_is_waited_for(number, caplog):
    class Full:
        def handle(self, request):
            raise OSError(number, os.strerror(number), "/secret/path")

    with serving(HandlerService(Full())) as server, connected(server) as party:
        with pytest.raises(PartyUnavailableError, match="out of resources") as caught:
            party.handle(b"x")
        assert "secret" not in str(caught.value) + caplog.text
        assert os.strerror(number) in caplog.text


def test_other_errors_of_files_are_failures():
    class Broken:
        def handle(self, request):
            raise OSError(errno.EIO, "I/O error", "/secret/path")

    with (
        serving(HandlerService(Broken())) as server,
        connected(server) as party,
        pytest.raises(PartyRefusedError, match="log says why"),
    ):
        party.handle(b"x")


def test_the_limit_of_descriptors_is_raised_to_what_is_allowed():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
        assert module.max_connections() == min(512, hard) // 2
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def stalls():
    """Streams that begin and go no further."""
    header, piece, *_ = streams.frames(b"x" * 3 * streams.PIECE_BYTES)
    return {"nothing": [], "a header": [header], "a third of a message": [header, piece]}


@pytest.mark.parametrize("stall", stalls())
def test_a_stalled_upload_is_cut_off_and_others_are_served(monkeypatch, stall):
    """Two calls at a time; one of them is the stalled one's until it is ended."""
    monkeypatch.setattr(module, "SILENCE", 1.0)
    clock, service, over = StoppedClock(monkeypatch), HandlerService(Echo()), Event()

    def upload():
        yield from stalls()[stall]
        over.wait(LONG)

    with serving(service) as own_server, raw_calls(own_server) as exchange, connected(own_server) as party:
        assert party.handle(b"before") == b"before"
        call = exchange(upload(), timeout=LONG)
        try:
            clock.forward(0.9)
            time.sleep(0.1)
            assert party.handle(b"meanwhile") == b"meanwhile"
            assert not call.done()
            eventually(lambda: clock.forward(0.3) or call.done(), LONG / 3)
            with pytest.raises(grpc.RpcError) as caught:
                list(call)
            assert caught.value.code() is grpc.StatusCode.CANCELLED
        finally:
            over.set()
        assert party.handle(b"after") == b"after"
    assert [request for request, _ in service.exchanges] == [b"before", b"meanwhile", b"after"]


def test_a_slow_upload_that_goes_on_is_served(monkeypatch):
    monkeypatch.setattr(module, "SILENCE", 1.0)
    clock, fed, feed = StoppedClock(monkeypatch), Semaphore(0), streams.Watchdog.feed
    monkeypatch.setattr(streams.Watchdog, "feed", lambda dog: (feed(dog), fed.release())[0])
    message = b"slow" * streams.PIECE_BYTES

    def upload():
        for frame in streams.frames(message):
            clock.forward(0.6)
            yield frame
            assert fed.acquire(timeout=LONG)

    with (
        serving(HandlerService(Echo())) as own_server,
        raw_calls(own_server, options=streams.OPTIONS) as exchange,
    ):
        answer, _ = streams.assemble(exchange(upload(), timeout=LONG), len(message), heartbeats=True)
    assert answer == message


@pytest.mark.parametrize("port", ["65536", "99999", "-1", "1e3", "", "²", "9" * 5000])
def test_a_port_that_there_is_not_is_refused_on_both_sides(port):
    """gRPC took 99999 for another port, and one of 5000 digits was a ValueError of Python's."""
    for make in (
        lambda: Server(HandlerService(Echo()), f"127.0.0.1:{port}", tls("bank"), ["acme"]),
        lambda: RemoteParty(f"127.0.0.1:{port}", tls("acme"), "bank"),
    ):
        with pytest.raises(PartyArgumentError, match=f"127.0.0.1:{re.escape(port[:9])}") as caught:
            make()
        assert len(str(caught.value)) < 600


def test_a_taken_address_is_said_so():
    with serving(HandlerService(Echo())) as own_server:
        address = f"127.0.0.1:{own_server.port}"
        with pytest.raises(OSError, match=f"cannot listen at {address}"):
            Server(HandlerService(Echo()), address, tls("bank"), ["acme"])


class Busy:
    """Works until it is told to be done, but for requests in a hurry."""

    def __init__(self):
        self.started, self.done = Semaphore(0), Event()

    def handle(self, request):
        if request != b"quick":
            self.started.release()
            assert self.done.wait(LONG)
        return bytes(request)


def test_a_stopped_server_lets_calls_finish_within_its_grace():
    busy = Busy()
    with serving(HandlerService(busy)) as own_server, connected(own_server) as party:
        with ThreadPoolExecutor(2) as pool:
            answer = pool.submit(party.handle, b"long")
            assert busy.started.acquire(timeout=LONG)
            stopped = pool.submit(own_server.stop, LONG)
            time.sleep(0.1)
            assert not stopped.done()
            busy.done.set()
            assert answer.result(LONG) == b"long"
            stopped.result(LONG)
        own_server.wait(LONG)
        with pytest.raises(PartyUnavailableError):
            party.handle(b"quick")


def waits(server):
    """Whether a call waits for its next request."""
    return bool(server.waiting)


def test_a_call_that_waits_takes_no_place_from_others(blocking, places):
    """Neither from those of its own caller, of which each still has as many as ever."""
    with serving(blocking, allowed=BOTH) as server, raw_calls(server) as call:
        blocking.released.set()
        with connected(server) as party:
            assert party.handle(b"x") == b"late"
            eventually(lambda: waits(server) and not places)
            blocking.released.clear()
            assert [given_up(call) for _ in range(CALLS_EACH)] == [None] * CALLS_EACH
            with connected(server, "umbrella") as umbrella:
                assert [umbrella.handle(b"fine") for _ in range(3)] == [b"fine"] * 3
            # The call that waits has no place until it has a request.
            with pytest.raises(PartyUnavailableError, match=r"2 requests of 'acme'.*way"):
                party.handle(b"x")
            assert blocking.most == CALLS_EACH


def test_a_call_that_waits_for_long_is_ended(monkeypatch):
    clock = StoppedClock(monkeypatch)
    with serving(HandlerService(Echo())) as server, raw_calls(server) as call:
        over = Event()

        def one_request():
            yield from streams.frames(b"x")
            over.wait(LONG)

        answers = call(one_request(), timeout=LONG)
        assert streams.assemble(answers, 10, heartbeats=True)[0] == b"x"
        eventually(lambda: waits(server))
        clock.forward(0.9 * module.LINGER)
        time.sleep(0.1)
        assert not answers.done()
        eventually(lambda: clock.forward(0.2 * module.LINGER) or answers.done())
        assert not waits(server)
        over.set()


def test_a_call_that_waits_does_not_delay_the_end():
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        assert party.handle(b"x") == b"x"
        eventually(lambda: waits(server))
        begun = time.monotonic()
        server.stop(grace=LONG)
        assert time.monotonic() - begun < LONG / 3


@pytest.fixture
def assembled(monkeypatch):
    """Lengths of the requests that servers have read."""
    lengths, assemble = [], module.assemble

    def assembling(*arguments, **how):
        request, row_sets = assemble(*arguments, **how)
        lengths.append(len(request))
        return request, row_sets

    monkeypatch.setattr(module, "assemble", assembling)
    return lengths


def test_one_request_of_a_call_comes_in_while_another_is_worked_on(assembled):
    """No more: what a caller sends beyond it waits in its own memory, but for the windows of HTTP/2."""
    busy, sizes = Busy(), [n * streams.PIECE_BYTES for n in (1, 20, 21, 22)]
    requests = [bytes([k]) * size for k, size in enumerate(sizes)]
    with serving(HandlerService(busy)) as server, connected(server) as party, connected(server) as other:
        waits_for = [party.begin(request) for request in requests]
        eventually(lambda: assembled == sizes[:2])
        # Another connection of the caller has the other place.
        assert other.handle(b"quick") == b"quick"
        time.sleep(0.2)
        assert assembled == [*sizes[:2], 5]
        busy.done.set()
        assert [answer() for answer in waits_for] == requests


def test_half_a_request_behind_another_one_ends_the_call(monkeypatch, places):
    monkeypatch.setattr(module, "SILENCE", 1.0)
    clock, busy, over = StoppedClock(monkeypatch), Busy(), Event()

    def one_and_a_half():
        yield from [*streams.frames(b"x"), header_of(3)]
        over.wait(LONG)

    with serving(HandlerService(busy)) as server, raw_calls(server) as call, connected(server) as party:
        answers = call(one_and_a_half(), timeout=LONG)
        assert busy.started.acquire(timeout=LONG)
        eventually(lambda: clock.forward(0.3) or answers.done())
        assert answers.code() is grpc.StatusCode.CANCELLED
        over.set()
        busy.done.set()
        eventually(lambda: not places)
        assert party.handle(b"y") == b"y"


def test_a_caller_that_sends_on_and_takes_no_answer_is_cut_off(monkeypatch, places):
    monkeypatch.setattr(module, "SILENCE", 1.0)
    clock, service = StoppedClock(monkeypatch), HandlerService(Echo())
    small = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65535)]

    def flood():
        while True:
            yield from streams.frames(b"\0" * (1 << 19))

    with serving(service) as server, raw_calls(server, options=small) as call, connected(server) as party:
        answers = call(flood(), timeout=LONG)
        eventually(lambda: service.exchanges)
        assert party.handle(b"meanwhile") == b"meanwhile"
        time.sleep(0.3)  # until gRPC takes no more of the answers
        eventually(lambda: clock.forward(0.3) or not places)
        # Of what it sent on, hardly anything was worked on.
        assert len(service.exchanges) < 10
        with pytest.raises(grpc.RpcError) as caught:
            list(answers)
        assert caught.value.code() is grpc.StatusCode.CANCELLED
        assert party.handle(b"after") == b"after"


def test_what_follows_a_request_and_is_none_is_refused():
    service = HandlerService(Echo())
    with serving(service) as server, raw_calls(server) as call:
        answers = call(iter([*streams.frames(b"x"), b"y"]), timeout=LONG)
        assert streams.assemble(answers, 10, heartbeats=True)[0] == b"x"
        with pytest.raises(grpc.RpcError, match=r"start.*header") as caught:
            next(answers)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(service.exchanges) == 1


def test_every_request_of_a_call_needs_a_certificate_that_is_valid(monkeypatch):
    """A connection, and a call, may outlive it."""
    service, now = HandlerService(Echo()), module.datetime.now()

    class Later(module.datetime):
        @classmethod
        def now(cls, zone=None):
            return now.astimezone(zone) + timedelta(days=366)

    with serving(service) as server, connected(server) as party:
        assert party.handle(b"x") == b"x"
        eventually(lambda: waits(server))
        monkeypatch.setattr(module, "datetime", Later)
        with pytest.raises(AuthenticationError, match="certificate has expired"):
            party.handle(b"y")
    assert [request for request, _ in service.exchanges] == [b"x"]
