"""Who talks to whom: certificates of both sides, TLS ends in between, and plaintext on one machine."""

import socket
import ssl
import time
from contextlib import contextmanager, nullcontext, suppress
from threading import Thread

import pytest

from deployment import HandlerService, authority, connected, serving, tls
from gbdt_parties.errors import AuthenticationError, PartyArgumentError, PartyUnavailableError
from gbdt_parties.identity.certificates import TLS, Identity, make_certificate
from gbdt_parties.secure_sum.trust import AllowList
from gbdt_parties.transport import own_certificate as own_certificate_module
from gbdt_parties.transport import remote as remote_module
from gbdt_parties.transport import streams
from gbdt_parties.transport.own_certificate import is_refused
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from served_parties import Echo, with_certificate_of


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
    readable = own_certificate_module.readable
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
def test_other_servers_are_not_talked_to(how, monkeypatch):
    monkeypatch.setattr(TLS, "check_dates", lambda tls: None)  # as if the server's clock were behind
    service = HandlerService(Echo())
    with (
        serving(service, **how) as server,
        connected(server) as party,
        pytest.raises(AuthenticationError, match=r"'bank'.*match"),
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
                with pytest.raises(AuthenticationError, match=r"certificates.*match"):
                    party.handle(b"x")
            party.close()
    assert len(service.exchanges) == 1


def test_another_party_of_the_same_authority_is_not_the_bank(tmp_path):
    """Wherever it listens: a tunnel's end has whatever address it likes."""
    service = HandlerService(Echo())
    make_certificate(tmp_path, authority("ca"), "umbrella", ["127.0.0.1"])
    server = Server(service, "127.0.0.1:0", TLS.from_directory(tmp_path), ["acme"])
    try:
        with connected(server) as party, pytest.raises(AuthenticationError, match=r"certificates.*match"):
            party.handle(b"secret")
        address = f"localhost:{server.port}"
        party = RemoteParty(address, tls("acme"), timeout=60)
        with pytest.raises(AuthenticationError, match=r"certificates.*match"):
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


@pytest.mark.parametrize("how", ["plaintext", "an authority", "a list"])
def test_a_connection_goes_through_no_proxy(monkeypatch, how):
    """The channel takes the way of the handshake that reads the server's certificate beforehand."""
    service = HandlerService(Echo())
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        for name in ("http_proxy", "https_proxy", "grpc_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        for name in ("no_proxy", "no_grpc_proxy"):
            monkeypatch.delenv(name, raising=False)
        if how == "plaintext":
            server = Server(service, "127.0.0.1:0", None, insecure=True)
            party = RemoteParty(f"127.0.0.1:{server.port}", insecure=True, name="bank", timeout=30)
        else:
            server = Server(service, "127.0.0.1:0", tls("bank"), ["acme"])
            allowed = [fingerprint(tls("bank"))] if how == "a list" else None
            party = RemoteParty(f"127.0.0.1:{server.port}", tls("acme"), "bank", 30, allowed=allowed)
        try:
            assert party.handle(b"secret") == b"secret"
        finally:
            party.close()
            server.stop()
        proxy.settimeout(0.2)
        with pytest.raises(TimeoutError):
            proxy.accept()


def test_a_server_whose_certificate_expires_is_not_sent_requests_for_long(monkeypatch, tmp_path):
    """gRPC checks certificates when a connection is made, so connections do not last."""
    for seconds in (2, 8, 64):  # the later ones if this machine was too busy to use the certificate in time
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


def fingerprint(own):
    return f"sha256:{Identity.of(own.certificate).fingerprint}"


def test_a_server_whose_certificate_is_not_allowed_is_sent_nothing():
    """Another certificate of the same authority with the same name, which its operator can make at will."""
    bank, namesake = tls("bank"), tls("bank", days=300)
    for allowed, fine in ([fingerprint(bank)], True), ([fingerprint(namesake), fingerprint(bank)], True):
        with serving(HandlerService(Echo())) as server, connected(server, allowed=allowed) as party:
            assert (party.handle(b"x") == b"x") is fine
    for allowed in [fingerprint(namesake)], []:
        service = HandlerService(Echo())
        with serving(service) as server, connected(server, allowed=allowed) as party:
            for one in (party, party.with_rows(bytes(32))):
                with pytest.raises(AuthenticationError, match=rf"'bank'.*was not asked.*{fingerprint(bank)}"):
                    one.handle(b"secret")
        assert not service.exchanges


def test_lists_that_name_no_certificate_are_refused():
    with pytest.raises(PartyArgumentError, match="'bank' without its fingerprint"):
        RemoteParty("127.0.0.1:1", tls("acme"), "bank", allowed=["bank"])
    with pytest.raises(PartyArgumentError, match="shows no certificate"):
        RemoteParty("127.0.0.1:1", insecure=True, allowed=[fingerprint(tls("bank"))])


def test_every_list_must_have_the_certificate():
    """That of the connection and that of a call with it: the narrower one counts, whichever came first."""
    service, bank, other = HandlerService(Echo()), fingerprint(tls("bank")), fingerprint(tls("insurer"))
    with serving(service) as server, connected(server) as party:
        party.accept_only(AllowList(None))
        assert not party.has_allow_list
        assert party.handle(b"x") == b"x"
        party.accept_only(AllowList([bank]))
        assert party.has_allow_list
        assert party.handle(b"x") == b"x"
        party.accept_only(AllowList([other]))
        with pytest.raises(AuthenticationError, match="was not asked"):
            party.handle(b"secret")
    assert len(service.exchanges) == 2


@contextmanager
def switching(*ports):
    """A listener that joins connections to one server after the other, the last one for good."""
    left, sockets = list(ports), []

    def pump(source, target):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def serve(listener):
        with suppress(OSError):
            while True:
                caller, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", left.pop(0) if len(left) > 1 else left[0]))
                sockets.extend([caller, server])
                for ends in ((caller, server), (server, caller)):
                    Thread(target=pump, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=serve, args=(listener,), daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            for one in sockets:
                one.close()


def test_a_server_that_shows_one_certificate_and_talks_with_another_is_sent_nothing():
    """A man in the middle who shows the bank's handshake, and goes on himself: he does not have its key."""
    service, made_up = HandlerService(Echo()), HandlerService(Echo())
    allowed = [fingerprint(tls("bank"))]
    with (
        serving(service) as bank,
        serving(made_up, days=300) as namesake,
        switching(bank.port, namesake.port) as port,
    ):
        party = RemoteParty(f"127.0.0.1:{port}", tls("acme"), "bank", 5.0, allowed=allowed)
        with pytest.raises(AuthenticationError, match=r"certificates.*match"):
            party.handle(b"secret")
        party.close()
    assert not made_up.exchanges
    assert not service.exchanges


def test_a_connection_that_is_made_again_is_to_one_that_is_allowed(monkeypatch):
    service, made_up = HandlerService(Echo()), HandlerService(Echo())
    allowed = [fingerprint(tls("bank"))]
    with (
        serving(service) as bank,
        serving(made_up, days=300) as namesake,
        switching(bank.port, bank.port, namesake.port) as port,
    ):
        party = RemoteParty(f"127.0.0.1:{port}", tls("acme"), "bank", 5.0, allowed=allowed)
        assert party.handle(b"x") == b"x"
        monkeypatch.setattr(remote_module, "MAX_CONNECTION_AGE", 0.0)
        with pytest.raises(AuthenticationError, match="was not asked"):
            party.handle(b"secret")
        party.close()
    assert not made_up.exchanges


def test_a_server_that_is_down_is_an_outage_also_where_certificates_are_listed():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    party = RemoteParty(f"127.0.0.1:{port}", tls("acme"), "bank", 3.0, allowed=[fingerprint(tls("bank"))])
    with pytest.raises(PartyUnavailableError, match="'bank'"):
        party.handle(b"x")
    with serving(HandlerService(Echo()), which="other") as server:
        party = RemoteParty(
            f"127.0.0.1:{server.port}", tls("acme"), "bank", 3.0, allowed=[fingerprint(tls("bank"))]
        )
        with pytest.raises(AuthenticationError, match=r"certificates.*match"):
            party.handle(b"x")
