"""Signed contributions: what is added, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from gbdt_parties.errors import AuthenticationError, ProtocolError, SumRangeError
from gbdt_parties.secure_sum.contributions import SIGNATURE_BYTES, SecureSession
from gbdt_parties.secure_sum.rings import MODULO_64, MODULO_128
from gbdt_parties.secure_sum.roster import Roster
from secure_sessions import attempt, introductions, pair_secrets, sessions

VECTORS = np.array([[1, -2, 3], [10, 20, -30], [100, 200, 300]])
TOTAL = VECTORS.sum(axis=0).tolist()
PARTIES = sessions()


def sent(asked, ring=MODULO_64, parties=PARTIES):
    return {
        place: parties[place].contribute(asked, ring, ring.from_integers(VECTORS[place]))
        for place in asked.members
    }


def opened(asked, contributions, ring=MODULO_64, party=PARTIES[0], n_values=3, bound=10**6):
    return ring.centred(party.add_up(asked, ring, n_values, contributions), bound).tolist()


@pytest.mark.parametrize("ring", [MODULO_64, MODULO_128])
def test_every_party_opens_the_same_sum(ring):
    asked = attempt()
    contributions = sent(asked, ring)
    for party in PARTIES:
        assert opened(asked, contributions, ring, party) == TOTAL
    assert len(contributions[0]) == 12 + 3 * ring.bits // 8 + SIGNATURE_BYTES


def test_a_sum_over_some_parties():
    asked = attempt(members=(0, 2))
    assert opened(asked, sent(asked), party=PARTIES[2]) == VECTORS[[0, 2]].sum(axis=0).tolist()


def test_a_long_vector_is_masked_in_chunks():
    asked, ring = attempt(), MODULO_128
    values = ring.from_integers(np.arange(40_000))
    sums = {place: party.contribute(asked, ring, values) for place, party in enumerate(PARTIES)}
    assert opened(asked, sums, ring, n_values=40_000) == (3 * np.arange(40_000)).tolist()


@pytest.mark.parametrize(
    "other",
    [attempt(round=2), attempt(number=2), attempt(question=bytes(31) + b"\1"), attempt(members=(0, 1))],
    ids=["round", "attempt", "question", "members"],
)
def test_contributions_to_another_attempt_are_refused(other):
    asked, replayed = attempt(), sent(other)
    contributions = sent(asked)
    contributions[1] = replayed[1]
    with pytest.raises(AuthenticationError, match="'bob' is not signed"):
        opened(asked, contributions)


def test_contributions_of_another_session_are_refused():
    asked = attempt()
    contributions = {**sent(asked), 1: sent(asked, parties=sessions())[1]}
    with pytest.raises(AuthenticationError, match="'bob'"):
        opened(asked, contributions)


@pytest.mark.parametrize("byte", [0, 2, 4, 12, 30, -1])
def test_altered_contributions_are_refused(byte):
    asked, contributions = attempt(), sent(attempt())
    altered = bytearray(contributions[2])
    altered[byte] ^= 1
    with pytest.raises(AuthenticationError, match="'cyd'"):
        opened(asked, {**contributions, 2: bytes(altered)})


@pytest.mark.parametrize("byte", [0, 2, 4, 12, 30, -1])
def test_a_party_refuses_its_own_contribution_if_it_was_altered(byte):
    """It does not verify the signature that it made last, of the same bytes alone."""
    asked, contributions = attempt(), sent(attempt())
    altered = bytearray(contributions[0])
    altered[byte] ^= 1
    assert opened(asked, contributions) == TOTAL
    with pytest.raises(AuthenticationError, match="'ada'"):
        opened(asked, {**contributions, 0: bytes(altered)})


@pytest.mark.parametrize("last", ["asked", "other"])
def test_a_party_refuses_its_own_contribution_to_another_attempt(last):
    asked, other = attempt(), attempt(number=2)
    order = (asked, other) if last == "other" else (other, asked)
    given = {one.number: sent(one) for one in order}
    contributions, replayed = given[asked.number], given[other.number]
    with pytest.raises(AuthenticationError, match="'ada'"):
        opened(asked, {**contributions, 0: replayed[0]})


def test_a_party_opens_a_sum_after_it_has_answered_another_attempt():
    asked = attempt()
    contributions = sent(asked)
    sent(attempt(number=2))
    assert opened(asked, contributions) == TOTAL


def test_a_contribution_in_the_place_of_another_party_is_refused():
    contributions = sent(attempt())
    with pytest.raises(AuthenticationError, match="'bob'"):
        opened(attempt(), {**contributions, 1: contributions[0]})


@pytest.mark.parametrize(
    "cut", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: b"", lambda d: d + bytes(8)]
)
def test_contributions_of_another_length_are_refused(cut):
    contributions = sent(attempt())
    contributions[1] = cut(contributions[1])
    with pytest.raises(ProtocolError, match=r"'bob'.*3 values"):
        opened(attempt(), contributions)


@pytest.mark.parametrize("places", [(0, 1), (0, 1, 2, 3), ()])
def test_contributions_of_others_than_the_members_are_refused(places):
    contributions = sent(attempt())
    with pytest.raises(ProtocolError, match="contribution of each member"):
        opened(attempt(), {place: contributions.get(place, contributions[0]) for place in places})


def test_a_signed_vector_modulo_another_number_is_refused():
    asked, contributions = attempt(), sent(attempt())
    doubled = np.array([1, 2, 3, 4, 5, 6])[:3]
    values = MODULO_128.from_integers(doubled)
    contributions[1] = PARTIES[1].contribute(asked, MODULO_128, values)
    with pytest.raises(ProtocolError, match="values asked for"):
        opened(asked, contributions)
    with pytest.raises(ProtocolError, match="of other numbers"):
        PARTIES[0].add_up(
            attempt(members=(1, 2)),
            MODULO_64,
            2,
            {
                1: PARTIES[1].contribute(attempt(members=(1, 2)), MODULO_128, values[:1]),
                2: PARTIES[2].contribute(attempt(members=(1, 2)), MODULO_64, values[:2, 0]),
            },
        )


def test_a_sum_out_of_range_fails():
    with pytest.raises(SumRangeError):
        opened(attempt(), sent(attempt()), bound=272)


@pytest.mark.parametrize("members", [(), (1, 0), (0, 0, 1), (0, 3), (-1, 0), (1, 2)])
def test_impossible_sets_of_members_are_refused(members):
    with pytest.raises(ProtocolError, match=r"member"):
        replace(attempt(), members=members).check(0, PARTIES[0].roster, 1)


@pytest.mark.parametrize("wrong", [{"number": 0}, {"number": -1}, {"number": 2**63}, {"round": -1}])
def test_attempts_have_numbers(wrong):
    with pytest.raises(ProtocolError, match="numbered"):
        replace(attempt(), **wrong).check(0, PARTIES[0].roster, 1)


def test_a_party_demands_others():
    asked = attempt(members=(0, 1))
    asked.check(0, PARTIES[0].roster, 2)
    with pytest.raises(ProtocolError, match="demands at least 3"):
        asked.check(0, PARTIES[0].roster, 3)


def test_keys_with_which_everybody_gets_the_same_secret_are_refused():
    keys, own = introductions()
    roster = replace(
        PARTIES[0].roster, introductions=(own[0], own[1], replace(own[2], exchange_key=bytes(32)))
    )
    with pytest.raises(AuthenticationError, match="not usable"):
        SecureSession(keys[0], roster, own[0], pair_secrets(roster, keys)[0])


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (dict(round=-1), "numbered from 0 and 1"),
        (dict(round=2**63), "numbered from 0 and 1"),
        (dict(number=0), "numbered from 0 and 1"),
        (dict(number=2**63), "numbered from 0 and 1"),
        (dict(members=()), "different places"),
        (dict(members=(0, 0, 1)), "different places"),
        (dict(members=(1, 0)), "different places"),
        (dict(members=(-1, 0)), "different places"),
        (dict(members=(0, 3)), "different places"),
        (dict(members=(1, 2)), "not a member"),
        (dict(members=(0,)), "demands at least 2"),
    ],
)
def test_attempts_that_are_out_of_order_are_refused(changed, text):
    with pytest.raises(ProtocolError, match=text):
        replace(attempt(), **changed).check(0, PARTIES[0].roster, 2)


@pytest.mark.parametrize(
    "changed", [dict(round=0), dict(round=2**63 - 1, number=2**63 - 1), dict(members=(0, 2))]
)
def test_attempts_in_order_are_accepted(changed):
    replace(attempt(), **changed).check(0, PARTIES[0].roster, 2)
    replace(attempt(), **changed).check(None, PARTIES[0].roster, 2)


def test_a_coordinator_opens_sums_of_others():
    replace(attempt(), members=(1, 2)).check(None, PARTIES[0].roster, 2)


def test_no_session_begins_with_a_key_made_of_another_ones():
    keys, own = introductions()
    twin = bytearray(own[0].exchange_key)
    twin[31] ^= 0x80  # the same point
    roster = Roster(bytes(16), bytes(32), (own[0], replace(own[1], exchange_key=bytes(twin)), own[2]))
    with pytest.raises(AuthenticationError, match="public key"):
        SecureSession(keys[2], roster, own[2], pair_secrets(roster, keys)[2])
