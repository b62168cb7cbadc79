"""Keys that a party derives from another's: masks under them do not cancel at a third party.

Before, a mask followed from the secret, the roster and the attempt, and not from whose it is: of two parties
with keys of one secret, each other party added the mask of one and subtracted the same mask of the other.
"""

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_parties.errors import AuthenticationError, ProtocolError
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.secure_sum.contributions import SIGNATURE_BYTES, SecureSession
from gbdt_parties.secure_sum.keys import SessionKeys, check_signing_key, class_of_secrets
from gbdt_parties.secure_sum.rings import MODULO_64
from gbdt_parties.secure_sum.roster import Introduction, Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from secure_sessions import CREDENTIALS, STATEMENT, attempt, introductions, pair_secrets
from twin_keys import SMALL, TWINS, P, all_twins, inverse, to_key, to_u, with_top_bit

NAMES = ("alice", "anna", "bob", "carol", "chris")
SIGNED_BY = {name: Credentials.self_signed(name) for name in NAMES}


@pytest.fixture
def unchecked(monkeypatch):
    """Rosters whose keys are not looked at: what is bound has to do alone."""
    monkeypatch.setattr(Roster, "check_keys", lambda self: None)


def roster_with(twins, session=bytes(16)):
    """The keys of five parties, and a roster in which some announce what they derive from others' keys."""
    keys = [SessionKeys() for _ in NAMES]
    own = [Introduction.of(name, SIGNED_BY[name], k) for name, k in zip(NAMES, keys, strict=True)]
    for place, (of, derive) in twins.items():
        own[place] = replace(own[place], exchange_key=derive(own[of].exchange_key))
    return keys, own, Roster(session, STATEMENT, tuple(own))


def sent_by_bob(keys, own, roster):
    values = np.array([5, -7, 123456789], dtype=np.int64)
    asked = attempt(members=tuple(range(len(NAMES))))
    session = SecureSession(keys[2], roster, own[2], pair_secrets(roster, keys)[2])
    sent = session.contribute(asked, MODULO_64, MODULO_64.from_integers(values))
    return values, MODULO_64.from_bytes(sent[12:-SIGNATURE_BYTES])


@pytest.mark.parametrize("twin", TWINS)
def test_twin_keys_of_all_others_do_not_take_the_masks_off(twin, unchecked):
    """Two of five collude, n = 2t + 1: carol and chris announce twins of alice's and anna's keys."""
    keys, own, roster = roster_with({3: (0, TWINS[twin]), 4: (1, TWINS[twin])})
    values, sent = sent_by_bob(keys, own, roster)
    assert not (sent == MODULO_64.from_integers(values)).any()


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("victim", [0, 2])
def test_a_twin_key_is_refused_before_a_roster_is_signed(twin, victim):
    """Also by the party whose own key it is a twin of."""
    member = Agreement(NAMES[victim], SIGNED_BY[NAMES[victim]], AllowList(), bytes(16))
    _, own, _ = roster_with({})
    own[victim] = member.introduction
    own[3] = replace(own[3], exchange_key=TWINS[twin](own[0].exchange_key))
    roster = Roster(bytes(16), STATEMENT, tuple(own))
    found = "'carol' is not usable: it is not canonical" if twin == "top bit" else "'alice' and 'carol'"
    with pytest.raises(AuthenticationError, match=found):
        member.endorse(roster, STATEMENT, 2)
    with pytest.raises(ProtocolError, match=r"signed.*parties"):
        member.check_signed()


def test_every_twin_key_is_told_and_no_other():
    random = [to_key(to_u(SessionKeys().nonce)) for _ in range(12)]
    twins = [all_twins(key) for key in random]
    assert {len(own) for own in twins} == {3, 7}  # on the twist, and on the curve
    for key, own in zip(random, twins, strict=True):
        assert inverse(key) in own
        assert {class_of_secrets(twin) for twin in own} == {class_of_secrets(key)}
        secrets = {SessionKeys().secret_with(key) for key in own}
        assert len(secrets) == len(own)  # of as many different private keys
        private = SessionKeys()
        assert {private.secret_with(twin) for twin in own} == {private.secret_with(key)}
    assert len({class_of_secrets(key) for key in random}) == len(random)


@pytest.mark.parametrize("key", SMALL)
def test_twin_keys_of_no_secret_at_all_are_refused(key):
    with pytest.raises(ValueError, match="small order"):
        class_of_secrets(key)


@pytest.mark.parametrize("number", [P, P + 9, 2**255 - 1, 2**255 + 9])
def test_other_spellings_of_a_key_are_refused(number):
    with pytest.raises(ValueError, match="not canonical"):
        class_of_secrets(number.to_bytes(32, "little"))


# Keys that sign contributions.

_Y8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
"""y of a point of order 8 on the curve of Ed25519."""


@pytest.mark.parametrize("y", [1, P - 1, 0, _Y8, P - _Y8, 1 | 1 << 255, 1 << 255])
def test_signing_keys_of_small_order_are_refused(y):
    with pytest.raises(ValueError, match=r"small order"):
        check_signing_key(y.to_bytes(32, "little"))


@pytest.mark.parametrize("y", [P, P + 1, 2**255 - 1, P + 1 | 1 << 255])
def test_signing_keys_that_are_not_canonical_are_refused(y):
    with pytest.raises(ValueError, match="not canonical"):
        check_signing_key(y.to_bytes(32, "little"))


def test_signing_keys_that_are_no_point_are_refused():
    with pytest.raises(ValueError, match="not a point"):
        check_signing_key((2).to_bytes(32, "little"))


def test_signing_keys_that_are_drawn_are_accepted():
    for _ in range(20):
        check_signing_key(SessionKeys().signing.public_key().public_bytes_raw())


@pytest.mark.parametrize("field", ["exchange_key", "signing_key"])
def test_a_roster_names_who_has_an_unusable_key(field):
    _, own, roster = roster_with({})
    wrong = replace(own[1], **{field: bytes(32)})
    with pytest.raises(AuthenticationError, match=r"'anna'.*usable"):
        replace(roster, introductions=(own[0], wrong, *own[2:])).check_keys()


# The class: whatever keys an adversary makes of others'.


def _private(seed):
    return X25519PrivateKey.from_private_bytes(seed.to_bytes(32, "little"))


@st.composite
def rosters(draw):
    """Honest parties' keys by place, and everybody's public keys, those of the others made of honest ones."""
    n = draw(st.integers(3, 6))
    honest = sorted(draw(st.sets(st.integers(0, n - 1), min_size=2, max_size=n)))
    keys = {place: _private(draw(st.integers(1, 2**250))) for place in honest}
    announced = {place: key.public_key().public_bytes_raw() for place, key in keys.items()}
    scalar = _private(draw(st.integers(1, 2**250)))
    known = [scalar.public_key().public_bytes_raw()]
    for place in sorted(set(range(n)) - set(honest)):
        own = draw(st.sampled_from([*announced.values(), *known]))
        twins = [own, with_top_bit(own), inverse(own), with_top_bit(inverse(own)), *all_twins(own)]
        others = [to_key(-to_u(own)), scalar.exchange(X25519PublicKey.from_public_bytes(own))]
        announced[place] = draw(st.sampled_from(twins + others))
    return keys, [announced[place] for place in range(n)]


@settings(max_examples=60, deadline=None)
@given(rosters())
def test_twin_key_or_not_no_two_masks_of_anybody_are_equal(drawn):
    """Without the check of keys: all streams that honest parties derive are those of different pairs."""
    private, announced = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Roster, "check_keys", lambda self: None)
        patch.setattr(Roster, "__post_init__", lambda self: None)
        names = [f"p{place}" for place in range(len(announced))]
        keys, own = introductions_of(names)
        own = tuple(replace(one, exchange_key=key) for one, key in zip(own, announced, strict=True))
        roster = Roster(bytes(16), STATEMENT, own)
        asked = attempt(members=tuple(range(len(announced))))
        pairs, secrets = {}, pair_secrets(roster, keys)
        for place, exchange in private.items():
            own_keys = replace(keys[place], exchange=exchange)
            session = SecureSession(own_keys, roster, own[place], secrets[place])
            for other, stream in session.streams(asked).items():
                first = tuple(stream.words(4).tolist())
                assert pairs.setdefault(first, {place, other}) == {place, other}
    n, h = len(announced), len(private)
    assert len(pairs) == h * (h - 1) // 2 + h * (n - h)


def introductions_of(names):
    """As `introductions`, all with one certificate: nobody looks at it here."""
    keys = [SessionKeys() for _ in names]
    return keys, [Introduction.of(n, CREDENTIALS["ada"], k) for n, k in zip(names, keys, strict=True)]


@settings(max_examples=60, deadline=None)
@given(rosters())
def test_twin_key_rosters_are_refused_exactly_if_two_keys_give_one_secret(drawn):
    _, announced = drawn
    probe = SessionKeys()
    is_canonical = all(to_key(to_u(key)) == key for key in announced)
    secrets = {probe.secret_with(key) for key in announced}
    names = [f"p{place}" for place in range(len(announced))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Roster, "__post_init__", lambda self: None)
        own = tuple(
            replace(one, exchange_key=key)
            for one, key in zip(introductions_of(names)[1], announced, strict=True)
        )
        roster = Roster(bytes(16), STATEMENT, own)
        if is_canonical and len(secrets) == len(announced):
            roster.check_keys()
        else:
            with pytest.raises(AuthenticationError):
                roster.check_keys()


# Other releases.


def test_twin_key_masks_of_an_earlier_release_are_refused_by_name():
    """An introduction of the first format, and a run that was kept with one."""
    _, (own, *_) = introductions()
    fields = (own.name.encode(), own.certificates, own.nonce, own.exchange_key, own.signing_key)
    first = b"".join(len(p).to_bytes(8, "little") + p for p in (*fields, own.commitment))
    second = b"veilboost introduction 2"
    for text, data in (("1", first), ("2", len(second).to_bytes(8, "little") + second + first)):
        with pytest.raises(ProtocolError, match=rf"format {text}, not 3.*release"):
            Introduction.from_bytes(data)
    member = Agreement("ada", CREDENTIALS["ada"], AllowList(), bytes(16))
    other = Agreement("bob", CREDENTIALS["bob"], AllowList(), bytes(16))
    member.endorse(Roster(bytes(16), STATEMENT, (member.introduction, other.introduction)), STATEMENT, 2)
    kept = member.to_dict()
    Agreement("ada", CREDENTIALS["ada"], AllowList(), bytes(16), kept)
    old = {**{name: value for name, value in kept.items() if name != "format"}, "introduction": first.hex()}
    for spoiled in (old, {**kept, "format": 4}):
        with pytest.raises(ProtocolError, match=r"begun.*release"):
            Agreement("ada", CREDENTIALS["ada"], AllowList(), bytes(16), spoiled)
