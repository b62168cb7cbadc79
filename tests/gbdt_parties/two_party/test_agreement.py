"""How two parties come to the terms of a run: introductions, a roster that both sign, and what is kept."""

import json
from dataclasses import replace

import pytest

from gbdt_parties.errors import AuthenticationError, ProtocolError
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from gbdt_parties.two_party.exchange.agreement import Agreement

RUN, STATEMENT = b"r" * 16, b"s" * 32
NAMES = "hospital", "bank"


def agreements(allowed=AllowList()):  # noqa: B008 (frozen)
    credentials = [Credentials.self_signed(name) for name in NAMES]
    return credentials, [
        Agreement(name, own, allowed, RUN) for name, own in zip(NAMES, credentials, strict=True)
    ]


def roster_of(both, **change):
    values = {
        "session": RUN,
        "statement": STATEMENT,
        "introductions": tuple(one.introduction for one in both),
    }
    return Roster(**{**values, **change})


def signed(both):
    roster = roster_of(both)
    signatures = [one.endorse(roster, STATEMENT) for one in both]
    for one in both:
        one.confirm(signatures)
    return signatures


def test_both_sides_have_the_same_run_and_public_stream_and_secrets_of_their_own():
    _, both = agreements()
    signed(both)
    terms = [one.terms(3) for one in both]
    assert terms[0].run == terms[1].run
    assert (terms[0].own, terms[0].other) == (terms[1].other, terms[1].own)
    assert terms[0].seed != terms[1].seed
    assert both[0].public_seed == both[1].public_seed
    assert both[0].public_seed not in (terms[0].seed, terms[1].seed, terms[0].run)
    _, others = agreements()
    signed(others)
    assert len(both[0].public_seed) == len(others[0].public_seed) == 32
    assert both[0].public_seed != others[0].public_seed


def test_a_kept_agreement_gives_the_same_terms():
    credentials, both = agreements()
    signed(both)
    for one, own in zip(both, credentials, strict=True):
        kept = json.loads(json.dumps(one.to_dict()))
        again = Agreement.kept(kept, own, AllowList(), RUN)
        assert (again.terms(3).run, again.terms(3).seed) == (one.terms(3).run, one.terms(3).seed)
        assert again.public_seed == one.public_seed
        with pytest.raises(AuthenticationError, match="allow-list"):
            Agreement.kept(kept, own, AllowList([]), RUN)
        with pytest.raises(ProtocolError, match="another release"):
            Agreement.kept({**kept, "format": 0}, own, AllowList(), RUN)
        with pytest.raises(ProtocolError, match="of another run"):
            Agreement.kept(kept, own, AllowList(), b"q" * 16)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"session": b"q" * 16}, "of another run"),
        ({"statement": b"t" * 32}, "settings, columns"),
    ],
)
def test_rosters_of_other_runs_and_settings_are_not_signed(change, text):
    _, both = agreements()
    with pytest.raises(ProtocolError, match=text):
        both[0].endorse(roster_of(both, **change), STATEMENT)


@pytest.mark.parametrize(
    ("key", "purpose"), [("exchange_key", "masks"), ("signing_key", "signatures")], ids=str
)
def test_rosters_with_keys_that_protect_nothing_are_not_signed(key, purpose):
    _, both = agreements()
    weak = replace(both[1].introduction, **{key: bytes(32)})
    with pytest.raises(AuthenticationError, match=f"{purpose}.*'bank'.*usable"):
        both[0].endorse(roster_of(both, introductions=(both[0].introduction, weak)), STATEMENT)


def test_rosters_of_others_are_not_signed():
    _, both = agreements()
    _, others = agreements()
    with pytest.raises(ProtocolError, match="in the roster"):
        both[0].endorse(roster_of(others), STATEMENT)
    third = Agreement("third", Credentials.self_signed("third"), AllowList(), RUN)
    with pytest.raises(ProtocolError, match="3 parties"):
        both[0].endorse(roster_of([*both, third]), STATEMENT)
    with pytest.raises(ProtocolError, match="no roster yet"):
        both[0].terms(3)
    signed(both)
    with pytest.raises(ProtocolError, match="roster was signed"):
        both[0].endorse(roster_of([both[0], others[1]]), STATEMENT)


def test_only_both_signatures_confirm():
    _, both = agreements()
    roster = roster_of(both)
    signatures = [one.endorse(roster, STATEMENT) for one in both]
    for wrong in (signatures[:1], signatures[::-1], [signatures[0]] * 2):
        with pytest.raises(AuthenticationError):
            both[0].confirm(wrong)
    with pytest.raises(AuthenticationError):
        both[0].terms(3)
