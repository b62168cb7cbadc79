"""Calls of a remote party: messages of any length, silence, outages, failures."""

import inspect
import time
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Thread

import grpc
import numpy as np
import pytest

from deployment import HandlerService, connected, eventually, raw_calls, serving, tls
from gbdt_parties import messages
from gbdt_parties.errors import AuthenticationError, PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.messages import Parts
from gbdt_parties.transport import remote as remote_module
from gbdt_parties.transport import server as server_module
from gbdt_parties.transport import streams
from gbdt_parties.transport.remote import RemoteParty
from served_parties import Echo
from stopped_clock import StoppedClock
from xgb_fed.vertical.protocol.messages import Gradients


@pytest.mark.parametrize("size", [0, 1, streams.PIECE_BYTES, 3 * streams.PIECE_BYTES + 1])
def test_messages_of_any_length_arrive_whole(size):
    message = np.random.default_rng(size).bytes(size)
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        assert party.handle(message) == message


def test_requests_in_parts_arrive_whole():
    parts = [b"a" * 5, b"b" * (streams.PIECE_BYTES + 7), b"c"]
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        assert party.handle(Parts(sum(map(len, parts)), parts)) == b"".join(parts)


def test_an_error_in_making_a_part_is_not_the_partys(caplog):
    broken = Future()
    broken.set_exception(ZeroDivisionError("made up"))
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        with pytest.raises(ZeroDivisionError, match="made up"):
            party.handle(Parts(9, [b"a" * 5, broken]))
        assert party.handle(b"still there") == b"still there"


def test_a_request_in_parts_that_is_too_long_is_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(server_module, "MAX_REQUEST_BYTES", 1000)
    service = HandlerService(Echo())
    never = Future()
    with serving(service) as server, connected(server) as party:
        with pytest.raises(PartyRefusedError, match="1001 bytes was announced; 1000"):
            party.handle(Parts(1001, [never]))
        never.cancel()
    assert not service.exchanges


def test_a_request_in_parts_is_given_up_while_they_are_being_made():
    never = Future()
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        interruption = Thread(
            target=lambda: (eventually(lambda: party.live_call is not None), party.interrupt())
        )
        interruption.start()
        with pytest.raises(PartyUnavailableError):
            party.handle(Parts(9, [b"a" * 5, never]))
        interruption.join()
        never.cancel()
        assert party.handle(b"still there") == b"still there"


@pytest.fixture
def calls(monkeypatch):
    """The calls that servers have taken, which no busy machine ends."""
    monkeypatch.setattr(remote_module, "MAX_IDLE", 1000.0)
    monkeypatch.setattr(server_module, "LINGER", 2000.0)
    taken, exchange = [], server_module.Server.exchange

    def exchanged(server, received, context):
        taken.append(context)
        return exchange(server, received, context)

    monkeypatch.setattr(server_module.Server, "exchange", exchanged)
    return taken


def test_requests_share_a_call_also_those_about_other_rows(calls):
    service = HandlerService(Echo())
    with serving(service) as server, connected(server) as party:
        other = party.with_rows(b"r" * 32)
        for number in range(20):
            size = [1, streams.PIECE_BYTES + 1][number % 2]
            assert (party, other)[number % 3 == 0].handle(bytes([number]) * size) == bytes([number]) * size
    assert len(calls) == 1
    assert len(service.exchanges) == 20


def test_requests_are_sent_before_the_answer_to_the_first_and_answered_in_their_order(calls):
    may_answer, service = Event(), HandlerService(Echo())
    handle, service.handler.handle = (
        service.handler.handle,
        lambda request: may_answer.wait(60) and handle(request),
    )
    with serving(service) as server, connected(server) as party, ThreadPoolExecutor(2) as pool:
        answers = [party.begin(b"%d" % number) for number in range(3)]
        # Those who come later wait for all of them, also other objects on the connection.
        last = pool.submit(party.with_rows(b"r" * 32).handle, b"last")
        later = pool.submit(answers[2])
        time.sleep(0.1)
        assert (last.done(), later.done()) == (False, False)
        assert party.live_call is not None
        may_answer.set()
        assert [answers[0](), answers[1](), later.result(60), last.result(60)] == [b"0", b"1", b"2", b"last"]
        assert party.live_call is None
    assert len(calls) == 1


def test_a_lost_call_loses_all_requests_that_were_sent(calls):
    service, arrived, woken = HandlerService(Echo()), Event(), Event()
    handle = service.handler.handle
    service.handler.handle = lambda request: (arrived.set(), woken.wait(60), handle(request))[2]
    with serving(service) as server, connected(server) as party, ThreadPoolExecutor(1) as pool:
        answers = [party.begin(request) for request in (b"x", b"y")]
        assert arrived.wait(60)
        # That of another object is not sent yet.
        last = pool.submit(party.with_rows().handle, b"z")
        time.sleep(0.1)
        party.interrupt()
        for answer in answers:
            with pytest.raises(PartyUnavailableError, match="'bank'"):
                answer()
        woken.set()
        assert last.result(60) == b"z"
    # The second one was given up before the server came to it.
    assert b"y" not in [request for request, _ in service.exchanges]


def test_a_request_behind_one_that_failed_is_not_sent_again(monkeypatch):
    came = []

    def half_of_the_second(server, received, context):
        came.append(streams.assemble(received, 10, heartbeats=False)[0])
        yield from streams.frames(came[-1])
        came.append(streams.assemble(received, 10, heartbeats=False)[0])
        yield next(streams.frames(Parts(5, [Future()])))

    monkeypatch.setattr(server_module.Server, "exchange", half_of_the_second)
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        first, *others = [party.begin(request) for request in (b"1", b"2", b"3")]
        assert first() == b"1"
        for answer in others:
            with pytest.raises(ProtocolError, match=r"'bank'.*ended"):
                answer()
    assert came == [b"1", b"2"]


@pytest.mark.parametrize("error", [OSError(28, "full"), ZeroDivisionError()])
def test_after_a_failure_requests_have_a_new_call(error, calls):
    class Failing:
        def handle(self, request):
            if request == b"fail":
                raise error
            return bytes(request)

    with serving(HandlerService(Failing())) as server, connected(server) as party:
        assert party.handle(b"x") == b"x"
        with pytest.raises((PartyUnavailableError, PartyRefusedError)):
            party.handle(b"fail")
        assert [party.handle(b"y"), party.handle(b"z")] == [b"y", b"z"]
    assert len(calls) == 2


def test_an_idle_call_is_not_used_again(monkeypatch, calls):
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        assert party.handle(b"x") == b"x"
        monkeypatch.setattr(remote_module, "MAX_IDLE", 0.0)
        assert party.handle(b"y") == b"y"
        eventually(lambda: not calls[0].is_active())
    assert len(calls) == 2


def test_of_two_connections_of_a_caller_one_keeps_its_call_and_the_other_sends_again(calls):
    """A server ends calls between requests only, so that each request arrives once."""
    service = HandlerService(Echo())
    with serving(service) as server, connected(server) as one, connected(server) as other:
        asked = [party.handle(bytes([number])) for number in range(10) for party in (one, other)]
    assert asked == [bytes([number]) for number in range(10) for _ in (one, other)]
    assert [request for request, _ in service.exchanges] == asked
    assert 2 <= len(calls) <= len(asked)


def test_an_end_of_a_kept_call_that_is_not_known_yet_sends_the_request_again(monkeypatch, calls):
    monkeypatch.setattr(server_module.Server, "has_next", lambda *_: False)
    monkeypatch.setattr(remote_module.KeptCall, "is_usable", True)
    service = HandlerService(Echo())
    with serving(service) as server, connected(server) as party:
        assert [party.handle(request) for request in (b"x", b"y", b"z")] == [b"x", b"y", b"z"]
        # Also all that were sent behind it, in their order.
        assert [wait() for wait in [party.begin(request) for request in (b"1", b"2", b"3")]] == [
            b"1",
            b"2",
            b"3",
        ]
    assert [request for request, _ in service.exchanges] == [b"x", b"y", b"z", b"1", b"2", b"3"]


def test_a_server_that_did_not_run_for_long_still_reads_the_request_that_came_meanwhile(monkeypatch):
    """Its clock goes on while it is stopped: the call that waits must not end before the request is read."""
    idle, clock = remote_module.MAX_IDLE, StoppedClock(monkeypatch)
    taken, exchange = [], server_module.Server.exchange
    monkeypatch.setattr(remote_module, "MAX_IDLE", 1000.0)
    monkeypatch.setattr(
        server_module.Server,
        "exchange",
        lambda server, *call: (taken.append(call), exchange(server, *call))[1],
    )
    longest = idle + inspect.signature(RemoteParty).parameters["timeout"].default
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        assert party.handle(b"x") == b"x"
        eventually(lambda: server.waiting)
        clock.forward(longest)
        time.sleep(0.1)
        assert party.handle(b"y") == b"y"
    assert len(taken) == 1


def test_a_time_that_is_over_before_there_is_a_call_ends_the_request(monkeypatch):
    """Otherwise nothing would end it: a watchdog calls once, and a call has no time limit of its own."""
    monkeypatch.setattr(server_module.Server, "has_next", lambda *_: False)
    monkeypatch.setattr(remote_module.KeptCall, "is_usable", True)
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        assert party.handle(b"w") == b"w"
        answer = party.begin(b"x")
        interrupted, interrupt, call = Event(), party.interrupt, remote_module.ServerConnection.call
        monkeypatch.setattr(party, "interrupt", lambda: (interrupt(), interrupted.set()))
        monkeypatch.setattr(
            remote_module.ServerConnection,
            "call",
            lambda self, seconds: (interrupted.wait(60.0), call(self, seconds))[1],
        )
        party.timeout = 0.01
        with pytest.raises(PartyUnavailableError, match=r"silent for 0\.01 s"):
            answer()
        party.timeout = 60.0
        assert party.handle(b"y") == b"y"


def test_row_sets_travel_with_every_request():
    service = HandlerService(Echo())
    with serving(service) as server, connected(server, row_sets=[b"r" * 32, b"e" * 32]) as party:
        party.handle(b"x")
        party.with_rows(b"p" * 32).handle(b"x")
    assert service.callers == [("acme", (b"r" * 32, b"e" * 32)), ("acme", (b"p" * 32,))]


def test_longer_messages_than_accepted_are_refused(monkeypatch):
    monkeypatch.setattr("gbdt_parties.transport.server.MAX_REQUEST_BYTES", 1000)
    monkeypatch.setattr("gbdt_parties.transport.remote.MAX_ANSWER_BYTES", 500)
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        with pytest.raises(PartyRefusedError, match="1001 bytes was announced; 1000"):
            party.handle(b"x" * 1001)
        with pytest.raises(ProtocolError, match=r"'bank'.*501 bytes was announced; 500"):
            party.handle(b"x" * 501)
        assert party.handle(b"fine") == b"fine"


def raised_within(seconds, party, kind=PartyUnavailableError):
    start = time.monotonic()
    with pytest.raises(kind, match="'bank'") as caught:
        party.handle(b"x")
    assert time.monotonic() - start < seconds
    return str(caught.value)


def test_a_stopped_server_is_unavailable_at_once():
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        party.handle(b"x")
        server.stop()
        assert f"127.0.0.1:{server.port}" in raised_within(30, party)


def test_a_party_that_works_longer_than_the_timeout_is_not_silent(monkeypatch):
    monkeypatch.setattr("gbdt_parties.transport.server.HEARTBEAT", 0.02)
    clock, dogs = StoppedClock(monkeypatch), []

    class Noted(streams.Watchdog):
        def __enter__(self):
            dogs.append(self)
            return super().__enter__()

    monkeypatch.setattr(remote_module, "Watchdog", Noted)

    class Slow:
        def handle(self, request):
            for _ in range(3):
                due = dogs[0].due
                clock.forward(0.6)
                eventually(lambda due=due: dogs[0].due >= due + 0.5)  # the caller has seen a sign of life
            return b"done"

    with serving(HandlerService(Slow())) as server, connected(server, timeout=1.0) as party:
        assert party.handle(b"x") == b"done"
    assert len(dogs) == 1
    assert not dogs[0].fired


@pytest.mark.parametrize("compiles", [True, False])
def test_a_party_that_compiles_says_so_once(compiles, monkeypatch, caplog):
    monkeypatch.setattr("gbdt_parties.transport.server.is_compiling", lambda: (beats.append(1), compiles)[1])
    monkeypatch.setattr("gbdt_parties.transport.server.HEARTBEAT", 0.05)

    beats = []

    class Slow:
        def handle(self, request):
            n_beats = len(beats)
            eventually(lambda: len(beats) > n_beats)
            return b"done"

    with (
        caplog.at_level("INFO", "gbdt_parties"),
        serving(HandlerService(Slow())) as server,
        connected(server) as party,
    ):
        for _ in range(2):
            assert party.handle(b"x") == b"done"
        assert party.with_rows().handle(b"x") == b"done"
    said = [line for line in caplog.messages if "compiles kernels" in line]
    assert said == [f"party {party.name!r} compiles kernels for its machine (once; it keeps them)"] * compiles


def test_a_silent_party_is_unavailable_after_the_timeout(monkeypatch):
    monkeypatch.setattr("gbdt_parties.transport.server.HEARTBEAT", 1000.0)
    woken = Event()

    class Silent:
        def handle(self, request):
            woken.wait(60)
            return b"late"

    with serving(HandlerService(Silent())) as server, connected(server, timeout=0.5) as party:
        assert "silent for 0.5 s" in raised_within(30, party)
        woken.set()


def test_a_call_is_given_up_from_another_thread():
    started, woken = Event(), Event()

    class Busy:
        def handle(self, request):
            started.set()
            woken.wait(60)
            return b"late"

    def interrupt():
        assert started.wait(60)
        eventually(
            lambda: party.live_call is not None
        )  # the server may be sooner at work than this side knows
        party.interrupt()

    with serving(HandlerService(Busy())) as server, connected(server) as party:
        Thread(target=interrupt).start()
        raised_within(30, party)
        woken.set()


def test_a_failing_handler_says_nothing_of_its_data(caplog):
    class Failing:
        def handle(self, request):
            raise KeyError("customer-secret")  # a port may have any digits

    with (
        serving(HandlerService(Failing())) as server,
        connected(server) as party,
        pytest.raises(PartyRefusedError, match="log says why") as caught,
    ):
        party.handle(b"x")
    assert "secret" not in str(caught.value) + caplog.text
    assert "KeyError" in caplog.text


ESCAPES = "\x1b[2J\x1b]0;title\x07\nparty 'bank' agrees\u202e"


def test_words_of_a_server_are_quoted(monkeypatch):
    class Refusing:
        def handle(self, request):
            raise OSError(28, "full")

    refuse = server_module.refuse
    for code in ("UNAVAILABLE", "ABORTED", "PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ARGUMENT"):
        monkeypatch.setattr(
            server_module, "refuse", lambda context, *_, c=code: refuse(context, c, ESCAPES * 100)
        )
        with (
            serving(HandlerService(Refusing())) as server,
            connected(server) as party,
            pytest.raises((PartyUnavailableError, PartyRefusedError, AuthenticationError)) as caught,
        ):
            party.handle(b"x")
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 2500


def test_compressed_frames_are_refused():
    import grpc

    with (
        serving(HandlerService(Echo())) as server,
        raw_calls(server, compression=grpc.Compression.Gzip) as call,
        pytest.raises(grpc.RpcError) as caught,
    ):
        list(call(iter([b"\0" * (1 << 26)]), timeout=60))
    assert caught.value.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.RESOURCE_EXHAUSTED)


@pytest.mark.parametrize("address", ["bank", "bank:", ":7001", "bank:x", "bank:70000", ""])
def test_malformed_addresses(address):
    with pytest.raises(ValueError, match="address"):
        RemoteParty(address, insecure=True)


def test_a_pickle_holds_no_key():
    import pickle

    party = RemoteParty("bank.example:7001", tls("acme"))
    text = pickle.dumps(party)
    assert tls("acme").key not in text
    with pytest.raises(PartyUnavailableError, match="no key"):
        pickle.loads(text).handle(b"x")
    party.close()


def test_messages_parse_from_a_view_as_from_bytes():
    data = messages.write(b"s" * 16, 3, Gradients(0, 5, b"values"))
    one, other = messages.read(data), messages.read(memoryview(bytearray(data)))
    assert one.message.values == other.message.values == b"values"
    assert isinstance(other.message.values, bytes)


class Recording(HandlerService):
    def __init__(self, handler):
        super().__init__(handler)
        self.refused = []

    def turned_away(self, caller, reason, count):
        self.refused.append((caller, reason, count))


def test_refusals_of_the_transport_are_recorded_but_not_each():
    service = Recording(Echo())
    with serving(service) as server:
        with raw_calls(server) as call:
            for wrong in [b"x"] * 3 + [streams.HEADER.pack(b"VBST", streams.VERSION, 0, 1 << 40)] * 2:
                with pytest.raises(grpc.RpcError):
                    list(call(iter([wrong]), timeout=60))
        with connected(server, name="eve") as eve, pytest.raises(AuthenticationError):
            eve.handle(b"x")
    announced = "a message of 1099511627776 bytes was announced; 67108864 are accepted"
    names = [who.split(" ")[0] for who, _, _ in service.refused]
    assert names == ["acme", "acme", "eve", "acme", "acme"]
    assert [(reason, count) for _, reason, count in service.refused] == [
        ("a stream does not start with a header", 1),
        (announced, 1),
        ("not on the allow-list", 1),
        ("a stream does not start with a header", 2),
        (announced, 1),
    ]
