"""Hybrid masks: what a coordinator can do to ciphertexts, and what both halves of a secret are good for."""

from dataclasses import replace

import numpy as np
import pytest

from gbdt_parties.errors import AuthenticationError, ProtocolError
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.secure_sum.contributions import SIGNATURE_BYTES, SecureSession
from gbdt_parties.secure_sum.encapsulations import CIPHERTEXT_BYTES, Encapsulations, PairSecrets, forwarded_to
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.messages import pack, unpack
from gbdt_parties.secure_sum.rings import MODULO_64
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from secure_sessions import CREDENTIALS, NAMES, STATEMENT, attempt, introductions, pair_secrets

RUN = bytes(16)


def agreed():
    """Three parties that have signed one roster, and what they sent."""
    found = [Agreement(name, CREDENTIALS[name], AllowList(), RUN) for name in NAMES]
    roster = Roster(RUN, STATEMENT, tuple(one.introduction for one in found))
    signatures = [one.endorse(roster, STATEMENT, 2) for one in found]
    return found, roster, signatures, [one.encapsulated() for one in found]


def test_hybrid_secrets_are_those_of_both_sides_and_of_no_other_pair():
    found, _, signatures, sent = agreed()
    for place, one in enumerate(found):
        one.confirm(signatures, forwarded_to(place, NAMES, sent))
    pairs = [one.pairs() for one in found]
    assert len({one.digest for one in pairs}) == 1
    shared = {frozenset((k, j)): s for k, one in enumerate(pairs) for j, s in one.secrets.items()}
    assert all(
        pairs[k].secrets[j] == pairs[j].secrets[k] == shared[frozenset((k, j))]
        for k in (1, 2)
        for j in range(k)
    )
    assert len(set(shared.values())) == 3


def with_part(k, change):
    return lambda parts, sent: [change(part) if j == k else part for j, part in enumerate(parts)]


def flipped(part):
    return part[:-1] + bytes([part[-1] ^ 1])


@pytest.mark.parametrize(
    ("alter", "match"),
    [
        (lambda parts, _: parts[:-1], "4 parts"),  # omitted
        (lambda parts, _: [*parts, parts[-1]], "6 parts"),
        (lambda parts, _: [*parts[:3], parts[4], parts[3]], "ciphertext of party 'bob'"),  # exchanged
        (with_part(4, flipped), "ciphertext of party 'cyd'"),
        (with_part(4, lambda part: part[:-1]), "ciphertext of party 'cyd'"),
        (with_part(4, lambda _: b""), "ciphertext of party 'cyd'"),
        (with_part(2, flipped), "'cyd' are not those"),
        (with_part(2, lambda part: part[:-32]), "'cyd' are not those"),
        (with_part(1, lambda part: part[:64]), "'bob' are not those"),
        (lambda parts, sent: [], "0 parts"),
    ],
)
def test_hybrid_ciphertexts_that_a_coordinator_alters_are_refused_by_name(alter, match):
    found, _, signatures, sent = agreed()
    parts = unpack(forwarded_to(0, NAMES, sent))
    with pytest.raises((AuthenticationError, ProtocolError), match=match):
        found[0].confirm(signatures, pack(alter(parts, sent)))
    with pytest.raises(ProtocolError, match="signed"):
        found[0].check_signed()
    found[0].confirm(signatures, pack(parts))


def test_a_hybrid_ciphertext_of_another_attempt_to_agree_is_refused():
    """Also one that the same party made for the same key, in another run or a second time."""
    found, roster, signatures, sent = agreed()
    again = Encapsulations.to_earlier(roster, 2)
    repeated = [*sent[:2], sent[2][:SIGNATURE_BYTES] + again.ciphertexts]
    with pytest.raises(AuthenticationError, match="'cyd' are not those"):
        found[0].confirm(signatures, forwarded_to(0, NAMES, repeated))
    assert found[2].encapsulated() == sent[2]
    # Of cyd's own signing: cyd sees that others were shown what it has not sent for this roster.
    other = again.signed(roster, 2, found[2].keys)
    with pytest.raises(AuthenticationError, match="'cyd' are not those"):
        found[2].confirm(signatures, forwarded_to(2, NAMES, [*sent[:2], other]))
    found[0].confirm(signatures, forwarded_to(0, NAMES, sent))
    with pytest.raises(ProtocolError, match="other ciphertexts"):
        found[0].confirm(signatures, forwarded_to(0, NAMES, [*sent[:2], other]))
    moved = replace(roster, session=b"1" * 16)
    with pytest.raises(AuthenticationError, match="'ada' are not those"):
        PairSecrets.of(moved, 0, found[0].keys, Encapsulations(b"", b""), forwarded_to(0, NAMES, sent))


def test_parties_that_were_shown_different_ciphertexts_open_no_sum():
    """Cyd signs two lists, for ada and for bob: their contributions are of different confirmed rosters."""
    keys, own = introductions()
    roster = Roster(RUN, STATEMENT, tuple(own))
    pairs = pair_secrets(roster, keys)
    other = pair_secrets(roster, keys)[1]
    assert other.digest != pairs[0].digest
    first, second = (SecureSession(keys[k], roster, own[k], p) for k, p in ((0, pairs[0]), (1, other)))
    values, asked = MODULO_64.from_integers(np.arange(3)), attempt(members=(0, 1))
    sent = {k: one.contribute(asked, MODULO_64, values) for k, one in enumerate((first, second))}
    with pytest.raises(AuthenticationError, match="'bob' is not signed"):
        first.add_up(asked, MODULO_64, 3, sent)


@pytest.mark.parametrize("half", ["X25519", "ML-KEM-768"])
def test_hybrid_masks_stay_secret_if_one_half_is_known(half):
    """Whoever knows one half of a secret, the other one being another, has other streams."""
    keys, own = introductions()
    roster = Roster(RUN, STATEMENT, tuple(own))
    pairs = pair_secrets(roster, keys)[0]
    known = keys[0], pairs
    if half == "X25519":
        known = keys[0], replace(pairs, secrets=dict.fromkeys(pairs.secrets, bytes(32)))
    else:
        known = replace(keys[0], exchange=SessionKeys().exchange), pairs
    right, guessed = (
        SecureSession(k, roster, own[0], p).streams(attempt()) for k, p in ((keys[0], pairs), known)
    )
    for place in (1, 2):
        assert right[place].words(4).tolist() != guessed[place].words(4).tolist()


def test_hybrid_secrets_survive_a_restart():
    found, _, signatures, sent = agreed()
    for place, one in enumerate(found):
        one.confirm(signatures, forwarded_to(place, NAMES, sent))
    kept = found[1].to_dict()
    again = Agreement("bob", CREDENTIALS["bob"], AllowList(), RUN, kept)
    again.take_up(kept, STATEMENT, 2)
    assert again.pairs() == found[1].pairs()
    with pytest.raises(ProtocolError, match="parts"):
        Agreement("bob", CREDENTIALS["bob"], AllowList(), RUN, kept).take_up(
            {**kept, "ciphertexts": ""}, STATEMENT, 2
        )


@pytest.mark.parametrize("key", ["another length", "no polynomial", "twin"])
def test_hybrid_keys_that_are_none_or_another_one_s_are_refused(key):
    _, own = introductions()
    other = {"another length": bytes(1183), "no polynomial": b"\xff" * 1184, "twin": own[1].kem_key}[key]
    introduced = (replace(own[0], kem_key=other), *own[1:])

    def read():
        roster = Roster.from_bytes(Roster(RUN, STATEMENT, introduced).to_bytes())
        Encapsulations.to_earlier(roster, 1)

    with pytest.raises((ProtocolError, AuthenticationError), match=r"ML-KEM-768|same kem key|1184"):
        read()


def test_a_party_that_sends_other_than_one_hybrid_ciphertext_for_each_earlier_one_is_named():
    *_, sent = agreed()
    for wrong in (sent[1][:-1], sent[1] + bytes(CIPHERTEXT_BYTES), b""):
        with pytest.raises(ProtocolError, match="'bob' sent"):
            forwarded_to(0, NAMES, [sent[0], wrong, sent[2]])


def test_twenty_parties_agree_on_hybrid_secrets_within_their_allowance():
    names = [f"hospital-{k}.example" for k in range(20)]
    found = [Agreement(name, Credentials.self_signed(name), AllowList(), RUN) for name in names]
    roster = Roster(RUN, STATEMENT, tuple(one.introduction for one in found))
    signatures = [one.endorse(roster, STATEMENT, 20) for one in found]
    sent = [one.encapsulated() for one in found]
    for place, one in enumerate(found):
        one.confirm(signatures, forwarded_to(place, names, sent))
    assert len({one.pairs().digest for one in found}) == 1
    assert max(len(one.to_bytes()) for one in roster.introductions) <= 2500
    assert sum(map(len, (*signatures, *sent))) <= 190 * 1.1 * 1024
