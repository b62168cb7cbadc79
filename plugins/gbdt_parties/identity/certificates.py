"""Certificates of parties: a small authority for tests and first steps, and what a party keeps in its folder.

A party's folder holds ``ca.pem`` (whom it trusts), ``party.pem`` and ``party.key``.  An organisation with an
authority of its own puts its files there under these names.
"""

from __future__ import annotations

import ipaddress
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gbdt_commons.files import write_atomically
from gbdt_commons.quoting import quoted
from gbdt_parties.errors import AuthenticationError, PartyArgumentError

AUTHORITY_FILE, AUTHORITY_KEY_FILE = "ca.pem", "ca.key"
CERTIFICATE_FILE, KEY_FILE = "party.pem", "party.key"
WARNING_DAYS = 30
"""Days before its end from which a certificate is to be renewed."""

MALFORMED = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""Errors of `cryptography` about a certificate: it reads many parts when they are asked for."""

OF_CERTIFICATE, OF_KEY = "sha256:", "key-sha256:"
"""Beginnings of entries of allow-lists that pin a certificate, or its key, which a renewed one keeps."""

_CLOCKS_DIFFER = timedelta(minutes=10)


@dataclass(frozen=True)
class TLS:
    """Credentials of a party, in PEM, to prove its identity and to check the other one's.

    Signatures of each `authority` are trusted. `server_name` is the name that the server's certificate must
    be for, if not that of the party that is called. They were read in the `folder`, if any, where a renewed
    certificate will be.
    """

    authority: bytes
    certificate: bytes
    key: bytes = field(repr=False)
    server_name: str | None = None
    folder: Path | None = field(default=None, compare=False)

    @classmethod
    def from_directory(cls, directory: str | Path, server_name: str | None = None) -> TLS:
        """Read a party's folder; PartyArgumentError names a missing, malformed or unmatched file."""
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
            is_own = key.public_key() == certificate.public_key()
        except MALFORMED:
            raise PartyArgumentError(f"tls={str(directory)!r}: a file is not in PEM format") from None
        if not is_own:
            raise PartyArgumentError(
                f"tls={str(directory)!r}: {KEY_FILE} is not the key of {CERTIFICATE_FILE}"
            )
        own = content[AUTHORITY_FILE], content[CERTIFICATE_FILE], content[KEY_FILE]
        return cls(*own, server_name, Path(directory))

    def renewed(self) -> TLS:
        """The content of the folder now; the same object where it is the same, or where there is no folder.

        Raises PartyArgumentError if it has another name or key, or is not valid now: keys of runs under way
        are signed with the former one.
        """
        if self.folder is None or (now := TLS.from_directory(self.folder, self.server_name)) == self:
            return self
        before, after = Identity.of(self.certificate), Identity.of(now.certificate)
        fault = now.fault()
        if (before.name, before.key) != (after.name, after.key):
            fault = "has another name or key than the one in use, which needs a restart"
        if fault:
            raise PartyArgumentError(f"tls={str(self.folder)!r}: the new certificate {fault}")
        return now

    def fault(self) -> str:
        """Faults in the dates of the certificate, or of all authorities, now; empty without any."""
        own = out_of_date(self.certificate)
        if own:
            return own
        ends = self._end_of_authority()
        ended = ends < datetime.now(timezone.utc)
        return f"is of an authority that expired at {ends:%Y-%m-%d %H:%M} UTC" if ended else ""

    def check_dates(self) -> None:
        """AuthenticationError, with holder, date and renewing command, for a certificate not valid now."""
        if fault := self.fault():
            name = Identity.of(self.certificate).name
            raise AuthenticationError(f"the certificate of {quoted(name)!r} {fault}; {self._renewing()}")

    def days_left(self) -> int:
        """Whole days until the certificate, or the last of its authorities, ends; below 0 afterwards."""
        ends = min(Identity.of(self.certificate).expires, self._end_of_authority())
        return (ends - datetime.now(timezone.utc)).days

    def ending(self) -> str:
        """The days that are left, and how to renew it, from `WARNING_DAYS` on; empty before."""
        days = self.days_left()
        return f"ends in {days} days: {self._renewing()}" if days < WARNING_DAYS else ""

    def _end_of_authority(self) -> datetime:
        return max(one.not_valid_after_utc for one in x509.load_pem_x509_certificates(self.authority))

    def _renewing(self) -> str:
        own = Identity.of(self.certificate)
        if self._end_of_authority() < own.expires:
            return "its authority ends first: take a certificate of a new one, whose ca.pem all add to theirs"
        words = ["veilboost", "certs", own.name, "--renew"]
        words += [] if self.folder is None else ["--out", str(self.folder)]
        return f"renew it: {shlex.join(words)}"


def out_of_date(certificates: bytes) -> str:
    """Faults in the dates of the first of some PEM certificates, the own one; empty if nothing.

    Those after it may be of no use to the other side, which judges the chain.
    """
    now, (first, last) = datetime.now(timezone.utc), _dates_of(certificates)
    if last < now:
        return f"expired at {last:%Y-%m-%d %H:%M} UTC"
    if first > now:
        return (
            f"is not valid before {first:%Y-%m-%d %H:%M} UTC, and this machine's clock says "
            f"{now:%Y-%m-%d %H:%M}, {(first - now).total_seconds() / 3600:.1f} hours less: one of the two "
            "clocks may be wrong"
        )
    return ""


@lru_cache(maxsize=64)
def _dates_of(certificates: bytes) -> tuple[datetime, datetime]:
    """Read once and not for every request."""
    own = x509.load_pem_x509_certificates(certificates)[0]
    return own.not_valid_before_utc, own.not_valid_after_utc


@dataclass(frozen=True)
class Identity:
    """Identity of a certificate's holder: common name, SHA-256 of the certificate in hexadecimal, expiry.

    `key` is SHA-256 of the public key (as SubjectPublicKeyInfo), the same after a renewal.
    """

    name: str
    fingerprint: str
    expires: datetime
    key: str = ""

    @classmethod
    def of(cls, certificate: bytes) -> Identity:
        """Read a PEM certificate; PartyArgumentError unless it is one with exactly one common name."""
        try:
            parsed = x509.load_pem_x509_certificate(certificate)
            names = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            expires = parsed.not_valid_after_utc
        except MALFORMED:
            raise PartyArgumentError("not a certificate in PEM format") from None
        if len(names) != 1 or not str(names[0].value).isprintable():
            raise PartyArgumentError("a certificate must have one printable common name")
        fingerprint = parsed.fingerprint(hashes.SHA256()).hex()
        return cls(str(names[0].value), fingerprint, expires, digest_of_key(parsed))

    def matches(self, entry: str) -> bool:
        """Whether an entry of an allow-list means this holder: a common name, or a pin."""
        for prefix, digits in ((OF_CERTIFICATE, self.fingerprint), (OF_KEY, self.key)):
            if entry.startswith(prefix):
                return bool(digits) and entry.removeprefix(prefix).replace(":", "").lower() == digits
        return entry == self.name

    def known_as(self, allowed: Sequence[str]) -> str | None:
        """Name of the holder: its own if that is allowed, else the pin that is, of the key first, else None.

        Two authorities may give one name; a holder allowed by a pin alone does not get that name.
        """
        matching = [entry for entry in allowed if self.matches(entry)]
        if not matching:
            return None
        if self.name in matching:
            return self.name
        by_key = any(entry.startswith(OF_KEY) for entry in matching)
        return OF_KEY + self.key if by_key else OF_CERTIFICATE + self.fingerprint


def digest_of_key(certificate: x509.Certificate) -> str:
    """SHA-256 of a public key (SubjectPublicKeyInfo) in hex; PartyArgumentError for an unknown kind."""
    kinds = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    try:
        return sha256(certificate.public_key().public_bytes(*kinds)).hexdigest()
    except MALFORMED:
        raise PartyArgumentError("a certificate must have a key of a kind that is known") from None


def is_pin(entry: str) -> bool:
    """Whether an entry of an allow-list pins a certificate or a key; others are names."""
    return entry.startswith((OF_CERTIFICATE, OF_KEY))


def make_authority(directory: str | Path, name: str = "veilboost test authority", days: int = 3650) -> None:
    """Write a new authority's certificate and key; its key signs whom all parties trust.

    The name should be no other one's: TLS takes the first of two for the signer of any certificate of either.
    """
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

    `authority` is where `make_authority` wrote. Callers know the party by its `name`, which becomes common
    name and a DNS name. `hosts` are further names and addresses for those who call it by its address; there
    are none by default, since a certificate for ``localhost`` would be good at the end of any tunnel. `days`
    are negative for one that has expired. Raises PartyArgumentError for an authority without a usable key, a
    name that is not 1 to 64 characters of printable ASCII or has '/' or '*' in it, and a folder with a key,
    which would be lost.
    """
    if not 0 < len(name) <= 64 or not name.isprintable() or not name.isascii() or set(name) & set("/*"):
        raise PartyArgumentError(
            f"name={name!r} must be 1 to 64 characters of printable ASCII without '/' or '*'"
        )
    directory = Path(directory)
    if (directory / KEY_FILE).exists():
        raise PartyArgumentError(
            f"{directory / KEY_FILE} exists and is not overwritten; --renew makes a new certificate for it, "
            "and another folder takes a new key"
        )
    issuer, issuer_key = _read_authority(Path(authority))
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = [x509.DNSName(name), *map(_host, hosts)]
    certificate = _signed(issuer, issuer_key, name, key.public_key(), alternatives, days)
    directory.mkdir(parents=True, exist_ok=True)
    _write_key(directory / KEY_FILE, key)
    (directory / CERTIFICATE_FILE).write_bytes(certificate)
    (directory / AUTHORITY_FILE).write_bytes(issuer.public_bytes(serialization.Encoding.PEM))
    return Identity.of(certificate)


def renew_certificate(
    directory: str | Path, authority: str | Path, name: str, hosts: Sequence[str] = (), days: float = 365
) -> tuple[Identity, Path]:
    """Write a new certificate for a party's key, which need not be there, and keep the former one beside it.

    The new one is also for the names and addresses of the former one; other arguments are those of
    `make_certificate`. Gives the new identity, and where the former one is kept. Raises PartyArgumentError if
    there is no certificate, or it is of another name or authority.
    """
    path = Path(directory) / CERTIFICATE_FILE
    if not path.exists():
        raise PartyArgumentError(f"{path} does not exist, so that there is nothing to renew")
    content = path.read_bytes()
    former, issuer_and_key = Identity.of(content), _read_authority(Path(authority))
    if former.name != name:
        raise PartyArgumentError(f"{path} is the certificate of {quoted(former.name)!r}, not of {name!r}")
    own = x509.load_pem_x509_certificate(content)
    try:
        own.verify_directly_issued_by(issuer_and_key[0])
    except (ValueError, TypeError, InvalidSignature):
        raise PartyArgumentError(
            f"{path} was not signed by the authority in {authority}; have it renewed where it was signed"
        ) from None
    named = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    certificate = _signed(*issuer_and_key, name, own.public_key(), [*named, *map(_host, hosts)], days)
    kept = path.with_name(f"{CERTIFICATE_FILE}.old-{former.fingerprint[:8]}")
    write_atomically(kept, content)
    write_atomically(path, certificate)
    return Identity.of(certificate), kept


def _signed(
    issuer: x509.Certificate,
    issuer_key: ec.EllipticCurvePrivateKey,
    name: str,
    key: CertificatePublicKeyTypes,
    alternatives: Sequence[x509.GeneralName],
    days: float,
) -> bytes:
    """A party's certificate in PEM format."""
    builder = _builder(_subject(name), issuer.subject, key, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    named = x509.SubjectAlternativeName(list(dict.fromkeys(alternatives)))
    builder = builder.add_extension(named, critical=False)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _read_authority(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate, key = ((directory / name).read_bytes() for name in (AUTHORITY_FILE, AUTHORITY_KEY_FILE))
    try:
        issuer = x509.load_pem_x509_certificate(certificate)
        issuer_key = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError):
        raise PartyArgumentError(f"authority={str(directory)!r}: a file is not in PEM format") from None
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise PartyArgumentError(f"authority={str(directory)!r}: its key is not on an elliptic curve")
    if fault := out_of_date(certificate):
        raise PartyArgumentError(f"authority={str(directory)!r} {fault}; make another one elsewhere")
    return issuer, issuer_key


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, days: float
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
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
