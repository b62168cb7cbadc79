"""Why a server does not talk to this side: its certificate has expired, or the server does not accept it.

gRPC servers close the connection in both cases, without an alert, and gRPC's callers see a closed socket, as
of a server that was killed.  The first can be seen beforehand.  For the second, a closed connection alone
says nothing: a TLS end before a server that is down closes it, too.  The handshake of TLS 1.2 tells the two
apart: a server completes it only once it has accepted the caller's certificate.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from cryptography import x509

from gbdt_parties.identity.certificates import TLS

N_PROBES = 2
"""Connections that a server must all treat alike: one alone may have been cut off by its end."""

SECONDS = 2.0
"""Silence of a server after which a probe ends."""

_MAX_PEM = 1 << 15
"""Bytes of certificates, or of a key, that a pipe surely holds."""

_ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "DECRYPT_ERROR")
"""Of the reasons of alerts; the last is of a certificate that another authority of the same name signed."""

_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""The end of a connection without a word."""


def is_refused(host: str, port: int, expected: str, tls: TLS, seconds: float = SECONDS) -> bool:
    """Whether a server of the expected name takes connections, and does not accept this side's certificate.

    False if that cannot be found out, as of a server that closes connections and has no TLS 1.2, or is silent
    for so many `seconds`. In TLS 1.2, the certificate, not its key, is sent where a listener could read it.
    """
    try:
        old, new = (context_of(tls, version) for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3))
        where = (host, port, expected, seconds)
        return all(_denies(*where, new, old) for _ in range(N_PROBES))
    except (OSError, ValueError):
        # The server cannot be reached, or is another one.
        return False


def _denies(
    host: str, port: int, expected: str, seconds: float, new: ssl.SSLContext, old: ssl.SSLContext
) -> bool:
    """Whether a server does not accept the certificate, in a connection of TLS 1.3 and one of TLS 1.2.

    In TLS 1.3, a caller is done with the handshake before the server has seen its certificate: it is then
    known that the server is there, and the expected one.
    """
    with (
        socket.create_connection((host, port), timeout=seconds) as plain,
        new.wrap_socket(plain, server_hostname=expected) as secured,
    ):
        try:
            if secured.recv(1):
                return False
        except _CLOSED:
            pass
        except ssl.SSLError as error:
            return _is_alert(error)
    with socket.create_connection((host, port), timeout=seconds) as plain:
        try:
            old.wrap_socket(plain, server_hostname=expected).close()
        except _CLOSED:
            return True
        except ssl.SSLError as error:
            return _is_alert(error)
    return False


def _is_alert(error: ssl.SSLError) -> bool:
    """Whether the server says that it does not accept the certificate."""
    # An error of this side's about the server's certificate has the word, too, and is no alert.
    reason = error.reason or ""
    return "ALERT" in reason and any(word in reason for word in _ALERTS)


def shown_certificate(
    host: str, port: int, expected: str, context: ssl.SSLContext, seconds: float
) -> x509.Certificate:
    """The certificate that a server shows in a handshake, after which nothing is sent.

    Raises OSError if it cannot be reached, or shows a certificate that the context does not trust, and
    ValueError if it shows none.
    """
    with (
        socket.create_connection((host, port), timeout=seconds) as plain,
        context.wrap_socket(plain, server_hostname=expected) as secured,
    ):
        shown = secured.getpeercert(binary_form=True)
    if shown is None:
        raise ValueError("no certificate was shown")
    return x509.load_der_x509_certificate(shown)


def context_of(tls: TLS, version: ssl.TLSVersion) -> ssl.SSLContext:
    """A caller that shows its certificate in one TLS version; ValueError if it is too long for a pipe."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = version
    context.load_verify_locations(cadata=tls.authority.decode("ascii"))
    context.set_alpn_protocols(["h2"])
    with ExitStack() as stack:
        certificate, key = (stack.enter_context(readable(pem)) for pem in (tls.certificate, tls.key))
        context.load_cert_chain(certificate, key)
    return context


@contextmanager
def readable(pem: bytes) -> Iterator[str]:
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
