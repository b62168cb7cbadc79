"""A passive party on another machine, over gRPC with mutual TLS."""

from __future__ import annotations

import ipaddress
import logging
import re
import ssl
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import chain
from math import inf
from pathlib import Path
from queue import SimpleQueue
from threading import Condition
from time import monotonic
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.serialization import Encoding

from gbdt_commons.quoting import quoted, shown
from gbdt_parties.errors import (
    AuthenticationError,
    PartyArgumentError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
)
from gbdt_parties.identity.certificates import TLS, Identity, out_of_date
from gbdt_parties.messages import Parts
from gbdt_parties.secure_sum.trust import AllowList
from gbdt_parties.transport import streams
from gbdt_parties.transport.own_certificate import SECONDS, context_of, is_refused, shown_certificate
from gbdt_parties.transport.streams import RowSets, Watchdog, assemble, frames

if TYPE_CHECKING:
    import grpc

logger = logging.getLogger(__name__)
MAX_ANSWER_BYTES = 2 << 30
"""Length of an answer: encrypted statistics of a level with half a million candidates fit."""

DEADLINE = 3600.0
"""Seconds that one answer may take, even if the party keeps showing signs of life."""

MAX_CONNECTION_AGE = 300.0
"""Seconds after which the next request is sent over a new connection, for which the server shows its
certificate again.  gRPC does not tell a caller when the one it has seen expires."""

MAX_IDLE = 5.0
"""Seconds without a request after which a call is not used again: the server may be about to end it."""

_RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Also the time that a connection may take to be made: TLS over a slow link, or with a busy server.
    ("grpc.min_reconnect_backoff_ms", 3000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A request sent twice would be a replay.
    ("grpc.enable_retries", 0),
]
_NOT_TRUSTED = (
    "tsi_protocol_failure",
    "ssl_error_ssl",
    "verification check failed",
    "not in peer certificate",  # in gRPC 1.64
)
"""In words of gRPC and BoringSSL; a handshake that a dying server cuts off is none of these."""


class RemoteParty:
    """A passive party behind a server (``veilboost serve``); speaks the same bytes as `LocalParty`.

    Parameters
    ----------
    address : str
        ``host:port``.
    tls : TLS or path
        This party's certificates, or their folder.
    name : str, optional
        The party's name in models, which its certificate must be for, wherever a tunnel or a load balancer at
        the address leads (`TLS.server_name` is for certificates with another name).  By default the address,
        whose host the certificate must then be for.  Unique among the parties.
    timeout : float
        Seconds of silence after which the party is unavailable.  A server at work shows a sign of life
        several times a second, however long the work takes.
    row_sets : sequence of bytes
        Alignments (`Alignment.digest`) of the rows to train on or to predict, then of each evaluation set;
        none for all rows of the party's file in its order.
    insecure : bool
        Whether to connect without TLS, for tests; to this machine only.
    connection : ServerConnection, optional
        That of another object to the same server, which both use in turn; a new one by default.
    allowed : sequence of str, optional
        Certificates that the server may show: ``sha256:`` and a fingerprint.  Nothing is sent to one with
        another.  By default any that the authority gives the name will do.

    Raises
    ------
    PartyArgumentError
        For a malformed address, missing certificates, an insecure connection to another machine, or one with
        `allowed`, or a name in there.
    ImportError
        Without ``grpcio``, the extra ``veilboost[remote]``.
    """

    takes_parts = True
    """See `channel.Party`."""

    def __init__(
        self,
        address: str,
        tls: TLS | str | Path | None = None,
        name: str | None = None,
        timeout: float = 30.0,
        *,
        row_sets: Sequence[bytes] = (),
        insecure: bool = False,
        connection: ServerConnection | None = None,
        allowed: Sequence[str] | None = None,
    ) -> None:
        host_of(address)
        expected, name = name, address if name is None else name
        if not isinstance(name, str) or not name or name == "active" or not name.isprintable():
            raise PartyArgumentError(f"name={name!r} must be a printable text other than 'active'")
        if not timeout > 0:
            raise PartyArgumentError(f"timeout={timeout} must be above 0 seconds")
        if any(len(digest) != streams.ROW_SET_BYTES for digest in row_sets):
            raise PartyArgumentError(f"row_sets must be digests of {streams.ROW_SET_BYTES} bytes")
        self.address, self.name, self.timeout = address, name, timeout
        self._row_sets: RowSets = tuple(row_sets)
        self.connection: ServerConnection | None = connection
        if connection is None:
            self.connection = ServerConnection(address, _checked_tls(address, tls, insecure), expected)
        if allowed is not None:
            self.accept_only(AllowList(allowed))

    def __getstate__(self) -> dict[str, Any]:
        """Where it is; neither the connection nor the key."""
        kept = ("address", "name", "timeout", "_row_sets")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy without key has no connection."""
        self.__dict__.update(state)
        self.connection = None

    def __repr__(self) -> str:
        """Name and address."""
        return f"RemoteParty({self.address!r}, name={self.name!r})"

    @property
    def row_sets(self) -> tuple[bytes, ...]:
        """Alignments of the rows to train on or to predict, then of each evaluation set."""
        return self._row_sets

    @property
    def own_fingerprint(self) -> str:
        """SHA-256 of the certificate that this side shows, 64 hexadecimal digits; empty without TLS."""
        return "" if self.connection is None else self.connection.own_fingerprint

    @property
    def has_allow_list(self) -> bool:
        """Whether the server is known by more than the name that the authority gives it, or is here."""
        return self.connection is None or self.connection.tls is None or bool(self.connection.allowed)

    def accept_only(self, allowed: AllowList) -> None:
        """Send nothing from now on to a server whose certificate is not on a list, besides those before."""
        self._used().accept_only(allowed)

    def with_rows(self, *row_sets: bytes) -> RemoteParty:
        """The same party, asked about other rows over the same connection.

        Parameters
        ----------
        *row_sets : bytes
            Digests of alignments: of the rows to train on or to predict, then of each evaluation set.

        Returns
        -------
        RemoteParty

        Raises
        ------
        PartyUnavailableError
            If this one is a copy, which has no key.
        """
        return RemoteParty(
            self.address, None, self.name, self.timeout, row_sets=row_sets, connection=self._used()
        )

    def _used(self) -> ServerConnection:
        if self.connection is None:
            raise PartyUnavailableError(
                f"party {self.name!r}: a copied RemoteParty has no key; make a new one"
            )
        return self.connection

    def close(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            self.connection.close()

    @property
    def live_call(self) -> Any:
        """The call of the exchanges that are under way; None if none is."""
        under_way = () if self.connection is None else tuple(self.connection.under_way)
        return next((one.call.rpc for one in under_way if one.party is self), None)

    def interrupt(self) -> None:
        """Give up the exchanges that are under way, if any, from another thread."""
        call = self.live_call
        if call is not None:
            call.cancel()

    def handle(self, request: bytes | Parts) -> bytes:
        """Send a request, wait for the answer; errors are those of `begin` and of what it gives."""
        return self._begun(request, None)()

    def begin(self, request: bytes | Parts) -> Callable[[], bytes]:
        """Send a request, also behind others of this party that are not answered yet.

        Parameters
        ----------
        request : bytes or Parts
            A message of the wire protocol, or the making of its parts.

        Returns
        -------
        callable
            Waits for the answer, of the caller alone; it must be called once, and soon: answers come in the
            order of the requests, and other parties on the connection wait for all of them.

        Raises
        ------
        PartyUnavailableError
            Within `timeout` seconds of the last sign of life.
        AuthenticationError
            If certificates do not match, or this side's own has expired.
        PartyRefusedError, ProtocolError
            If the server refuses the request, or its answer is not a message.
        """
        return self._begun(request, self)

    def _begun(self, request: bytes | Parts, behind: RemoteParty | None) -> Callable[[], bytes]:
        connection = self._used()
        wrong = connection.out_of_date()
        if wrong:
            raise AuthenticationError(
                f"this side's certificate {wrong}; party {self.name!r} at {self.address} was not asked"
            )
        with self._naming():
            sent = connection.send(Sent(self, request), behind)
        return partial(self._answered, connection, sent)

    def _answered(self, connection: ServerConnection, sent: Sent) -> bytes:
        """The answer to a request, once those to all before are there."""
        import grpc

        with connection.turn_of(sent), Watchdog(self.timeout, self.interrupt, DEADLINE) as dog:
            sent.feed = dog.feed
            try:
                while (answer := self._answer(sent)) is None:
                    with self._naming():
                        connection.send_again(sent)
                    if dog.fired:
                        # While there was no call to be given up; it does not fire again.
                        sent.call.end()
            except grpc.RpcError as error:
                if sent.call.failure is not None:
                    # The making of a part failed: the party has nothing to do with it.
                    raise sent.call.failure from None
                raise self._explained(error, dog, connection) from None
            except ProtocolError as error:
                raise ProtocolError(f"party {self.name!r}: {error}") from None
            sent.is_answered = True
            return answer  # type: ignore[return-value]  # a view of bytes that only the caller has

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Name the party in errors of its connection."""
        who = f"party {self.name!r} at {self.address}"
        try:
            yield
        except AuthenticationError as error:
            raise AuthenticationError(f"{who} was not asked: {error}") from None
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationError(f"{who}: certificates do not match: {error.verify_message}") from None
        except (OSError, ValueError) as error:
            raise PartyUnavailableError(f"{who} is unavailable: {quoted(str(error))}") from None

    def _answer(self, sent: Sent) -> memoryview | None:
        """The answer to a request; None if the server had ended a kept call, and has not worked on it."""
        first = next(sent.call.rpc, None)
        if first is None and sent.call.is_kept:
            return None
        answer, _ = assemble(
            chain(() if first is None else (first,), sent.call.rpc),
            MAX_ANSWER_BYTES,
            sent.feed,
            heartbeats=True,
            compiling=self._say_compiling,
        )
        return answer

    def _say_compiling(self) -> None:
        """Log, once for each connection, why an answer takes long."""
        if self.connection is not None and not self.connection.has_compiled:
            self.connection.has_compiled = True
            logger.info("party %r compiles kernels for its machine (once; it keeps them)", self.name)

    def _explained(self, error: grpc.RpcError, dog: Watchdog, connection: ServerConnection) -> Exception:
        import grpc

        code, details = error.code(), error.details() or ""
        who = f"party {self.name!r} at {self.address}"
        if dog.fired and dog.is_over:
            return PartyUnavailableError(f"{who} has not answered in {DEADLINE:g} s")
        if dog.fired:
            return PartyUnavailableError(f"{who} has been silent for {self.timeout:g} s")
        if code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
            return AuthenticationError(f"{who} refuses: {quoted(details)}")
        if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ABORTED):
            return PartyRefusedError(f"{who} refuses: {quoted(details)}")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return ProtocolError(f"{who} is not a server of this protocol")
        if any(word in details.lower() for word in _NOT_TRUSTED):
            return AuthenticationError(f"{who}: certificates do not match: {_reason(details)}")
        if code is grpc.StatusCode.UNAVAILABLE and connection.is_refused(self.timeout):
            return AuthenticationError(
                f"{who} ends connections with this side's certificate: it trusts another authority, or the "
                "certificate has expired by its clock"
            )
        return PartyUnavailableError(f"{who} is unavailable: {_reason(details)} ({code.name.lower()})")


def _renewed(tls: TLS) -> TLS:
    """The certificate in this side's folder now, or the former one while that cannot be used."""
    with suppress(PartyArgumentError):
        return tls.renewed()
    return tls


def _checked_tls(address: str, tls: TLS | str | Path | None, insecure: bool) -> TLS | None:
    """Credentials for an address; None for this machine, if that was asked for."""
    if isinstance(tls, (str, Path)):
        tls = TLS.from_directory(tls)
    if (tls is None) != insecure:
        raise PartyArgumentError("tls=... is needed; insecure=True is for tests without it, never for both")
    if insecure and not is_loopback(host_of(address)):
        raise PartyArgumentError(f"insecure=True is for this machine only, not for {address!r}")
    return tls


class ServerConnection:
    """A connection to a server, made again when it has become old.

    `expected` is the name that the server's certificate must be for, if not that of the address; it must be
    on all lists `allowed`. Requests `under_way` are those of one of the parties that share the connection.
    `has_compiled` says whether the server was seen to compile. The `channel` is made with the first call.
    """

    def __init__(self, address: str, tls: TLS | None, expected: str | None) -> None:
        import_module("grpc")  # which must be there before a run begins
        self._address, self.tls, self._expected = address, tls, expected
        self.under_way: deque[Sent] = deque()
        self._changed = Condition()
        self.has_compiled = False
        self.allowed: tuple[AllowList, ...] = ()
        self.channel: Any = None
        self._made_at = 0.0
        self._exchange: Any = None
        self._kept: KeptCall | None = None

    def accept_only(self, allowed: AllowList) -> None:
        """Make the connection again, to a server that is on one more list."""
        if self.tls is None:
            raise PartyArgumentError("allowed=... needs tls=...: without it, the server shows no certificate")
        with self._changed:
            self._changed.wait_for(lambda: not self.under_way)
            if allowed.entries is not None and allowed not in self.allowed:
                self.close()
                self.allowed += (allowed,)

    def _where(self, tls: TLS) -> tuple[str, int, str]:
        """Host, port, and the name that the certificate must be for."""
        host = host_of(self._address)
        expected = tls.server_name or self._expected or host
        return host, int(self._address.rpartition(":")[2]), expected

    def _trusted(self, tls: TLS, seconds: float) -> bytes:
        """Trusted certificates: the server's own alone, where it must be one of a list.

        It is read in a handshake that sends nothing else, as the authorities vouch for it; the connection is
        to whoever has its key, and to no other one to which they give the name.
        """
        if not self.allowed:
            return tls.authority
        context = context_of(tls, ssl.TLSVersion.TLSv1_3)
        certificate = shown_certificate(*self._where(tls), context, seconds).public_bytes(Encoding.PEM)
        for one in self.allowed:
            one.check_holder(Identity.of(certificate))
        return certificate

    def _open(self, seconds: float) -> None:
        import grpc

        options: list[tuple[str, Any]] = [*streams.OPTIONS, *_RECONNECT]
        # Otherwise a new channel would share the connection of the old one.
        options.append(("grpc.use_local_subchannel_pool", 1))
        # As certificates are read; for plaintext, a proxy would be another machine.
        options.append(("grpc.enable_http_proxy", 0))
        tls = self.tls = None if self.tls is None else _renewed(self.tls)
        if tls is None:
            channel = grpc.insecure_channel(self._address, options)
        else:
            expected = tls.server_name or self._expected
            if expected is not None:
                options.append(("grpc.ssl_target_name_override", expected))
            trusted = self._trusted(tls, seconds)
            credentials = grpc.ssl_channel_credentials(trusted, tls.key, tls.certificate)
            channel = grpc.secure_channel(self._address, credentials, options)
        self.channel, self._made_at = channel, monotonic()
        self._exchange = channel.stream_stream("/" + "/".join(streams.METHOD))

    @property
    def own_fingerprint(self) -> str:
        """See `RemoteParty`."""
        return "" if self.tls is None else Identity.of(self.tls.certificate).fingerprint

    def call(self, seconds: float) -> KeptCall:
        """The call that is kept, or a new one, on a connection that is not too old; none may be in use.

        For so many `seconds` the server may be silent before its certificate is known.
        """
        kept, self._kept = self._kept, None
        if self.channel is None or monotonic() - self._made_at > MAX_CONNECTION_AGE:
            self.close()
            self._open(seconds)
        elif kept is not None and kept.is_usable:
            return kept
        if kept is not None:
            kept.end()
        return KeptCall(self._exchange)

    def send(self, sent: Sent, behind: RemoteParty | None) -> Sent:
        """Send a request, behind those of a party, or once none is under way."""
        with self._changed:
            self._changed.wait_for(lambda: not self.under_way or self.under_way[0].party is behind)
            sent.leave_by(self.under_way[-1].call if self.under_way else self.call(sent.party.timeout))
            self.under_way.append(sent)
        return sent

    def send_again(self, sent: Sent) -> None:
        """Send a request by another call; those behind it follow in their turn."""
        with self._changed:
            self._kept = None if self._kept is sent.call else self._kept
            sent.leave_by(self.call(sent.party.timeout))

    @contextmanager
    def turn_of(self, sent: Sent) -> Iterator[None]:
        """Wait until those before have been answered; the next one's turn is after it."""
        try:
            with self._changed:
                self._changed.wait_for(lambda: self.under_way[0] is sent)
            yield
        finally:
            with self._changed:
                self.under_way.remove(sent)
                if not sent.is_answered:
                    sent.call.end()
                else:
                    sent.call.is_kept, sent.call.used_at = True, monotonic()
                    self._kept = sent.call
                self._changed.notify_all()

    def out_of_date(self) -> str:
        """Faults in the dates of this side's certificates; empty if nothing, or if renewed meanwhile."""
        if self.tls is None or not out_of_date(self.tls.certificate):
            return ""
        before, self.tls = self.tls, _renewed(self.tls)
        if self.tls is not before:
            self._made_at = -inf  # the next call makes the connection again
        return out_of_date(self.tls.certificate)

    def is_refused(self, timeout: float) -> bool:
        """Whether the server ends connections with this side's certificate, which gRPC does not tell."""
        return self.tls is not None and is_refused(*self._where(self.tls), self.tls, min(SECONDS, timeout))

    def close(self) -> None:
        """Close it; the next call makes it again."""
        channel, self.channel, self._kept = self.channel, None, None
        if channel is not None:
            channel.close()


@dataclass(eq=False)
class Sent:
    """A request of a party that is under way."""

    party: RemoteParty
    request: bytes | Parts = field(repr=False)
    is_answered: bool = False
    feed: Callable[[], None] = lambda: None
    call: Any = None

    def leave_by(self, call: KeptCall) -> None:
        """Send it by a call, behind what was sent before."""
        self.call = call
        call.send(frames(self.request, self.party.row_sets, lambda: self.feed()))


class KeptCall:
    """A call by a `method` of gRPC, in which requests and their answers follow each other.

    `rpc` gives the frames of the answers; `is_kept` says whether a request of it was answered, `used_at` when
    the last answer came (`time.monotonic`), and `failure` has the error in the making of a request, which
    gRPC hides.
    """

    def __init__(self, method: Any) -> None:
        self.is_kept, self.used_at = False, 0.0
        self.failure: Exception | None = None
        self._requests: SimpleQueue[Generator[bytes, None, bool] | None] = SimpleQueue()
        self.rpc = method(self._frames())
        # The thread that takes frames waits for the next request: it ends with the call.
        self.rpc.add_done_callback(lambda _: self._requests.put(None))

    @property
    def is_usable(self) -> bool:
        """Whether the server takes another request, as far as is known."""
        return not self.rpc.done() and monotonic() - self.used_at < MAX_IDLE

    def send(self, request: Generator[bytes, None, bool]) -> None:
        """Send the frames of a request."""
        self._requests.put(request)

    def end(self) -> None:
        """End the call, answered or not: what was sent behind is not sent again."""
        self.is_kept = False
        self.rpc.cancel()

    def _frames(self) -> Iterator[bytes]:
        """The frames of all requests; of one that was given up, none follow."""
        try:
            while (request := self._requests.get()) is not None and (yield from request):
                pass
        except Exception as error:
            self.failure = error
            raise


def _reason(details: str) -> str:
    """The last words, which are the cause; of TLS errors, BoringSSL's own."""
    _, found, tls = details.partition("OPENSSL_internal:")
    return quoted((tls.split(":")[0] if found else details.split(": ")[-1]).strip())


def host_of(address: str) -> str:
    """The host of ``host:port``; raises PartyArgumentError if it is not such a text."""
    found = re.fullmatch("(.+):([0-9]{1,5})", str(address))
    if found is None or int(found[2]) >= 1 << 16:
        raise PartyArgumentError(f"address={shown(address)} must be host:port, with a port up to 65535")
    return found[1].strip("[]")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its address or the name localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
