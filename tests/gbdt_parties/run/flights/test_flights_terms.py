"""Terms of a run follow from its signed roster, and are refused out of range."""

from dataclasses import replace

import pytest

from gbdt_parties.errors import AuthenticationError, PartyArgumentError, ProtocolError
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.run.flights.terms import Terms
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials, key_pin
from two_party_flights import SEATS, terms_of

pytest.importorskip("nacl")


def agreements(*names):
    """Parties that have signed one roster."""
    found = [Agreement(name, Credentials.self_signed(name), AllowList(), b"s" * 16) for name in names]
    roster = Roster(b"s" * 16, b"t" * 32, tuple(one.introduction for one in found))
    signatures = [one.endorse(roster, b"t" * 32, 2) for one in found]
    for one in found:
        one.confirm(signatures)
    return found


def test_terms_follow_from_a_signed_roster():
    both = agreements("hospital", "bank")
    terms = [Terms.of(one, 3) for one in both]
    assert [one.run for one in terms] == [both[0].roster.of_draws] * 2
    assert (terms[0].own, terms[0].other) == (terms[1].other, terms[1].own)
    assert [one.name for one in terms] == ["bank", "hospital"]
    assert terms[0].peer == key_pin(both[1].introduction.certificates)
    assert terms[0].seed == both[0].keys.seed != terms[1].seed
    assert "seed" not in repr(terms[0])
    with pytest.raises(ProtocolError, match=r"signed.*parties"):
        Terms.of(Agreement("bank", Credentials.self_signed("bank"), AllowList(), b"s" * 16), 3)
    with pytest.raises(PartyArgumentError, match="3 parties"):
        Terms.of(agreements("hospital", "bank", "shop")[0], 3)
    both[0].keys = replace(both[0].keys, seed=b"s" * 32)
    with pytest.raises(PartyArgumentError, match="another seed"):
        Terms.of(both[0], 3)


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
