"""A passive party's server: gRPC with mutual TLS in front of handlers that take and give bytes."""

from __future__ import annotations

import logging
import resource
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache, partial
from itertools import chain
from threading import Lock
from typing import Any, NoReturn, Protocol, TypeVar, runtime_checkable

from cryptography import x509

from gbdt_commons.files import is_out_of_room
from gbdt_kernels.compilation import is_compiling
from gbdt_parties.errors import PartyArgumentError, ProtocolError, places_of
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.secure_sum.trust import has_issued
from gbdt_parties.transport import streams
from gbdt_parties.transport.refusals import RefusalLog
from gbdt_parties.transport.remote import host_of, is_loopback
from gbdt_parties.transport.streams import RowSets, Watchdog, assemble, frames

logger = logging.getLogger(__name__)
T = TypeVar("T")
Request = tuple[RowSets, bytes]
MAX_REQUEST_BYTES = 64 << 20
"""Length of a request: gradients and masked ids come in far shorter pieces."""

SILENCE = 60.0
"""Seconds that a caller may take to send or to receive a frame before it is cut off.  Frames are of one
MiB, so this is a minimum rate."""

TRANSFER = 3600.0
"""Seconds that a whole request, or a whole answer, may be under way."""

HANDSHAKE = 10.0
"""Seconds within which a connection must show a certificate before it is closed."""

HEARTBEAT = 0.25
"""Seconds between signs of life while an answer is made."""

CALLS_EACH = 2
"""Requests of one caller (one entry of the allow-list) at the same time, from the first byte to the last of
the answer, or the end of the work on it; more are turned away.  The second is for a caller that lost its
connection and is back."""

LINGER = 600.0
"""Seconds that a call waits for its next request before it is ended.  One call of each caller may wait; it
keeps no other one from its place.  A server that was stopped for less, or had no processor time, still finds
a request that came meanwhile: callers use a call that has been idle for `MAX_IDLE` seconds at most, and wait
for an answer for `timeout`."""

MAX_CONNECTIONS = 10_000
"""Simultaneous connections from anyone; fewer if the process may open fewer files."""

IDLE = 600.0
"""Seconds without a call after which a connection is closed; the next call opens another one."""

SPARE_CALLS = 8
"""Further calls on one connection, which are being turned away."""

REFUSERS = 2
"""Threads beside those of the calls that are served. A refusal reads nothing and waits for no party, so these
are enough however many calls are refused; more would only take processor time from the calls served.
"""

NOBODY = Identity("anonymous", "", datetime.max.replace(tzinfo=timezone.utc))
"""The caller without TLS, which is possible from this machine only."""


class Callers:
    """Counts the calls under way for each caller, so that no caller takes another one's place."""

    def __init__(self, max_each: int) -> None:
        self._max_each = max_each
        self._lock = Lock()
        self._under_way: Counter[str] = Counter()

    def enter(self, name: str) -> bool:
        """Count one more call, unless there are as many as allowed."""
        with self._lock:
            if self._under_way[name] >= self._max_each:
                return False
            self._under_way[name] += 1
            return True

    def leave(self, name: str) -> None:
        """Count one call less."""
        with self._lock:
            self._under_way -= Counter({name: 1})  # which forgets the name at 0


class Service(Protocol):
    """Service that a server passes requests on to."""

    def handle(self, caller: Identity, row_sets: RowSets, request: bytes) -> bytes:
        """Answer a request."""


@runtime_checkable
class RecordingService(Protocol):
    """A service that also records the calls that the server refused without reading their requests."""

    def turned_away(self, caller: str, reason: str, count: int) -> None:
        """Record calls that were refused for one reason."""


class _Threads:
    """A pool of threads that can become larger; those there are do what they have begun."""

    def __init__(self, name: str) -> None:
        self._name, self._size, self._pool = name, 0, ThreadPoolExecutor(1)

    def grow(self, size: int) -> None:
        """Have at least so many threads for what comes from now on."""
        if size > self._size:
            former, self._size = self._pool, size
            self._pool = ThreadPoolExecutor(size, thread_name_prefix=self._name)
            former.shutdown(wait=False)

    def submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        """Have a thread do some work; grpc's servers need no more of a pool."""
        while True:
            pool = self._pool
            try:
                return pool.submit(work, *arguments)
            except RuntimeError:
                if pool is self._pool:
                    raise

    def close(self) -> None:
        """End the threads, and drop work that has not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Server:
    """Listens at an address ``host:port`` until stopped; port 0 is any that is free, and `port` the one
    taken.

    Without `tls` it is plaintext, which is for tests: only with `insecure`, only on a loopback address.
    `renew` replaces it by one of the same name, which the next handshake shows. Callers are `allowed` by
    common name, ``sha256:`` and the fingerprint of their certificate, or ``key-sha256:`` and that of their
    key.

    Every entry of the allow-list has threads of its own for `CALLS_EACH` requests, and one for a call that
    waits for its next request: there is no queue in which one could be in another one's way. A request that
    was given up holds its place until the work on it ends. Calls are not limited in total, since one on its
    way to refusal would then take the place of one that is served; a connection has at most `SPARE_CALLS`
    more than its caller may have.

    Raises PartyArgumentError for a malformed address, TLS without allowed callers, or plaintext where others
    could listen, AuthenticationError if the certificate is not valid now, and OSError if the address is
    taken.
    """

    def __init__(
        self,
        service: Service,
        address: str,
        tls: TLS | None,
        allowed: Sequence[str] = (),
        *,
        insecure: bool = False,
    ) -> None:
        import grpc

        if (tls is None) != insecure:
            raise PartyArgumentError(
                "tls=... is needed; insecure=True is for tests without it, never for both"
            )
        host = host_of(address)  # gRPC takes a port beyond the largest one for another
        if insecure and not is_loopback(host):
            raise PartyArgumentError(f"insecure=True is for loopback addresses only, not for {address!r}")
        if tls is not None and not allowed:
            raise PartyArgumentError("allowed=() admits no caller; name the active parties' certificates")
        if tls is not None:
            tls.check_dates()
        self._service, self._allowed, self._insecure = service, tuple(allowed), insecure
        self.tls = self._shown = tls
        self._former: tuple[bytes, ...] = ()
        self._callers = Callers(CALLS_EACH)
        self._readers: set[str] = set()
        self.refusals = RefusalLog(logger, record=self._record_refusal)
        self.waiting: set[Any] = set()
        self._may_wait, self._waiting_lock = True, Lock()
        self._workers, self._threads = _Threads("xgb_fed_work"), _Threads("xgb_fed_serve")
        self._make_threads()
        self._server = grpc.server(
            self._threads,
            handlers=[self._methods()],
            options=[
                *streams.OPTIONS,
                ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
                ("grpc.http2.max_ping_strikes", 0),
                ("grpc.max_concurrent_streams", CALLS_EACH + SPARE_CALLS),
                ("grpc.max_connection_idle_ms", int(1000 * IDLE)),
                ("grpc.server_handshake_timeout_ms", int(1000 * HANDSHAKE)),
                ("grpc.max_allowed_incoming_connections", max_connections()),
            ],
        )
        try:
            if tls is None:
                self.port = self._server.add_insecure_port(address)
            else:
                credentials = grpc.dynamic_ssl_server_credentials(
                    _configuration(tls), self._certificates, require_client_authentication=True
                )
                self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen at {address}: {error}") from None
        self._server.start()

    def _certificates(self) -> Any:
        """Certificates that the next handshake shows and trusts; None if they are those of the last one."""
        tls = self.tls
        if tls is self._shown or tls is None:
            return None
        self._shown = tls
        return _configuration(tls)

    def renew(self, tls: TLS) -> None:
        """Show and trust other certificates from the next handshake, and the next request, on."""
        if self.tls is not None and self.tls.authority not in self._former:
            self._former += (self.tls.authority,)
        self.tls = tls

    def _make_threads(self) -> None:
        """Have threads for all callers, and for those who are being refused."""
        n_callers = max(1, len(self._allowed))
        self._workers.grow((CALLS_EACH + 1) * n_callers)
        self._threads.grow(CALLS_EACH * n_callers + n_callers + REFUSERS)

    def allow(self, allowed: Sequence[str]) -> None:
        """Have another allow-list, which counts from the next request on, also of calls under way."""
        self._allowed = tuple(allowed)
        self._make_threads()
        with self._waiting_lock:
            waiting = list(self.waiting)
        for context in waiting:
            # The threads are those of the callers that are allowed.
            if _identity_of(_certificate_of(context)).known_as(allowed) is None:
                context.cancel()

    def _record_refusal(self, who: str, reason: str, count: int) -> None:
        # A call is refused with the same words whether or not there is room to record it.
        with suppress(OSError):
            if isinstance(self._service, RecordingService):
                self._service.turned_away(who, reason, count)

    def _methods(self) -> Any:
        import grpc

        service, method = streams.METHOD
        handler = grpc.stream_stream_rpc_method_handler(self.exchange)
        return grpc.method_handlers_generic_handler(service, {method: handler})

    def wait(self, seconds: float | None = None) -> bool:
        """Return when stopped, or after some time; whether it still listens."""
        return bool(self._server.wait_for_termination(seconds))

    def stop(self, grace: float = 0.0) -> None:
        """Take no more calls, and let those under way finish for some seconds."""
        stopped = self._server.stop(grace)
        with self._waiting_lock:
            self._may_wait = False
            waiting = list(self.waiting)
        for context in waiting:
            context.cancel()
        stopped.wait()
        self._workers.close()
        self.refusals.close()

    def exchange(self, received: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """The requests of a call, each answered in turn; while one is, the next one comes in."""
        take: Callable[[], Request] = partial(_assembled, received, context)
        has_more = True
        while has_more:
            # Each time: a connection may outlive a certificate.
            caller = self._authenticated(context)
            ahead = _Ahead(received, context)
            yield from self._served(take, ahead, caller, context)
            take, has_more = ahead.take, self.has_next(ahead, context)

    def has_next(self, ahead: _Ahead, context: Any) -> bool:
        """Wait until the first frame of a call's next request is there; whether it came.

        A call that ends has worked on no request that it has not answered: its caller can send one again.
        """
        with self._waiting_lock:
            if not self._may_wait or ahead.request is None:
                return False
            self.waiting.add(context)
        try:
            with Watchdog(LINGER, context.cancel):
                return ahead.has_begun.result()
        finally:
            with self._waiting_lock:
                self.waiting.discard(context)

    def _served(
        self, take: Callable[[], Request], ahead: _Ahead, caller: Identity, context: Any
    ) -> Iterator[bytes]:
        """The answer to one request; the next one may come in meanwhile."""
        if not self._callers.enter(caller.name):
            reason = f"{CALLS_EACH} requests of {caller.name!r} are under way"
            self.refusals.add(caller.name, reason)
            refuse(context, "RESOURCE_EXHAUSTED", reason)
        work: Future[bytes] | None = None
        try:
            # In one expression: the request lives as long as the work on it, not as the call.
            work = self._workers.submit(self._service.handle, caller, *self._received(take, caller, context))
            # For one call of a caller at a time; another one ends, and the caller sends again what is left.
            with self._waiting_lock:
                is_alone = caller.name not in self._readers
                self._readers.add(caller.name)
            if is_alone:
                ahead.request = self._workers.submit(ahead.read)
                ahead.request.add_done_callback(lambda _: self._readers.discard(caller.name))
            yield from self._answered(work, caller, context)
        finally:
            # Also when the call was given up: grpc drops this generator then.
            if work is None:
                self._callers.leave(caller.name)
            else:
                work.cancel()
                work.add_done_callback(lambda _: self._callers.leave(caller.name))

    def _received(self, take: Callable[[], Request], caller: Identity, context: Any) -> Request:
        try:
            return take()
        except ProtocolError as error:
            self.refusals.add(caller.name, str(error))
            refuse(context, "INVALID_ARGUMENT", str(error))

    def _answered(self, work: Future[bytes], caller: Identity, context: Any) -> Iterator[bytes]:
        """Signs of life, then the answer; a caller that does not take them is cut off."""
        with Watchdog(SILENCE, context.cancel) as dog:
            while not _has_ended(work, HEARTBEAT):
                yield streams.COMPILING if is_compiling() else b""
                dog.feed()
        try:
            answer = work.result()
        except OSError as error:
            if not is_out_of_room(error):
                self._failed(error, caller, context)
            logger.error("a request of %s has to wait: %s", caller.name, error.strerror)
            refuse(context, "UNAVAILABLE", "the party is out of resources for now; its log names them")
        except Exception as error:
            self._failed(error, caller, context)
        with Watchdog(SILENCE, context.cancel, TRANSFER) as dog:
            for frame in frames(answer):
                yield frame
                dog.feed()

    def _failed(self, error: Exception, caller: Identity, context: Any) -> NoReturn:
        logger.error("a request of %s failed: %s", caller.name, places_of(error))
        refuse(context, "ABORTED", "the party failed to answer; its log says why")

    def _authenticated(self, context: Any) -> Identity:
        if self._insecure:
            return NOBODY
        try:
            caller = _identity_of(_certificate_of(context))
        except ValueError as error:
            refuse(context, "UNAUTHENTICATED", str(error))
        # The handshake checked this too.
        if caller.expires < datetime.now(timezone.utc):
            self.refusals.add(caller.name, "the certificate has expired")
            refuse(context, "UNAUTHENTICATED", "the certificate has expired")
        if self.tls is not None and _is_left(_certificate_of(context), self.tls.authority, self._former):
            self.refusals.add(caller.name, "its authority is not trusted any more")
            refuse(context, "UNAUTHENTICATED", "the certificate's authority is not trusted any more")
        name = caller.known_as(self._allowed)
        if name is None:
            self.refusals.add(f"{caller.name} (sha256:{caller.fingerprint})", "not on the allow-list")
            refuse(context, "PERMISSION_DENIED", f"{caller.name!r} is not an allowed active party")
        return replace(caller, name=name)


class _Ahead:
    """A call's next request; `has_begun` says, once it is known, whether its first frame came."""

    def __init__(self, received: Iterator[bytes], context: Any) -> None:
        self._received, self._context = received, context
        self.has_begun: Future[bool] = Future()
        self.request: Future[Request] | None = None

    def read(self) -> Request:
        """Read it; a ProtocolError if there is none."""
        import grpc

        first = None
        try:
            with suppress(grpc.RpcError):
                first = next(self._received, None)
        finally:
            self.has_begun.set_result(first is not None)
        return _assembled(chain(() if first is None else (first,), self._received), self._context)

    def take(self) -> Request:
        """Wait for it; it is not held any more."""
        request, self.request = self.request, None
        assert request is not None
        return request.result()


def _assembled(received: Iterator[bytes], context: Any) -> Request:
    """A request whose frames come fast enough."""
    with Watchdog(SILENCE, context.cancel, TRANSFER) as dog:
        request, row_sets = assemble(received, MAX_REQUEST_BYTES, dog.feed, heartbeats=False)
    return row_sets, request  # type: ignore[return-value]  # a view of bytes that only the caller has


def _configuration(tls: TLS) -> Any:
    """Certificates of a handshake, as gRPC takes them."""
    import grpc

    return grpc.ssl_server_certificate_configuration([(tls.key, tls.certificate)], tls.authority)


def _certificate_of(context: Any) -> bytes:
    """The certificate that the caller of a call has shown; empty without."""
    return bytes(context.auth_context().get("x509_pem_cert", [b""])[0])


@lru_cache(maxsize=64)
def _identity_of(certificate: bytes) -> Identity:
    """Parsed once and not at every call: a refused caller should cost little."""
    return Identity.of(certificate)


@lru_cache(maxsize=64)
def _is_left(certificate: bytes, authority: bytes, former: tuple[bytes, ...]) -> bool:
    """Whether a connection may be left over from an authority that was trusted, and is not any more.

    gRPC tells no certificates between, so that those of callers must be the authorities' own once one was
    removed, until the next start.
    """
    now, *before = (set(x509.load_pem_x509_certificates(pem)) for pem in (authority, *former))
    own = x509.load_pem_x509_certificate(certificate)
    return any(one - now for one in before) and not any(has_issued(one, own) for one in now)


def _has_ended(work: Future[bytes], seconds: float) -> bool:
    """Wait for the end of some work; whether it has come."""
    try:
        work.exception(seconds)
    except TimeoutError:
        return False
    return True


def raise_descriptor_limit() -> None:
    """Let this process open as many files and connections as the system allows it to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems allow less than they say.
    with suppress(ValueError, OSError):
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def max_connections() -> int:
    """Half of the descriptors that this process may open: connections leave some for files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, soft // 2)


def refuse(context: Any, code: str, reason: str) -> NoReturn:
    """End a call with a status code of gRPC."""
    import grpc

    context.abort(grpc.StatusCode[code], reason)
    raise AssertionError("abort raises")
