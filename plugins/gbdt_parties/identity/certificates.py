"""Certificates of parties: a small authority for tests and first steps, and what a party keeps in its folder.

A party's folder holds ``ca.pem`` (whom it trusts), ``party.pem`` and ``party.key``.  An organisation with an
authority of its own puts its files there under these names.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gbdt_parties.errors import PartyArgumentError

AUTHORITY_FILE, AUTHORITY_KEY_FILE = "ca.pem", "ca.key"
CERTIFICATE_FILE, KEY_FILE = "party.pem", "party.key"
_CLOCKS_DIFFER = timedelta(minutes=10)


@dataclass(frozen=True)
class TLS:
    """Credentials of a party, to prove its identity and to check the other one's.

    Attributes
    ----------
    authority : bytes
        PEM certificates of the authorities whose signature is trusted.
    certificate, key : bytes
        PEM; this party's.
    server_name : str or None
        Name that the server's certificate must be for, if not the name of the party that is called.
    """

    authority: bytes
    certificate: bytes
    key: bytes = field(repr=False)
    server_name: str | None = None

    @classmethod
    def from_directory(cls, directory: str | Path, server_name: str | None = None) -> TLS:
        """Read a party's folder.

        Raises
        ------
        PartyArgumentError
            Naming the file that is missing, is not a certificate, or whose key does not match.
        """
        content = {}
        for name in (AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE):
            path = Path(directory) / name
            try:
                content[name] = path.read_bytes()
            except OSError as error:
                raise PartyArgumentError(
                    f"tls={str(directory)!r}: cannot read {name}: {error.strerror}"
                ) from None
        try:
            x509.load_pem_x509_certificates(content[AUTHORITY_FILE])
            certificate = x509.load_pem_x509_certificate(content[CERTIFICATE_FILE])
            key = serialization.load_pem_private_key(content[KEY_FILE], None)
        except (ValueError, TypeError):
            raise PartyArgumentError(f"tls={str(directory)!r}: a file is not in PEM format") from None
        if key.public_key() != certificate.public_key():
            raise PartyArgumentError(
                f"tls={str(directory)!r}: {KEY_FILE} is not the key of {CERTIFICATE_FILE}"
            )
        return cls(content[AUTHORITY_FILE], content[CERTIFICATE_FILE], content[KEY_FILE], server_name)


@dataclass(frozen=True)
class Identity:
    """Identity of a certificate's holder.

    Attributes
    ----------
    name : str
        Common name.
    fingerprint : str
        SHA-256 of the certificate, 64 hexadecimal digits.
    expires : datetime
    """

    name: str
    fingerprint: str
    expires: datetime

    @classmethod
    def of(cls, certificate: bytes) -> Identity:
        """Read a PEM certificate.

        Raises
        ------
        PartyArgumentError
            If it is not a certificate, or does not have exactly one common name.
        """
        try:
            parsed = x509.load_pem_x509_certificate(certificate)
        except ValueError:
            raise PartyArgumentError("not a certificate in PEM format") from None
        names = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if len(names) != 1 or not str(names[0].value).isprintable():
            raise PartyArgumentError("a certificate must have one printable common name")
        return cls(str(names[0].value), parsed.fingerprint(hashes.SHA256()).hex(), parsed.not_valid_after_utc)

    def matches(self, entry: str) -> bool:
        """Whether an entry of an allow-list means this holder: a common name, or ``sha256:`` and digits."""
        if entry.startswith("sha256:"):
            return entry[7:].replace(":", "").lower() == self.fingerprint
        return entry == self.name

    def known_as(self, allowed: Sequence[str]) -> str | None:
        """Name of the holder: its own if that is allowed, else its fingerprint if that is, else None.

        Two authorities may give one name; a holder allowed by fingerprint alone does not get that name.
        """
        matching = [entry for entry in allowed if self.matches(entry)]
        if not matching:
            return None
        return self.name if self.name in matching else f"sha256:{self.fingerprint}"


def make_authority(directory: str | Path, name: str = "veilboost test authority", days: int = 3650) -> None:
    """Write a new authority's certificate and key; its key signs whom all parties trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    builder = _builder(subject, subject, key.public_key(), days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / AUTHORITY_KEY_FILE).exists():
        raise PartyArgumentError(f"{directory / AUTHORITY_KEY_FILE} exists; make another authority elsewhere")
    _write_key(directory / AUTHORITY_KEY_FILE, key)
    (directory / AUTHORITY_FILE).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def make_certificate(
    directory: str | Path, authority: str | Path, name: str, hosts: Sequence[str] = (), days: float = 365
) -> Identity:
    """Write a party's folder: a certificate signed by an authority, its key, and the authority's certificate.

    Parameters
    ----------
    directory : path
        The party's folder.
    authority : path
        Where `make_authority` wrote.
    name : str
        Common name, and a DNS name that the certificate is for: callers know this party by it.
    hosts : sequence of str
        Further names and addresses that the certificate is for, for those who call the party by its address.
        None by default: a certificate for ``localhost`` would be good at the end of any tunnel.
    days : float
        Until it expires; negative for one that has expired.

    Raises
    ------
    PartyArgumentError
        For an authority without a usable key, and for a name that is not 1 to 64 characters of printable
        ASCII or has '/' or '*' in it.
    """
    if not 0 < len(name) <= 64 or not name.isprintable() or not name.isascii() or set(name) & set("/*"):
        raise PartyArgumentError(
            f"name={name!r} must be 1 to 64 characters of printable ASCII without '/' or '*'"
        )
    issuer, issuer_key = _read_authority(Path(authority))
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_subject(name), issuer.subject, key.public_key(), days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    alternatives = list(dict.fromkeys([x509.DNSName(name), *map(_host, hosts)]))
    builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    certificate = builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    _write_key(directory / KEY_FILE, key)
    (directory / CERTIFICATE_FILE).write_bytes(certificate)
    (directory / AUTHORITY_FILE).write_bytes(issuer.public_bytes(serialization.Encoding.PEM))
    return Identity.of(certificate)


def _read_authority(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate, key = ((directory / name).read_bytes() for name in (AUTHORITY_FILE, AUTHORITY_KEY_FILE))
    try:
        issuer = x509.load_pem_x509_certificate(certificate)
        issuer_key = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError):
        raise PartyArgumentError(f"authority={str(directory)!r}: a file is not in PEM format") from None
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise PartyArgumentError(f"authority={str(directory)!r}: its key is not on an elliptic curve")
    return issuer, issuer_key


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    try:
        ends = now + timedelta(days=days)
    except (OverflowError, ValueError):
        raise PartyArgumentError(f"days={days} is out of range") from None
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - _CLOCKS_DIFFER)
        .not_valid_after(ends)
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        if not name.isascii():
            raise PartyArgumentError(
                f"host {name!r} must be ASCII; write international names in punycode"
            ) from None
        return x509.DNSName(name)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Readable by its owner only, from the first byte on."""
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
