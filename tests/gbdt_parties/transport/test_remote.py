import socket
import ssl
import time
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from threading import Event, Thread

import grpc
import numpy as np
import pytest

import xgb_fed
from deployment import HandlerService, Recorder, authority, connected, eventually, raw_calls, serving, tls
from gbdt_parties import messages
from gbdt_parties.errors import AuthenticationError, PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.identity.certificates import TLS, Identity, make_certificate
from gbdt_parties.parts import Parts
from gbdt_parties.transport import own_certificate as own_certificate_module
from gbdt_parties.transport import remote as remote_module
from gbdt_parties.transport import server as server_module
from gbdt_parties.transport import streams
from gbdt_parties.transport.own_certificate import is_refused
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from served_parties import Echo, with_certificate_of
from stopped_clock import StoppedClock
from xgb_fed.horizontal.service import HorizontalLimits, HorizontalService
from xgb_fed.vertical.protocol.messages import Gradients

PARAMS = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 16}


def problem(n=200, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6)).astype(np.float32)
    y = (X @ random.normal(size=6) > 0).astype(np.float32)
    return X[:, :2], X[:, 2:], y


def trained(party, X, y, cipher):
    return xgb_fed.train(PARAMS, xgb_fed.ActiveData(X, y), [party], 3, cipher=cipher, verbose_eval=False)


@pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")
def test_both_transports_carry_the_same_bytes(monkeypatch):
    monkeypatch.setattr("xgb_fed.vertical.training.run_state.os.urandom", lambda n: b"s" * n)
    own, other, y = problem()
    local = Recorder(xgb_fed.LocalParty(other, "bank"))
    model = trained(local, own, y, xgb_fed.Plain())
    service = HandlerService(xgb_fed.LocalParty(other, "bank"))
    with serving(service) as server, connected(server) as party:
        remote = Recorder(party)
        same = trained(remote, own, y, xgb_fed.Plain())
    assert len(local.exchanges) > 10
    assert local.exchanges == remote.exchanges == service.exchanges
    assert model.to_json() == same.to_json()
    assert set(service.callers) == {("acme", ())}


@pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")
def test_requests_in_parts_are_the_same_bytes_as_whole_ones(monkeypatch):
    """A `Recorder` takes whole requests; the remote party itself takes those of gradients in parts."""
    monkeypatch.setattr("xgb_fed.vertical.training.run_state.os.urandom", lambda n: b"s" * n)
    monkeypatch.setattr("xgb_fed.vertical.growing.gradients_ahead.PART_BYTES", 7 * 256)
    own, other, y = problem(seed=2)
    exchanges = []
    for wrapped in (Recorder, lambda party: party):
        service = HandlerService(xgb_fed.LocalParty(other, "bank"))
        with serving(service) as server, connected(server) as party:
            trained(wrapped(party), own, y, xgb_fed.Plain())
        exchanges.append(service.exchanges)
    assert exchanges[0] == exchanges[1]
    assert len(exchanges[0]) > 10


def test_training_and_prediction_under_encryption_over_tls():
    own, other, y = problem(seed=1)
    cipher = xgb_fed.OkamotoUchiyama(key_length=1024, allow_weak_key=True)
    local = xgb_fed.LocalParty(other, "bank", allow_export=True)
    with serving(HandlerService(local)) as server, connected(server) as party:
        model = trained(party, own, y, cipher)
        at_a_distance = model.predict(own, [party])
        booster = model.export_booster([party])
    np.testing.assert_array_equal(at_a_distance, model.predict(own, [local]))
    assert booster.num_boosted_rounds() == 3


def test_horizontal_parties_over_tls(tmp_path):
    random = np.random.default_rng(4)
    rows = [random.normal(size=(80, 4)).astype(np.float32) for _ in range(2)]
    labels = [(X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int) for X in rows]

    def made():
        return [
            xgb_fed.HorizontalParty(X, y, f"party{k}", categorical_labels=True, random_state=k)
            for k, (X, y) in enumerate(zip(rows, labels, strict=True))
        ]

    def boosted(parties):
        params = {"objective": "binary:logistic", "max_depth": 3}
        return xgb_fed.train_simfl(params, parties, 4, hash_seed=0, verbose_eval=False)

    here = boosted(made())
    with ExitStack() as stack:
        there = []
        for party in made():
            service = HorizontalService(party, tmp_path / party.name, HorizontalLimits())
            server = stack.enter_context(serving(service, party.name))
            remote = RemoteParty(f"127.0.0.1:{server.port}", tls("acme"), party.name, 60)
            stack.callback(remote.close)
            there.append(remote)
        far = boosted(there)
    assert far.booster.save_raw() == here.booster.save_raw()


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
        with pytest.raises(PartyRefusedError, match="1001 bytes was announced; 1000 are accepted"):
            party.handle(Parts(1001, [never]))
        never.cancel()
    assert not service.exchanges


def test_a_request_in_parts_is_given_up_while_they_are_being_made():
    never = Future()
    with serving(HandlerService(Echo())) as server, connected(server) as party:
        interruption = Thread(target=lambda: (eventually(lambda: party._call is not None), party.interrupt()))
        interruption.start()
        with pytest.raises(PartyUnavailableError):
            party.handle(Parts(9, [b"a" * 5, never]))
        interruption.join()
        never.cancel()
        assert party.handle(b"still there") == b"still there"


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
        with pytest.raises(PartyRefusedError, match="1001 bytes was announced; 1000 are accepted"):
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
        eventually(lambda: party._call is not None)  # the server may be sooner at work than this side knows
        party.interrupt()

    with serving(HandlerService(Busy())) as server, connected(server) as party:
        Thread(target=interrupt).start()
        raised_within(30, party)
        woken.set()


def test_a_failing_handler_says_nothing_of_its_data(caplog):
    class Failing:
        def handle(self, request):
            raise KeyError("customer-4711")

    with (
        serving(HandlerService(Failing())) as server,
        connected(server) as party,
        pytest.raises(PartyRefusedError, match="its log says why") as caught,
    ):
        party.handle(b"x")
    assert "4711" not in str(caught.value) + caplog.text
    assert "KeyError" in caplog.text


@pytest.mark.parametrize(
    "caller",
    [dict(name="eve"), dict(name="acme", which="other"), dict(name="acme", days=-1)],
    ids=["not on the list", "of another authority", "expired"],
)
def test_other_callers_are_turned_away(caller):
    service = HandlerService(Echo())
    with (
        serving(service) as server,
        connected(server, **caller) as party,
        pytest.raises((AuthenticationError, PartyUnavailableError), match="'bank'"),
    ):
        party.handle(b"x")
    assert not service.exchanges


@pytest.mark.parametrize("end", ["closed at once", "silent"])
def test_a_server_that_is_not_there_is_not_taken_for_one_that_refuses(end):
    """Whatever takes the connection: without the bank's handshake nothing is known of certificates."""
    held = []

    def serve(listener):
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                if end == "closed at once":
                    connection.close()
                else:
                    held.append(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=serve, args=(listener,), daemon=True).start()
        party = RemoteParty(f"127.0.0.1:{listener.getsockname()[1]}", tls("acme"), "bank", 1.0)
        begun = time.monotonic()
        with pytest.raises(PartyUnavailableError, match="'bank'"):
            party.handle(b"x")
        assert time.monotonic() - begun < 30
        party.close()
        for one in held:
            one.close()


def test_a_server_that_accepts_the_certificate_does_not_refuse_it():
    with serving(HandlerService(Echo())) as server:
        assert not is_refused("127.0.0.1", server.port, "bank", tls("acme"), 60)
        assert not is_refused("127.0.0.1", server.port, "insurer", with_certificate_of("other"), 60)
        assert is_refused("127.0.0.1", server.port, "bank", with_certificate_of("other"), 60)
        port = server.port
    assert not is_refused("127.0.0.1", port, "bank", with_certificate_of("other"))


@contextmanager
def tls_end(bank, oldest=ssl.TLSVersion.TLSv1_2):
    """A TLS end before a server that is down: it completes handshakes, finds nothing behind it, and closes.

    Gives its port, and a list of the versions of the handshakes that it completed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = oldest
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=bank.authority.decode())
    context.set_alpn_protocols(["h2"])
    readable = own_certificate_module._readable
    with readable(bank.certificate) as certificate, readable(bank.key) as key:
        context.load_cert_chain(certificate, key)
    completed = []

    def serve(listener):
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    secured = context.wrap_socket(connection, server_side=True)
                    completed.append(secured.version())
                    secured.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=serve, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1], completed


@pytest.mark.parametrize("oldest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda v: v.name)
def test_a_tls_end_before_a_server_that_is_down_is_an_outage(oldest):
    """It takes this side's certificate, then closes, as gRPC servers do that refuse it."""
    with tls_end(tls("bank"), oldest) as (port, completed):
        assert not is_refused("127.0.0.1", port, "bank", tls("acme"), 60)
        assert completed
        party = RemoteParty(f"127.0.0.1:{port}", tls("acme"), "bank", 3.0)
        with pytest.raises(PartyUnavailableError, match="'bank'"):
            party.handle(b"x")
        party.close()


@pytest.mark.parametrize("oldest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda v: v.name)
@pytest.mark.parametrize(("which", "days"), [("other", 365), ("ca", -1)], ids=["authority", "clock"])
def test_a_tls_end_that_refuses_the_certificate_by_an_alert_is_believed(which, days, oldest):
    with tls_end(tls("bank"), oldest) as (port, completed):
        assert is_refused("127.0.0.1", port, "bank", with_certificate_of(which, days), 60)
        assert not completed


@pytest.mark.parametrize("how", [dict(which="other"), dict(days=-1)], ids=["another authority", "expired"])
def test_other_servers_are_not_talked_to(how):
    service = HandlerService(Echo())
    with (
        serving(service, **how) as server,
        connected(server) as party,
        pytest.raises(AuthenticationError, match=r"'bank'.*certificates do not match"),
    ):
        party.handle(b"secret")
    assert not service.exchanges


def test_a_server_with_another_partys_certificate_is_not_talked_to():
    service = HandlerService(Echo())
    own = tls("acme")
    for expected, fine in [("bank", True), ("insurer", False)]:
        with serving(service) as server:
            party = RemoteParty(
                f"127.0.0.1:{server.port}",
                type(own)(own.authority, own.certificate, own.key, server_name=expected),
                "bank",
                timeout=60,
            )
            if fine:
                party.handle(b"x")
            else:
                with pytest.raises(AuthenticationError, match="certificates do not match"):
                    party.handle(b"x")
            party.close()
    assert len(service.exchanges) == 1


def test_another_party_of_the_same_authority_is_not_the_bank(tmp_path):
    """Wherever it listens: a tunnel's end has whatever address it likes."""
    service = HandlerService(Echo())
    make_certificate(tmp_path, authority("ca"), "umbrella", ["127.0.0.1"])
    server = Server(service, "127.0.0.1:0", TLS.from_directory(tmp_path), ["acme"])
    try:
        with (
            connected(server) as party,
            pytest.raises(AuthenticationError, match="certificates do not match"),
        ):
            party.handle(b"secret")
        address = f"localhost:{server.port}"
        party = RemoteParty(address, tls("acme"), timeout=60)
        with pytest.raises(AuthenticationError, match="certificates do not match"):
            party.handle(b"secret")
        party.close()
    finally:
        server.stop()
    assert not service.exchanges


def test_without_a_name_the_certificate_is_for_the_host(tmp_path):
    make_certificate(tmp_path, authority("ca"), "bank", ["localhost"])
    server = Server(HandlerService(Echo()), "127.0.0.1:0", TLS.from_directory(tmp_path), ["acme"])
    party = RemoteParty(f"localhost:{server.port}", tls("acme"), timeout=60)
    try:
        assert party.handle(b"x") == b"x"
    finally:
        party.close()
        server.stop()


ESCAPES = "\x1b[2J\x1b]0;title\x07\nparty 'bank' agrees\u202e"


def test_words_of_a_server_are_quoted(monkeypatch):
    class Refusing:
        def handle(self, request):
            raise OSError(28, "full")

    refuse = server_module._refuse
    for code in ("UNAVAILABLE", "ABORTED", "PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ARGUMENT"):
        monkeypatch.setattr(
            server_module, "_refuse", lambda context, *_, c=code: refuse(context, c, ESCAPES * 100)
        )
        with (
            serving(HandlerService(Refusing())) as server,
            connected(server) as party,
            pytest.raises((PartyUnavailableError, PartyRefusedError, AuthenticationError)) as caught,
        ):
            party.handle(b"x")
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 2500


def test_allowed_by_fingerprint():
    from gbdt_parties.identity.certificates import Identity

    fingerprint = Identity.of(tls("acme").certificate).fingerprint
    service = HandlerService(Echo())
    with serving(service, allowed=[f"sha256:{fingerprint}"]) as server:
        with connected(server) as party:
            party.handle(b"x")
        other = connected(server, days=364)
        with other as party, pytest.raises(AuthenticationError, match="not an allowed"):
            party.handle(b"x")


def test_a_client_without_certificate_is_turned_away():
    import grpc

    with serving(HandlerService(Echo())) as server:
        for channel in (
            grpc.insecure_channel(f"127.0.0.1:{server.port}"),
            grpc.secure_channel(
                f"127.0.0.1:{server.port}",
                grpc.ssl_channel_credentials(tls("acme").authority),
                [("grpc.ssl_target_name_override", "bank")],
            ),
        ):
            with channel, pytest.raises(grpc.RpcError):
                list(channel.stream_stream("/veilboost.Party/Exchange")(streams.frames(b"x"), timeout=60))


def test_compressed_frames_are_refused():
    import grpc

    with (
        serving(HandlerService(Echo())) as server,
        raw_calls(server, compression=grpc.Compression.Gzip) as call,
        pytest.raises(grpc.RpcError) as caught,
    ):
        list(call(iter([b"\0" * (1 << 26)]), timeout=60))
    assert caught.value.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_plaintext_only_on_this_machine_and_only_if_asked_for():
    service = HandlerService(Echo())
    server = Server(service, "127.0.0.1:0", None, insecure=True)
    try:
        party = RemoteParty(f"127.0.0.1:{server.port}", insecure=True, name="bank", timeout=60)
        assert party.handle(b"x") == b"x"
        party.close()
    finally:
        server.stop()
    with pytest.raises(ValueError, match="loopback"):
        Server(service, "0.0.0.0:0", None, insecure=True)
    with pytest.raises(ValueError, match="tls"):
        Server(service, "127.0.0.1:0", None)
    with pytest.raises(ValueError, match="this machine only"):
        RemoteParty("bank.example:7001", insecure=True)
    with pytest.raises(ValueError, match="tls"):
        RemoteParty("127.0.0.1:7001")
    with pytest.raises(ValueError, match="allowed"):
        Server(service, "127.0.0.1:0", tls("bank"))


def test_plaintext_to_this_machine_goes_through_no_proxy(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        for name in ("http_proxy", "https_proxy", "grpc_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        for name in ("no_proxy", "no_grpc_proxy"):
            monkeypatch.delenv(name, raising=False)
        server = Server(HandlerService(Echo()), "127.0.0.1:0", None, insecure=True)
        party = RemoteParty(f"127.0.0.1:{server.port}", insecure=True, name="bank", timeout=30)
        try:
            assert party.handle(b"secret") == b"secret"
        finally:
            party.close()
            server.stop()


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


def test_a_server_whose_certificate_expires_is_not_sent_requests_for_long(monkeypatch, tmp_path):
    """gRPC checks certificates when a connection is made, so connections do not last."""
    for seconds in (4, 16, 64):  # the later ones if this machine was too busy to use the certificate in time
        folder = tmp_path / str(seconds)
        make_certificate(folder, authority("ca"), "bank", days=seconds / 86400)
        expires = Identity.of(TLS.from_directory(folder).certificate).expires.timestamp()
        service = HandlerService(Echo())
        server = Server(service, "127.0.0.1:0", TLS.from_directory(folder), ["acme"])
        try:
            with connected(server) as party:
                other = party.with_rows(b"r" * 32)
                with suppress(AuthenticationError) if seconds < 64 else nullcontext():
                    assert party.handle(b"x") == b"x"
                    monkeypatch.setattr(remote_module, "MAX_CONNECTION_AGE", 0.0)
                    assert other.handle(b"y") == b"y"
                if [request for request, _ in service.exchanges] != [b"x", b"y"]:
                    assert time.time() > expires
                    continue
                time.sleep(max(0.0, expires + 1.0 - time.time()))
                for one in (party, other):
                    with pytest.raises(AuthenticationError):
                        one.handle(b"z")
        finally:
            server.stop()
        assert [request for request, _ in service.exchanges] == [b"x", b"y"]
        return


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
            for wrong in [b"x"] * 3 + [streams._HEADER.pack(b"VBST", 1, 0, 1 << 40)] * 2:
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
