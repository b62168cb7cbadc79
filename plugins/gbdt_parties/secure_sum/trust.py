"""Signers of a party, and the peers that it accepts: certificates' keys and the allow-list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import NameOID

from gbdt_commons.quoting import quoted
from gbdt_parties.errors import AuthenticationError, HardwareKeyError, PartyArgumentError
from gbdt_parties.identity.certificates import MALFORMED, OF_KEY, TLS, Identity, digest_of_key, is_pin

_DOMAIN = b"veilboost secure sum roster 1\0"
"""Begins everything that a certificate's key signs here, so that no signature serves two purposes."""

_NAME_BYTES = 64
"""Of a common name, at most."""

_WRAPPED = (b"pkcs11:", b"-----BEGIN TSS2 PRIVATE KEY-----", b"tpm2:")
_SOFTWARE = (ec.EllipticCurvePrivateKey, ed25519.Ed25519PrivateKey, rsa.RSAPrivateKey)
_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size)

_NO_END = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)
"""The date of certificates that do not end (RFC 5280, 4.1.2.5)."""


@dataclass(frozen=True)
class Credentials:
    """A party's certificate in PEM, those that lead to its authority, and the key, which is not encrypted.

    A HardwareKeyError says that the key is a reference to one in hardware, or wrapped by it; a
    PartyArgumentError, that it is no private key that signs.
    """

    certificates: bytes
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_private_key", _signing_key(self.key))

    @classmethod
    def of(cls, tls: TLS) -> Credentials:
        """Credentials in a party's folder."""
        return cls(tls.certificate, tls.key)

    @classmethod
    def self_signed(cls, name: str) -> Credentials:
        """A certificate that only vouches for itself, for parties in one process.

        It does not end, for a run that is kept goes on with the certificate that it began with.  A
        PartyArgumentError says that the name does not fit into a certificate.
        """
        if not 1 <= len(name.encode()) <= _NAME_BYTES:
            raise PartyArgumentError(
                f"name={quoted(name)!r} must have 1 to {_NAME_BYTES} bytes as UTF-8, which is what a "
                "certificate holds"
            )
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(timezone.utc)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(_NO_END)
            .sign(key, hashes.SHA256())
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(certificate.public_bytes(serialization.Encoding.PEM), pem)

    def take_up(self, certificates: bytes) -> None:
        """Show renewed certificates of the same key in runs that begin from now on."""
        self.__dict__["certificates"] = certificates

    def sign(self, digest: bytes) -> bytes:
        """Sign a roster's digest."""
        key: Any = self._private_key  # type: ignore[attr-defined]
        message = _DOMAIN + digest
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key.sign(message, ec.ECDSA(hashes.SHA256()))
        if isinstance(key, rsa.RSAPrivateKey):
            return key.sign(message, _PSS, hashes.SHA256())
        return bytes(key.sign(message))


def check_signature(certificate: bytes, digest: bytes, signature: bytes, name: str) -> None:
    """AuthenticationError, by party, unless a PEM certificate's holder signed a roster's digest."""
    message = _DOMAIN + digest
    try:
        key = _certificates(certificate)[0].public_key()
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, message, _PSS, hashes.SHA256())
        elif isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, message)
        else:
            raise AuthenticationError(f"the certificate of party {quoted(name)!r} has a key that cannot sign")
    except InvalidSignature:
        raise AuthenticationError(
            f"the session keys of party {quoted(name)!r} are not signed by its certificate"
        ) from None
    except MALFORMED:
        raise AuthenticationError(f"the certificate of party {quoted(name)!r} has no key") from None


@dataclass(frozen=True)
class AllowList:
    """Allow-list of the peers that a party adds its numbers to.

    `entries` are ``sha256:`` and the digits of a certificate's fingerprint, or common names; None accepts all
    peers, for parties in one process. `authority` has PEM certificates of the authorities that sign parties'
    certificates; empty accepts self-signed ones, which only fingerprints can then vouch for. With
    `trust_authority` a common name is enough. It is the authority's word: its operator can name any holder
    so, and be all other parties at once.

    Raises `PartyArgumentError` for names without `trust_authority`, or without an authority.
    """

    entries: Sequence[str] | None = None
    authority: bytes = b""
    trust_authority: bool = False

    def __post_init__(self) -> None:
        names = [entry for entry in self.entries or () if not is_pin(entry)]
        if names and not (self.trust_authority and self.authority):
            raise PartyArgumentError(
                f"the allow-list names {quoted(names[0])!r} without its fingerprint: give 'sha256:…' or "
                "'key-sha256:…', or pass trust_authority=True if the authority may decide who that is"
            )

    def take_up(self, entries: Sequence[str] | None, authority: bytes) -> None:
        """Have other entries and authorities from now on, if they are accepted."""
        now = AllowList(entries, authority, self.trust_authority)
        self.__dict__.update(entries=now.entries, authority=now.authority)

    def check(self, certificates: bytes, name: str) -> None:
        """Check a party's certificates.

        An AuthenticationError says that they are not valid now, do not lead to an authority, are of another
        name, or that their holder is not on the list.
        """
        chain = _certificates(certificates)
        try:
            identity = Identity.of(certificates)
        except PartyArgumentError as error:
            raise AuthenticationError(f"party {quoted(name)!r}: {error}") from None
        if identity.name != name:
            raise AuthenticationError(
                f"party {quoted(name)!r} has the certificate of {quoted(identity.name)!r}"
            )
        if self.authority:
            _check_chain(chain, x509.load_pem_x509_certificates(self.authority), name)
        _check_dates(chain, name)
        self.check_holder(identity)

    def check_holder(self, identity: Identity) -> None:
        """AuthenticationError unless the holder of a certificate, checked as by TLS, is on the list."""
        if self.entries is not None and identity.known_as(self.entries) is None:
            raise AuthenticationError(
                f"party {quoted(identity.name)!r} is not on this party's allow-list; its certificate is "
                f"sha256:{identity.fingerprint}"
            )


def credentials_of(
    name: str,
    tls: TLS | str | Path | None,
    allowed: Sequence[str] | None,
    trust_authority: bool,
    error: type[Exception],
) -> tuple[Credentials, AllowList]:
    """Credentials and allow-list of a party; without a certificate, of its own making for one process.

    An error of the type that is given says that there is a certificate without a list, or that the name is
    not the certificate's; a PartyArgumentError, that the key, the name or the list is not accepted.
    """
    if tls is not None and allowed is None:
        raise error(
            "allowed=None would accept every party that the authority vouches for; "
            "name the other parties by 'sha256:' and the fingerprints of their certificates"
        )
    tls = TLS.from_directory(tls) if isinstance(tls, (str, Path)) else tls
    credentials = Credentials.self_signed(name) if tls is None else Credentials.of(tls)
    known = Identity.of(credentials.certificates).name
    if known != name:
        raise error(f"name={name!r} is not that of the party's certificate, {known!r}")
    return credentials, AllowList(allowed, b"" if tls is None else tls.authority, trust_authority)


def fingerprint(certificates: bytes) -> bytes:
    """SHA-256 of the first of some PEM certificates."""
    return _certificates(certificates)[0].fingerprint(hashes.SHA256())


def key_pin(certificates: bytes) -> str:
    """The pin of the key of the first of some PEM certificates, which is the same after a renewal."""
    try:
        return OF_KEY + digest_of_key(_certificates(certificates)[0])
    except PartyArgumentError as error:
        raise AuthenticationError(str(error)) from None


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except MALFORMED:
        raise AuthenticationError("a party's certificate is not in PEM format") from None


def _check_dates(chain: Sequence[x509.Certificate], name: str) -> None:
    now = datetime.now(timezone.utc)
    for certificate in chain:
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise AuthenticationError(
                f"a certificate of party {quoted(name)!r} has expired, or is not valid yet"
            )


def _check_chain(chain: Sequence[x509.Certificate], roots: Sequence[x509.Certificate], name: str) -> None:
    """Each certificate is issued by the next one, and the last by an authority that is trusted."""
    issuers = [*chain[1:], None]
    for certificate, issuer in zip(chain, issuers, strict=True):
        candidates = roots if issuer is None else [issuer]
        if not any(has_issued(candidate, certificate) for candidate in candidates):
            raise AuthenticationError(
                f"the certificate of party {quoted(name)!r} is not from an authority that this party trusts"
            )


def has_issued(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    """Whether a certificate was signed by another one, which is an authority's."""
    try:
        basic = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
        certificate.verify_directly_issued_by(issuer)
    except (*MALFORMED, InvalidSignature, x509.ExtensionNotFound):
        return False
    return basic.ca


def _signing_key(key: bytes) -> Any:
    if key.lstrip().startswith(_WRAPPED):
        raise HardwareKeyError(
            "the certificate's key is in hardware, or wrapped by it (PKCS #11, TPM): it cannot sign the keys "
            "of a session here; use a certificate whose key is in a file"
        )
    try:
        loaded = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError):
        raise PartyArgumentError("the certificate's key is not an unencrypted key in PEM format") from None
    if not isinstance(loaded, _SOFTWARE):
        raise PartyArgumentError(
            f"a {type(loaded).__name__} cannot sign the keys of a session; use ECDSA, Ed25519 or RSA"
        )
    return loaded
