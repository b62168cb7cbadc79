import stat
from datetime import datetime, timezone

import pytest
from cryptography import x509

from deployment import authority, certificates
from gbdt_parties.identity.certificates import TLS, Identity, make_authority, make_certificate


def test_a_partys_folder(tmp_path):
    identity = make_certificate(
        tmp_path / "bank", authority("ca"), "bank", ["bank.example", "10.0.0.7"], days=30
    )
    tls = TLS.from_directory(tmp_path / "bank")
    assert Identity.of(tls.certificate) == identity
    assert identity.name == "bank"
    assert identity.matches("bank")
    assert identity.matches(f"sha256:{identity.fingerprint.upper()}")
    assert not identity.matches("ban")
    assert not identity.matches(f"sha256:{'0' * 64}")
    assert "PRIVATE" not in repr(tls)


def test_keys_are_their_owners_only(tmp_path):
    make_authority(tmp_path / "ca")
    make_certificate(tmp_path / "bank", tmp_path / "ca", "bank")
    for path in (tmp_path / "ca" / "ca.key", tmp_path / "bank" / "party.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_authority_is_not_overwritten(tmp_path):
    make_authority(tmp_path)
    before = (tmp_path / "ca.key").read_bytes()
    with pytest.raises(ValueError, match="exists"):
        make_authority(tmp_path)
    assert (tmp_path / "ca.key").read_bytes() == before


def names_of(tls):
    certificate = x509.load_pem_x509_certificate(tls.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def test_a_certificate_is_for_the_partys_name_and_no_machine_that_nobody_named(tmp_path):
    make_certificate(tmp_path / "bank", authority("ca"), "bank")
    assert names_of(TLS.from_directory(tmp_path / "bank")) == ["bank"]
    make_certificate(tmp_path / "bank", authority("ca"), "bank", ["bank.example", "10.0.0.7", "bank"])
    assert names_of(TLS.from_directory(tmp_path / "bank")) == ["bank", "bank.example", "10.0.0.7"]


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "*.example", "*", "Zürich"])
def test_names_of_parties(tmp_path, name):
    with pytest.raises(ValueError, match="name="):
        make_certificate(tmp_path, authority("ca"), name)


def test_broken_folders(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read ca\.pem"):
        TLS.from_directory(tmp_path)
    for name in ("ca.pem", "party.pem", "party.key"):
        (tmp_path / name).write_bytes((certificates("bank") / name).read_bytes())
    TLS.from_directory(tmp_path)
    (tmp_path / "party.key").write_bytes((certificates("acme") / "party.key").read_bytes())
    with pytest.raises(ValueError, match="not the key"):
        TLS.from_directory(tmp_path)
    (tmp_path / "party.key").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="PEM"):
        TLS.from_directory(tmp_path)


def test_a_name_belongs_to_whom_it_was_given_by_name():
    """Two authorities may both say "acme"; who is let in by fingerprint goes by that."""
    expires = datetime.max.replace(tzinfo=timezone.utc)
    one, other = Identity("acme", "1" * 64, expires), Identity("acme", "2" * 64, expires)
    pinned = [f"sha256:{one.fingerprint}", f"sha256:{other.fingerprint.upper()}"]
    assert one.known_as(pinned) == pinned[0]
    assert other.known_as(pinned) == f"sha256:{other.fingerprint}"
    assert one.known_as(["bank", "acme"]) == one.known_as([*pinned, "acme"]) == "acme"
    assert one.known_as(["bank", pinned[1]]) is None
