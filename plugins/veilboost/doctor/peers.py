"""A party's address and certificate, and whether it takes this side's: what handshakes tell, and no more."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from gbdt_commons.quoting import quoted
from gbdt_parties.errors import PartyArgumentError
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.transport.own_certificate import context_of, is_refused, shown_certificate
from gbdt_parties.transport.remote import host_of
from veilboost.doctor.findings import Finding, dates_of

_STRANGER = "it is not signed by an authority in this side's ca.pem"
_REMEDIES = {
    7: _STRANGER,
    9: "it has not begun: see the clock",
    10: "it has expired: the party must serve with a new one",
    18: _STRANGER,
    19: _STRANGER,
    20: _STRANGER,
    21: _STRANGER,
    62: "it is for other names: correct the party's name, or set server_name",
    64: "it is for other addresses: correct the party's name, or set server_name",
}
"""By the number of OpenSSL's error of verification."""


class Peer(NamedTuple):
    """A server at ``host:port``, and what a caller expects of it.

    `expected` is the name that its certificate must be for; it must have one of the fingerprints `allowed`,
    if any are given.
    """

    name: str
    address: str
    expected: str
    allowed: Sequence[str] = ()


class Shown(NamedTuple):
    """The certificate that a server showed, if any, and the fault in it; empty if it is the expected one."""

    certificate: x509.Certificate | None
    fault: str


def examine(peer: Peer, tls: TLS | None, seconds: float) -> tuple[list[Finding], x509.Certificate | None]:
    """Check a party's server, and give the certificate that it showed, if any.

    Without this side's certificates, `tls`, only the address is checked; the server may be silent for so many
    `seconds`.
    """
    who = quoted(peer.name)
    try:
        where = (host_of(peer.address), int(peer.address.rpartition(":")[2]))
        socket.create_connection(where, timeout=seconds).close()
    except PartyArgumentError as error:
        return [Finding(f"{who} reachable", quoted(peer.address), str(error))], None
    except (OSError, ValueError) as error:  # of names that no host has, a UnicodeError
        mend = "start its server, or correct the address, the firewall or the tunnel"
        return [Finding(f"{who} reachable", f"{quoted(peer.address)}: {_reason(error)}", mend)], None
    reached = Finding(f"{who} reachable", peer.address)
    if tls is None:
        return [reached], None
    shown = shown_by(*where, peer.expected, tls, seconds)
    findings = [reached, certificate_of(peer, shown)]
    if not findings[-1].mend:
        findings.append(admission(peer, is_refused(*where, peer.expected, tls, seconds)))
    return findings, shown.certificate


def certificate_of(peer: Peer, shown: Shown) -> Finding:
    """Whether a party's certificate is trusted, is for its name, and is one of those allowed."""
    check = f"{quoted(peer.name)} certificate"
    if shown.certificate is None:
        return Finding(check, "none was shown", shown.fault)
    fingerprint = shown.certificate.fingerprint(hashes.SHA256()).hex()
    names = ", ".join(map(quoted, _names_in(shown.certificate))) or "no name"
    seen = f"for {names}, {dates_of(shown.certificate)}, sha256:{fingerprint}"
    if shown.fault:
        return Finding(check, seen, shown.fault)
    holder = Identity.of(shown.certificate.public_bytes(Encoding.PEM))
    if peer.allowed and holder.known_as(peer.allowed) is None:
        return Finding(check, seen, f"it is not in data.allowed: add sha256:{fingerprint}")
    return Finding(check, seen)


def admission(peer: Peer, is_refused: bool) -> Finding:
    """Whether a server ends handshakes with this side's certificate."""
    check = f"{quoted(peer.name)} admission"
    if is_refused:
        return Finding(
            check,
            "ends connections with this side's certificate",
            "the party must trust this side's authority (its ca.pem); its clock may be wrong, too",
        )
    return Finding(
        check, "takes this side's certificate; the first request tells whether --allow has its name"
    )


def shown_by(host: str, port: int, expected: str, tls: TLS, seconds: float) -> Shown:
    """The certificate that a server shows, and why it is not the expected one.

    An unexpected server is connected to once more, to read what it shows; it is not shown this side's.
    """
    try:
        checked = context_of(tls, ssl.TLSVersion.TLSv1_3)
        return Shown(shown_certificate(host, port, expected, checked, seconds), "")
    except ssl.SSLCertVerificationError as error:
        fault = _REMEDIES.get(error.verify_code, quoted(error.verify_message))
    except (OSError, ValueError) as error:
        return Shown(None, f"there is no server with TLS 1.3 ({_reason(error)})")
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    try:
        return Shown(shown_certificate(host, port, expected, unchecked, seconds), fault)
    except OSError:
        return Shown(None, fault)


def _names_in(certificate: x509.Certificate) -> Iterator[str]:
    """Names and addresses that a certificate is for."""
    for extension in certificate.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            yield from (str(one.value) for one in extension.value)


def listening(address: str) -> Finding:
    """Whether a server can listen at an address."""
    try:
        host, port = host_of(address), int(address.rpartition(":")[2])
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((host, port))
    except PartyArgumentError as error:
        return Finding("address", quoted(address), str(error))
    except (OSError, ValueError, TypeError) as error:  # the last one of names that no host has
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        mend = "stop the process that listens there" if taken else "choose an address of this machine"
        return Finding(
            "address", f"{quoted(address)}: {_reason(error)}", f"{mend}, or choose another --listen"
        )
    return Finding("address", f"{address} is free")


def _reason(error: Exception) -> str:
    return quoted(getattr(error, "strerror", None) or str(error) or type(error).__name__)
