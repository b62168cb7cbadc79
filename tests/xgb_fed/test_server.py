"""What a server does about callers who are too many, or too slow; others have `test_remote`."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Semaphore

import grpc
import pytest
from deployment import HandlerService, connected, serving, tls

from xgb_fed import server, streams
from xgb_fed.errors import PartyUnavailable
from xgb_fed.server import Server

LONG = 5.0
"""Seconds after which a wait has failed."""


class Echo:
    def handle(self, request):
        return bytes(request)


class Busy:
    """Works until it is told to be done, but for requests in a hurry."""

    def __init__(self):
        self.started, self.done = Semaphore(0), Event()

    def handle(self, request):
        if request != b"quick":
            self.started.release()
            assert self.done.wait(LONG)
        return bytes(request)


@contextmanager
def calling(own_server):
    """An allowed caller's connection, to send what `RemoteParty` would not."""
    own = tls("acme")
    credentials = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
    with grpc.secure_channel(f"127.0.0.1:{own_server.port}", credentials) as channel:
        yield channel.stream_stream("/" + "/".join(streams.METHOD))


def test_more_calls_than_are_taken_are_turned_away_at_once(monkeypatch):
    monkeypatch.setattr(server, "MOST_CALLS", 2)
    busy = Busy()
    with (
        serving(HandlerService(busy)) as own_server,
        connected(own_server) as one,
        connected(own_server) as other,
        connected(own_server) as third,
        ThreadPoolExecutor(2) as pool,
    ):
        try:
            answers = [pool.submit(party.handle, b"long") for party in (one, other)]
            for _ in answers:
                assert busy.started.acquire(timeout=LONG)
            start = time.monotonic()
            with pytest.raises(PartyUnavailable, match=r"'bank'.*resource_exhausted"):
                third.handle(b"quick")
            assert time.monotonic() - start < 1.5
        finally:
            busy.done.set()
        assert [answer.result(LONG) for answer in answers] == [b"long", b"long"]
        # The last of a call's resources are freed a moment after its answer.
        for _ in range(50):
            try:
                answer = third.handle(b"quick")
                break
            except PartyUnavailable:
                time.sleep(0.02)
        assert answer == b"quick"


def stalls():
    """Streams that begin and go no further."""
    header, *_ = streams.frames(b"x" * 100)
    return {
        "nothing": [],
        "a sign of life": [b""],
        "a header": [header],
        "half a message": [header, b"x" * 50],
    }


@pytest.mark.parametrize("stall", stalls())
def test_a_stalled_upload_is_cut_off_and_others_are_served(monkeypatch, stall):
    """Two calls at a time; one of them is the stalled one's until it is ended."""
    monkeypatch.setattr(server, "MOST_CALLS", 2)
    monkeypatch.setattr(server, "SILENCE", 0.5)
    service, over = HandlerService(Echo()), Event()

    def upload():
        yield from stalls()[stall]
        over.wait(LONG)

    with serving(service) as own_server, calling(own_server) as exchange, connected(own_server) as party:
        assert party.handle(b"before") == b"before"
        start = time.monotonic()
        call = exchange(upload(), timeout=LONG)
        try:
            time.sleep(0.1)
            assert party.handle(b"meanwhile") == b"meanwhile"
            assert not call.done()
            with pytest.raises(grpc.RpcError) as caught:
                list(call)
            assert 0.4 < time.monotonic() - start < 0.5 + 1.0
            assert caught.value.code() is grpc.StatusCode.CANCELLED
        finally:
            over.set()
        assert party.handle(b"after") == b"after"
    assert [request for request, _ in service.exchanges] == [b"before", b"meanwhile", b"after"]


def test_a_stalled_upload_holds_its_place_no_longer_than_that(monkeypatch):
    """With one call at a time nobody else is served while one stalls, and somebody is right after."""
    monkeypatch.setattr(server, "MOST_CALLS", 1)
    monkeypatch.setattr(server, "SILENCE", 0.3)
    over = Event()

    def upload():
        yield b""
        over.wait(LONG)

    with (
        serving(HandlerService(Echo())) as own_server,
        calling(own_server) as exchange,
        connected(own_server) as party,
    ):
        party.handle(b"x")
        call, start, refused = exchange(upload(), timeout=LONG), time.monotonic(), 0
        try:
            time.sleep(0.1)
            while time.monotonic() - start < 2:
                try:
                    assert party.handle(b"x") == b"x"
                    break
                except PartyUnavailable:
                    refused += 1
                    time.sleep(0.02)
            assert refused
            assert 0.3 <= time.monotonic() - start < 1.5
        finally:
            over.set()
            call.cancel()


def test_a_slow_upload_that_goes_on_is_served(monkeypatch):
    monkeypatch.setattr(server, "SILENCE", 0.4)

    def upload():
        header, piece = streams.frames(b"slow")
        yield header
        for k in range(4):
            time.sleep(0.15)
            yield piece[k : k + 1]

    with serving(HandlerService(Echo())) as own_server, calling(own_server) as exchange:
        answer, _ = streams.assemble(exchange(upload(), timeout=LONG), 100)
    assert answer == b"slow"


def test_a_taken_address_is_said_so():
    with serving(HandlerService(Echo())) as own_server:
        address = f"127.0.0.1:{own_server.port}"
        with pytest.raises(OSError, match=f"cannot listen at {address}"):
            Server(HandlerService(Echo()), address, tls("bank"), ["acme"])


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
        with pytest.raises(PartyUnavailable):
            party.handle(b"quick")
