"""Rosters, signatures, allow-lists and the seeds that all parties draw together."""

import base64
import json
import shutil
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from gbdt_parties.errors import (
    AuthenticationError,
    HardwareKeyError,
    PartyArgumentError,
    PartyError,
    ProtocolError,
)
from gbdt_parties.identity.certificates import (
    TLS,
    Identity,
    make_authority,
    make_certificate,
    renew_certificate,
)
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.messages import pack, unpack
from gbdt_parties.secure_sum.roster import Introduction, Roster, SignedEnd
from gbdt_parties.secure_sum.trust import AllowList, Credentials, check_signature
from secure_sessions import CREDENTIALS, NAMES, STATEMENT, introductions


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Certificates of one authority, one of another, and one that has expired."""
    root = tmp_path_factory.mktemp("certificates")
    make_authority(root / "ca")
    make_authority(root / "other")
    for name in NAMES:
        make_certificate(root / name, root / "ca", name)
    make_certificate(root / "stranger", root / "other", "bob")
    make_certificate(root / "late", root / "ca", "bob", days=-1)
    return root


def certificates(folders, name):
    return TLS.from_directory(folders / name).certificate


def a_roster(session=bytes(16)):
    keys, own = introductions()
    return keys, own, Roster(session, STATEMENT, tuple(own))


def test_all_parties_agree_on_a_roster_and_its_stream():
    keys, own, roster = a_roster()
    roster.check_endorsements([CREDENTIALS[name].sign(roster.digest) for name in NAMES])
    seeds = {place: k.seed for place, k in enumerate(keys)}
    copy = Roster.from_bytes(roster.to_bytes())
    assert copy == roster
    assert copy.digest == roster.digest
    assert copy.public_seed(seeds) == roster.public_seed(seeds)
    assert [copy.place_of(one) for one in own] == [0, 1, 2]


def test_keys_come_back_from_a_file():
    keys = SessionKeys()
    again = SessionKeys.from_secret(keys.to_secret())
    own = Introduction.of("ada", CREDENTIALS["ada"], keys)
    assert Introduction.of("ada", CREDENTIALS["ada"], again) == own
    assert Introduction.from_bytes(own.to_bytes()) == own


def test_a_party_whose_introduction_was_altered_notices():
    _, own, roster = a_roster()
    forged = replace(own[0], exchange_key=SessionKeys().exchange.public_key().public_bytes_raw())
    altered = replace(roster, introductions=(forged, *own[1:]))
    with pytest.raises(ProtocolError, match="introduced itself"):
        altered.place_of(own[0])


@pytest.mark.parametrize("field", ["nonce", "exchange_key", "signing_key", "commitment", "name"])
def test_signatures_do_not_fit_another_roster(field):
    _, own, roster = a_roster()
    signatures = [CREDENTIALS[name].sign(roster.digest) for name in NAMES]
    other = replace(own[1], **{field: "eve" if field == "name" else bytes(32)})
    with pytest.raises(AuthenticationError, match=r"signed.*certificate"):
        replace(roster, introductions=(own[0], other, own[2])).check_endorsements(signatures)
    for changed in (replace(roster, session=b"s" * 16), replace(roster, statement=b"s" * 32)):
        with pytest.raises(AuthenticationError, match=r"signed.*certificate"):
            changed.check_endorsements(signatures)
    with pytest.raises(AuthenticationError, match="2 signatures"):
        roster.check_endorsements(signatures[:2])


@pytest.mark.parametrize(
    "field", ["name", "certificates", "nonce", "exchange_key", "signing_key", "commitment"]
)
def test_nobody_is_in_a_roster_twice(field):
    _, own, roster = a_roster()
    twin = replace(own[1], **{field: getattr(own[0], field)})
    with pytest.raises(ProtocolError, match=r"two.*roster"):
        replace(roster, introductions=(own[0], twin, own[2]))


def test_one_holder_is_not_two_parties_by_two_certificates_of_one_key(folders):
    """A pin of the key, and an authority that signs both, would let it be all others at once."""
    _, own, roster = a_roster()
    shutil.copytree(folders / "bob", folders / "renewed")
    renew_certificate(folders / "renewed", folders / "ca", "bob")
    pair = (replace(own[k], certificates=certificates(folders, of)) for k, of in ((1, "bob"), (2, "renewed")))
    with pytest.raises(ProtocolError, match="key of a certificate"):
        replace(roster, introductions=(own[0], *pair))


def test_keys_of_no_known_kind_are_refused(folders):
    """The certificate can be read, and its key is on a curve that no library here has."""
    der = x509.load_pem_x509_certificate(certificates(folders, "bob")).public_bytes(
        serialization.Encoding.DER
    )
    curves = bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2a8648ce3d030101")
    other = x509.load_der_x509_certificate(der.replace(*curves)).public_bytes(serialization.Encoding.PEM)
    _, own, roster = a_roster()
    for refused in (
        lambda: AllowList().check(other, "bob"),
        lambda: replace(roster, introductions=(own[0], replace(own[1], certificates=other), own[2])),
    ):
        with pytest.raises(AuthenticationError, match="kind that is known"):
            refused()


def test_rosters_of_too_few_or_too_many_are_refused(monkeypatch):
    _, own, roster = a_roster()
    with pytest.raises(ProtocolError, match="roster of 1 parties"):
        replace(roster, introductions=(own[0],))
    monkeypatch.setattr("gbdt_parties.secure_sum.roster.MAX_PARTIES", 3)
    assert replace(roster) == roster
    monkeypatch.setattr("gbdt_parties.secure_sum.roster.MAX_PARTIES", 2)
    with pytest.raises(ProtocolError, match="roster of 3 parties"):
        replace(roster)


@pytest.mark.parametrize("changed", [{"session": bytes(15)}, {"statement": bytes(31)}], ids=str)
def test_a_session_and_a_statement_have_their_length(changed):
    with pytest.raises(ProtocolError, match=r"16 bytes.*statement of 32"):
        replace(a_roster()[2], **changed)


@pytest.mark.parametrize("cut", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: d[:8], lambda d: b""])
def test_damaged_rosters_and_introductions_are_refused(cut):
    _, own, roster = a_roster()
    with pytest.raises(ProtocolError):
        Roster.from_bytes(cut(roster.to_bytes()))
    with pytest.raises(ProtocolError):
        Introduction.from_bytes(cut(own[0].to_bytes()))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda parts: [b"another format", *parts[1:]], "not of format"),
        (lambda parts: [*parts, b""], "not of format"),
        (lambda parts: parts[:-2], "not of format 3"),
        (lambda parts: [parts[0], b"\xff", *parts[2:]], "not UTF-8"),
        *(
            (lambda parts, k=k: [*parts[:k], parts[k][:-1], *parts[k + 1 :]], "1184.*bytes")
            for k in range(3, 8)
        ),
    ],
)
def test_introductions_of_other_parts_are_refused(change, text):
    _, own, _ = a_roster()
    parts = unpack(own[0].to_bytes())
    assert Introduction.from_bytes(pack(parts)) == own[0]
    with pytest.raises(ProtocolError, match=text):
        Introduction.from_bytes(pack(change(parts)))


def test_the_last_part_of_a_roster_may_not_be_shorter_than_it_says():
    with pytest.raises(ProtocolError, match="byte strings"):
        Roster.from_bytes((17).to_bytes(8, "little") + bytes(16))


@pytest.mark.parametrize("name", ["n" * 64, "é" * 32, "n"])
def test_names_of_certificates_have_1_to_64_bytes(name):
    assert Identity.of(Credentials.self_signed(name).certificates).name == name
    for other in (name + "n" * (65 - len(name.encode())), ""):
        with pytest.raises(PartyArgumentError, match="1 to 64 bytes"):
            Credentials.self_signed(other)


def test_a_seed_other_than_the_committed_one_is_refused():
    keys, _, roster = a_roster()
    seeds = {place: k.seed for place, k in enumerate(keys)}
    with pytest.raises(ProtocolError, match="'bob' is not"):
        roster.public_seed({**seeds, 1: bytes(32)})
    with pytest.raises(ProtocolError, match="'cyd' is not"):
        roster.public_seed({0: seeds[0], 1: seeds[1]})


def test_everybodys_seed_counts():
    keys, own, roster = a_roster()
    seeds = {place: k.seed for place, k in enumerate(keys)}
    streams = {roster.public_seed(seeds)}
    for place, one in enumerate(own):
        fresh = replace(keys[place], seed=bytes([place + 1]) * 32)
        changed = Introduction.of(one.name, CREDENTIALS[one.name], fresh)
        others = tuple(changed if p == place else o for p, o in enumerate(own))
        other = replace(roster, introductions=others)
        streams.add(other.public_seed({**seeds, place: fresh.seed}))
    assert len(streams) == 4


# Whom a party accepts.


def test_fingerprints_of_an_authority_that_is_trusted(folders):
    bob = certificates(folders, "bob")
    digits = Identity.of(bob).fingerprint
    ca = (folders / "ca" / "ca.pem").read_bytes()
    for entry in (
        f"sha256:{digits}",
        "sha256:" + ":".join(digits[i : i + 2] for i in range(0, 64, 2)).upper(),
    ):
        AllowList([entry], ca).check(bob, "bob")
    with pytest.raises(AuthenticationError, match="party's allow-list"):
        AllowList([f"sha256:{'0' * 64}"], ca).check(bob, "bob")


@pytest.mark.parametrize("arguments", [{}, {"trust_authority": True}, {"authority": b"some"}])
def test_a_name_needs_an_authority_that_is_trusted_with_it(arguments):
    with pytest.raises(PartyArgumentError, match="trust_authority=True"):
        AllowList(["sha256:00", "bob"], **arguments)


def test_names_where_the_authority_is_trusted(folders):
    ca = (folders / "ca" / "ca.pem").read_bytes()
    allowed = AllowList(["bob"], ca, trust_authority=True)
    allowed.check(certificates(folders, "bob"), "bob")
    with pytest.raises(AuthenticationError, match="party's allow-list"):
        allowed.check(certificates(folders, "cyd"), "cyd")
    with pytest.raises(AuthenticationError, match="certificate of 'cyd'"):
        allowed.check(certificates(folders, "cyd"), "bob")
    with pytest.raises(AuthenticationError, match="from an authority"):
        allowed.check(certificates(folders, "stranger"), "bob")
    with pytest.raises(AuthenticationError, match="expired"):
        allowed.check(certificates(folders, "late"), "bob")


def test_a_certificate_that_a_party_issued_is_not_from_the_authority(folders):
    chain = certificates(folders, "cyd") + certificates(folders, "bob")
    ca = (folders / "ca" / "ca.pem").read_bytes()
    with pytest.raises(AuthenticationError, match="from an authority"):
        AllowList(None, ca).check(chain, "cyd")


def test_what_is_not_a_certificate_is_refused():
    with pytest.raises(AuthenticationError, match="PEM"):
        AllowList().check(b"nothing", "bob")


def test_members_of_a_roster_are_checked_but_for_oneself():
    _, own, roster = a_roster()
    known = [f"sha256:{Identity.of(CREDENTIALS[name].certificates).fingerprint}" for name in ("bob", "cyd")]
    roster.check_members(own[0], AllowList(known))
    with pytest.raises(AuthenticationError, match="'cyd' is not on"):
        roster.check_members(own[0], AllowList(known[:1]))


# Keys that sign.


@pytest.mark.parametrize(
    "key",
    [
        b"pkcs11:token=bank;object=party",
        b"-----BEGIN TSS2 PRIVATE KEY-----\nAAAA\n-----END TSS2 PRIVATE KEY-----\n",
    ],
)
def test_keys_in_hardware_are_refused_by_name(key):
    with pytest.raises(HardwareKeyError, match="in hardware"):
        Credentials(CREDENTIALS["ada"].certificates, key)


def test_other_keys_that_cannot_sign_are_refused():
    with pytest.raises(PartyArgumentError, match="PEM"):
        Credentials(CREDENTIALS["ada"].certificates, b"nothing")
    encrypted = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    )
    with pytest.raises(PartyArgumentError, match="unencrypted"):
        Credentials(CREDENTIALS["ada"].certificates, encrypted)


def test_keys_stay_out_of_texts():
    assert "PRIVATE" not in repr(CREDENTIALS["ada"])
    keys = SessionKeys()
    assert repr(keys.seed) not in repr(keys)


def an_end(places, **changes):
    keys, _, roster = a_roster()
    endorsements = [CREDENTIALS[name].sign(roster.digest) for name in NAMES]
    end = SignedEnd(roster, endorsements, b"t" * 32, [b"m" * 32, b"a" * 32], [b""] * 3)
    signed = replace(end, **changes).message
    return replace(end, signatures=[(k in places and keys[k].signing.sign(signed)) or b"" for k in range(3)])


def test_an_end_is_what_enough_parties_have_signed():
    end = an_end([2, 0])
    end.check(2)
    assert [one.name for one in end.signers] == [NAMES[0], NAMES[2]]
    assert SignedEnd.from_json(end.to_json()).message == end.message
    SignedEnd.from_json(end.to_json()).check(2)
    with pytest.raises(AuthenticationError, match=f"3 parties.*{NAMES[2]}.*; at least 3"):
        end.check(3)
    with pytest.raises(AuthenticationError, match=r"signed.*certificate"):
        replace(end, endorsements=end.endorsements[::-1]).check(2)


@pytest.mark.parametrize(
    "changes",
    [
        {"transcript": b"x" * 32},
        {"digests": [b"m" * 32]},
        {"digests": [b"a" * 32, b"m" * 32]},
        {"roster": a_roster()[2]},
        {"roster": a_roster(b"another session.")[2]},
    ],
    ids=["sums", "fewer parts", "other parts", "other keys", "other session"],
)
def test_signatures_of_another_end_are_none_of_this_one(changes):
    end = an_end([0, 1, 2], **changes)
    with pytest.raises(AuthenticationError, match=f"'{NAMES[0]}'.*signed this end"):
        end.check(2)


def test_signatures_are_of_the_party_in_whose_place_they_are():
    end = an_end([0, 1])
    with pytest.raises(AuthenticationError, match=f"'{NAMES[2]}'.*signed"):
        replace(end, signatures=[*end.signatures[:2], end.signatures[1]]).check(2)
    for wrong in (end.signatures[:2], [*end.signatures, b""]):
        with pytest.raises(ProtocolError, match="each place"):
            replace(end, signatures=wrong)


END = an_end([0, 1, 2]).to_json()
TEXTS = st.text() | st.binary(max_size=99).map(bytes.hex)
VALUES = st.none() | st.integers() | TEXTS | st.lists(TEXTS) | st.dictionaries(st.sampled_from(NAMES), TEXTS)


@given(st.sampled_from(["roster", "endorsements", "transcript", "digests", "signatures"]), VALUES)
def test_signatures_that_cannot_be_read_are_refused_by_name(name, value):
    with pytest.raises(PartyError):
        SignedEnd.from_json(json.dumps({**json.loads(END), name: value})).check(1)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, END[:-1]])
def test_texts_that_are_no_signatures_are_refused_by_name(text):
    with pytest.raises(ProtocolError, match="cannot be read"):
        SignedEnd.from_json(text)


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
def test_a_damaged_certificate_is_refused_by_an_error_of_ours_whatever_byte_is_wrong():
    """Subject, dates and key are read when they are asked for, and not with the certificate."""
    pem_of_ada = CREDENTIALS["ada"].certificates
    der = x509.load_pem_x509_certificate(pem_of_ada).public_bytes(serialization.Encoding.DER)
    refused = set()
    for place in range(len(der)):
        for value in (0, 2, 19, 46, 255):
            damaged = der[:place] + bytes([value]) + der[place + 1 :]
            body = base64.encodebytes(damaged)
            pem = b"-----BEGIN CERTIFICATE-----\n" + body + b"-----END CERTIFICATE-----\n"
            for check in (
                Identity.of,
                lambda shown: AllowList(None, pem_of_ada, True).check(shown, "ada"),
                lambda shown: check_signature(shown, b"digest", b"", "ada"),
            ):
                try:
                    check(pem)
                except PartyError as error:
                    refused.add(str(error))
    assert {"not a certificate in PEM format", "the certificate of party 'ada' has no key"} <= refused
