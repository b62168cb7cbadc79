"""Why a server does not talk to this side: its certificate has expired, or the server does not accept it.

gRPC servers close the connection in both cases, and gRPC's callers see a closed socket, as of a server that
was killed.  The first can be seen beforehand; the second in what a server does with a connection that it
accepts, which is to speak first.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone

from cryptography import x509

from gbdt_parties.identity.certificates import TLS

N_PROBES = 2
"""Connections that a server must all treat alike: one alone may have been cut off by its end."""

SECONDS = 2.0
"""Silence of a server after which a probe ends."""

_MAX_PEM = 1 << 15
"""Bytes of certificates, or of a key, that a pipe surely holds."""

_ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")


def out_of_date(certificates: bytes) -> str:
    """What is wrong with the dates of PEM certificates, each of which must be valid now; empty if nothing."""
    now = datetime.now(timezone.utc)
    for one in x509.load_pem_x509_certificates(certificates):
        if one.not_valid_after_utc < now:
            return f"expired at {one.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        if one.not_valid_before_utc > now:
            return f"is not valid before {one.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    return ""


def is_refused(host: str, port: int, expected: str, tls: TLS, seconds: float = SECONDS) -> bool:
    """Whether a server of the expected name takes connections, and ends those with this side's certificate.

    False if that cannot be found out.

    Parameters
    ----------
    host : str
    port : int
    expected : str
        The name that the server's certificate must be for.
    tls : TLS
    seconds : float
        That a server may be silent.
    """
    try:
        context = _context(tls)
        return all(_is_ended(host, port, expected, context, seconds) for _ in range(N_PROBES))
    except (OSError, ValueError):
        # The server cannot be reached, or is another one.
        return False


def _is_ended(host: str, port: int, expected: str, context: ssl.SSLContext, seconds: float) -> bool:
    """Whether the server ends a connection after the handshake, before it has said anything.

    In TLS 1.3, a caller is done with the handshake before the server has seen its certificate.
    """
    with (
        socket.create_connection((host, port), timeout=seconds) as plain,
        context.wrap_socket(plain, server_hostname=expected) as secured,
    ):
        try:
            return not secured.recv(1)
        except (ConnectionError, ssl.SSLEOFError):
            return True
        except ssl.SSLError as error:
            return any(word in (error.reason or "") for word in _ALERTS)


def _context(tls: TLS) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=tls.authority.decode("ascii"))
    context.set_alpn_protocols(["h2"])
    with ExitStack() as stack:
        certificate, key = (stack.enter_context(_readable(pem)) for pem in (tls.certificate, tls.key))
        context.load_cert_chain(certificate, key)
    return context


@contextmanager
def _readable(pem: bytes) -> Iterator[str]:
    """The name of a pipe that holds some bytes: a key is never on a disk, and `ssl` takes names only."""
    if len(pem) > _MAX_PEM:
        raise ValueError("certificates are too long for a pipe")
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as file:
            file.write(pem)
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
