import shutil
import stat
from datetime import datetime, timedelta, timezone

import pytest
from cryptography import x509

from deployment import authority, certificates
from gbdt_parties.errors import AuthenticationError, PartyArgumentError
from gbdt_parties.identity import certificates as certificates_module
from gbdt_parties.identity.certificates import (
    TLS,
    Identity,
    make_authority,
    make_certificate,
    renew_certificate,
)


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


def test_a_renewed_certificate_is_for_the_same_key_and_names(tmp_path):
    folder, key_pin = tmp_path / "bank", "key-sha256:{}".format
    first = make_certificate(folder, authority("ca"), "bank", ["bank.example"], days=1)
    before = TLS.from_directory(folder)
    with pytest.raises(PartyArgumentError, match=r"party\.key exists"):
        make_certificate(folder, authority("ca"), "bank")
    assert TLS.from_directory(folder) == before
    assert before.renewed() is before
    assert before.days_left() == 0
    assert f"--renew --out {folder}" in before.ending()
    (folder / "party.key").unlink()  # as at the authority, which need not have it
    second, former = renew_certificate(folder, authority("ca"), "bank", ["10.0.0.7"])
    assert former.read_bytes() == before.certificate
    (folder / "party.key").write_bytes(before.key)
    after = before.renewed()
    assert names_of(after) == ["bank", "bank.example", "10.0.0.7"]
    assert (after.ending(), after.days_left()) == ("", 364)
    assert first.fingerprint != second.fingerprint
    pins = [f"sha256:{first.fingerprint}", key_pin(first.key)]
    assert first.known_as(pins) == second.known_as(pins) == key_pin(second.key)
    assert second.known_as(pins[:1]) is None


@pytest.mark.parametrize(
    ("which", "name", "named"),
    [
        ("ca", "acme", "'bank', not of 'acme'"),
        ("other", "bank", "was not signed by"),
        ("ca", "none", "exist"),
    ],
)
def test_what_cannot_be_renewed_stays(tmp_path, which, name, named):
    make_certificate(tmp_path / "bank", authority("ca"), "bank")
    before = (tmp_path / "bank/party.pem").read_bytes()
    with pytest.raises(PartyArgumentError, match=named):
        renew_certificate(tmp_path / ("none" if name == "none" else "bank"), authority(which), name)
    assert [path.name for path in (tmp_path / "bank").glob("party.pem*")] == ["party.pem"]
    assert (tmp_path / "bank/party.pem").read_bytes() == before


def test_a_certificate_that_is_not_valid_yet_is_refused_with_the_time_of_this_clock(tmp_path, monkeypatch):
    make_certificate(tmp_path / "bank", authority("ca"), "bank")
    begins = x509.load_pem_x509_certificate((tmp_path / "bank/party.pem").read_bytes()).not_valid_before_utc

    class Clock(datetime):
        now = classmethod(lambda cls, zone: begins - timedelta(hours=30))

    monkeypatch.setattr(certificates_module, "datetime", Clock)
    with pytest.raises(AuthenticationError, match=r"'bank'.*30\.0 hours"):
        TLS.from_directory(tmp_path / "bank").check_dates()


def test_an_authority_that_has_expired_is_named(tmp_path):
    make_authority(tmp_path / "late", days=-1)
    with pytest.raises(PartyArgumentError, match=r"late' expired at 20"):
        make_certificate(tmp_path / "bank", tmp_path / "late", "bank")
    make_certificate(tmp_path / "bank", authority("ca"), "bank")
    (tmp_path / "bank/ca.pem").write_bytes((tmp_path / "late/ca.pem").read_bytes())
    with pytest.raises(AuthenticationError, match="authority that expired at 20"):
        TLS.from_directory(tmp_path / "bank").check_dates()


@pytest.mark.parametrize(("name", "which"), [("acme", "ca"), ("bank", "ca"), ("bank", "old")])
def test_another_name_or_key_or_end_is_not_taken_up(tmp_path, name, which):
    make_certificate(tmp_path / "bank", authority("ca"), "bank")
    before = TLS.from_directory(tmp_path / "bank")
    if which == "old":
        renew_certificate(tmp_path / "bank", authority("ca"), name, days=-1)
    else:
        shutil.copytree(certificates(name), tmp_path / "bank", dirs_exist_ok=True)
    with pytest.raises(PartyArgumentError, match="expired at" if which == "old" else "restart"):
        before.renewed()


def names_of(tls):
    certificate = x509.load_pem_x509_certificate(tls.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def test_a_certificate_is_for_the_partys_name_and_no_machine_that_nobody_named(tmp_path):
    make_certificate(tmp_path / "bank", authority("ca"), "bank")
    assert names_of(TLS.from_directory(tmp_path / "bank")) == ["bank"]
    make_certificate(tmp_path / "other", authority("ca"), "bank", ["bank.example", "10.0.0.7", "bank"])
    assert names_of(TLS.from_directory(tmp_path / "other")) == ["bank", "bank.example", "10.0.0.7"]


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
