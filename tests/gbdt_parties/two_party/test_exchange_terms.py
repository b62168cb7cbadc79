"""Terms of a run follow from its signed roster, and are refused out of range."""

from dataclasses import replace

import pytest

from gbdt_parties.errors import AuthenticationError, PartyArgumentError
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.roster import Introduction, Roster
from gbdt_parties.secure_sum.trust import Credentials, fingerprint
from gbdt_parties.two_party.exchange.terms import Terms
from two_party_exchange import SEATS, terms_of

pytest.importorskip("nacl")


def test_terms_follow_from_a_signed_roster():
    keys = [SessionKeys(), SessionKeys()]
    credentials = [Credentials.self_signed(name) for name in ("hospital", "bank")]
    introductions = tuple(
        Introduction.of(name, one, key)
        for name, one, key in zip(("hospital", "bank"), credentials, keys, strict=True)
    )
    roster = Roster(b"s" * 16, b"t" * 32, introductions)
    signatures = [one.sign(roster.digest) for one in credentials]
    terms = [Terms.of(roster, signatures, introductions[k], keys[k], 3) for k in (0, 1)]
    assert [one.run for one in terms] == [roster.digest] * 2
    assert (terms[0].own, terms[0].other) == (terms[1].other, terms[1].own)
    assert [one.name for one in terms] == ["bank", "hospital"]
    assert terms[0].peer == "sha256:" + fingerprint(credentials[1].certificates).hex()
    assert terms[0].seed == keys[0].seed
    assert "seed" not in repr(terms[0])
    with pytest.raises(AuthenticationError, match="not signed"):
        Terms.of(roster, signatures[::-1], introductions[0], keys[0], 3)
    with pytest.raises(PartyArgumentError, match="another seed"):
        Terms.of(roster, signatures, introductions[0], replace(keys[0], seed=b"s" * 32), 3)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"run": b"run"}, PartyArgumentError, "run of 3 bytes"),
        ({"seed": b"seed"}, PartyArgumentError, "seed of 4 bytes"),
        ({"n_rounds": 0}, PartyArgumentError, "n_rounds=0"),
        ({"n_rounds": 60_001}, PartyArgumentError, "n_rounds=60001"),
        ({"other": SEATS[0]}, PartyArgumentError, "differ in place"),
        ({"other": replace(SEATS[1], key=bytes(32))}, AuthenticationError, "not usable"),
    ],
)
def test_terms_out_of_range_are_refused(change, error, text):
    with pytest.raises(error, match=text):
        replace(terms_of(0), **change)


@pytest.mark.parametrize(("n_rounds", "most"), [(1, 6), (100, 105), (101, 107), (60_000, 63_000)])
def test_attempts_are_a_twentieth_more_than_rounds(n_rounds, most):
    assert replace(terms_of(0), n_rounds=n_rounds).max_attempts == most
