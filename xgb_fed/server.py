"""A passive party's server: gRPC with mutual TLS in front of handlers that take and give bytes."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from datetime import datetime, timezone
from typing import Any, NoReturn, Protocol

from xgb_fed import streams
from xgb_fed.certificates import TLS, Identity
from xgb_fed.errors import ProtocolError
from xgb_fed.party import Party
from xgb_fed.remote import host_of, is_loopback
from xgb_fed.streams import RowSets, Watchdog, assemble, frames

logger = logging.getLogger("xgb_fed.server")

MOST_REQUEST_BYTES = 256 << 20
"""A request's longest: gradients come in pieces far shorter, ids of an alignment of a million rows fit."""

SILENCE = 60.0
"""Seconds after which a caller that stopped sending in the middle of a request is cut off."""

HEARTBEAT = 0.25
"""Seconds between signs of life while an answer is made."""

MOST_CALLS = 8
"""Requests at the same time; more are turned away."""

NOBODY = Identity("anonymous", "", datetime.max.replace(tzinfo=timezone.utc))
"""Who calls without TLS, which only this machine can."""


class Service(Protocol):
    """What a server serves."""

    def handle(self, caller: Identity, row_sets: RowSets, request: bytes) -> bytes:
        """Answer a request."""


class OneParty:
    """Serves one party to whoever is allowed to call: a `HorizontalParty`, whose coordinator is one caller.

    Parameters
    ----------
    party : Party
    """

    def __init__(self, party: Party) -> None:
        self._party = party

    def handle(self, caller: Identity, row_sets: RowSets, request: bytes) -> bytes:
        """Answer a request; row sets mean nothing to such a party."""
        return self._party.handle(request)


class Server:
    """Listens until stopped.

    Parameters
    ----------
    service : Service
    address : str
        ``host:port``; port 0 for any that is free.
    tls : TLS or None
        None is plaintext, which is for tests: only with `insecure`, only on a loopback address.
    allowed : sequence of str
        Callers by common name or ``sha256:`` and the fingerprint of their certificate.
    insecure : bool

    Attributes
    ----------
    port : int
        Where it listens.

    Raises
    ------
    ValueError
        For a malformed address, TLS without allowed callers, or plaintext where others could listen.
    OSError
        If the address is taken.
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
            raise ValueError("tls=... is needed; insecure=True is for tests without it, never for both")
        if insecure and not is_loopback(host_of(address)):
            raise ValueError(f"insecure=True is for loopback addresses only, not for {address!r}")
        if tls is not None and not allowed:
            raise ValueError("allowed=() would let nobody in; name the active parties' certificates")
        self._service, self._allowed, self._insecure = service, tuple(allowed), insecure
        self._workers = ThreadPoolExecutor(MOST_CALLS, thread_name_prefix="xgb_fed_work")
        self._server = grpc.server(
            ThreadPoolExecutor(MOST_CALLS, thread_name_prefix="xgb_fed_serve"),
            handlers=[self._methods()],
            options=[
                *streams.OPTIONS,
                ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
                ("grpc.http2.max_ping_strikes", 0),
            ],
            maximum_concurrent_rpcs=MOST_CALLS,
        )
        try:
            if tls is None:
                self.port = self._server.add_insecure_port(address)
            else:
                credentials = grpc.ssl_server_credentials(
                    [(tls.key, tls.certificate)], tls.authority, require_client_auth=True
                )
                self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen at {address}: {error}") from None
        self._server.start()

    def _methods(self) -> Any:
        import grpc

        service, method = streams.METHOD
        handler = grpc.stream_stream_rpc_method_handler(self._exchange)
        return grpc.method_handlers_generic_handler(service, {method: handler})

    def wait(self, seconds: float | None = None) -> None:
        """Return when stopped, or after some time."""
        self._server.wait_for_termination(seconds)

    def stop(self, grace: float = 0.0) -> None:
        """Take no more calls, and let those under way finish for some seconds."""
        self._server.stop(grace).wait()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _exchange(self, received: Iterator[bytes], context: Any) -> Iterator[bytes]:
        caller = self._authenticated(context)
        try:
            with Watchdog(SILENCE, context.cancel) as dog:
                request, row_sets = assemble(received, MOST_REQUEST_BYTES, dog.feed)
        except ProtocolError as error:
            logger.warning("a request of %s was refused: %s", caller.name, error)
            _refuse(context, "INVALID_ARGUMENT", str(error))
        work = self._workers.submit(self._service.handle, caller, row_sets, request)  # type: ignore[arg-type]
        del request
        while True:
            try:
                answer = work.result(timeout=HEARTBEAT)
                break
            except NotYet:
                yield b""
            except Exception as error:
                # Where, but not the error's own text, which may quote data.
                where = [f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
                logger.error("a request of %s failed: %s at %s", caller.name, type(error).__name__, where)
                _refuse(context, "ABORTED", "the party failed to answer; its log says why")
        yield from frames(answer)

    def _authenticated(self, context: Any) -> Identity:
        if self._insecure:
            return NOBODY
        certificate = context.auth_context().get("x509_pem_cert", [b""])[0]
        try:
            caller = Identity.of(certificate)
        except ValueError as error:
            _refuse(context, "UNAUTHENTICATED", str(error))
        # The handshake checked this too, but a connection may outlive a certificate.
        if caller.expires < datetime.now(timezone.utc):
            _refuse(context, "UNAUTHENTICATED", "the certificate has expired")
        if not any(caller.matches(entry) for entry in self._allowed):
            logger.warning("%s (sha256:%s) is not allowed", caller.name, caller.fingerprint)
            _refuse(context, "PERMISSION_DENIED", f"{caller.name!r} is not an allowed active party")
        return caller


def _refuse(context: Any, code: str, reason: str) -> NoReturn:
    import grpc

    context.abort(grpc.StatusCode[code], reason)
    raise AssertionError("abort raises")
