import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbdt_parties.errors import AuthenticationError, ProtocolError
from gbdt_parties.secure_sum.membership import AllParties, Membership, PresentParties
from gbdt_parties.secure_sum.rings import MODULO_64
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials

SESSION, STATEMENT = bytes(16), bytes(32)


def members(n=3, statement=STATEMENT):
    found = [Membership(name, Credentials.self_signed(name), AllowList(), SESSION) for name in "abcdef"[:n]]
    roster = Roster(SESSION, statement, tuple(one.introduction for one in found))
    signatures = [one.endorse(roster, statement, n) for one in found]
    seeds = [one.reveal(signatures) for one in found]
    assert len({one.begin(seeds) for one in found}) == 1
    return found


def attempt_of(one, question):
    """The next attempt of a party, at a question over all parties."""
    return one.attempt([question], one.n_opened + 1, range(one.n_parties))


def answers(found, question, values):
    return {
        k: b"".join(
            one.parts()[1].contribute(attempt_of(one, question), MODULO_64, MODULO_64.from_integers(own))
        )
        for k, (one, own) in enumerate(zip(found, values, strict=True))
    }


def opened(one, question, n_values, contributions):
    attempt = attempt_of(one, question)
    total = one.parts()[1].add_up(attempt, MODULO_64, n_values, contributions)
    one.note_opened(attempt, total)
    return total


def test_everybody_opens_the_same_sums_one_after_the_other():
    found = members()
    for number, values in enumerate([([1, -2], [3, 4], [5, 6]), ([7], [8], [-9])]):
        question = b"question %d" % number
        contributions = answers(found, question, values)
        assert contributions == answers(found, question, values)
        for one in found:
            AllParties().check((number, number + 1), [0, 1, 2], one.n_opened, one.n_parties)
            total = opened(one, question, len(values[0]), contributions)
            assert MODULO_64.centred(total, 100).tolist() == [sum(own) for own in zip(*values, strict=True)]


def test_answers_to_another_question_or_round_are_not_opened():
    found = members()
    contributions = answers(found, b"one", ([1], [2], [3]))
    with pytest.raises(AuthenticationError, match=r"signed.*attempt"):
        opened(found[0], b"another", 1, contributions)
    opened(found[0], b"one", 1, contributions)
    with pytest.raises(AuthenticationError, match=r"signed.*attempt"):
        opened(found[0], b"one", 1, contributions)


@pytest.mark.parametrize("asked", [(1, 2, [0, 1, 2]), (0, 2, [0, 1, 2]), (0, 1, [0, 1]), (0, 1, [0, 2, 1])])
def test_other_rounds_and_members_are_refused(asked):
    one = members()[0]
    with pytest.raises(ProtocolError, match="asked for"):
        AllParties().check(asked[:2], asked[2], one.n_opened, one.n_parties)


def test_sums_over_the_parties_that_are_there_are_of_the_next_round():
    rule = PresentParties(2)
    for asked in ((1, 7), (3, 7)):
        with pytest.raises(ProtocolError, match=f"{asked[0]} was asked.*2.*next"):
            rule.check(asked, [0, 2], 2, 3)
    rule.check((2, 7), [0, 2], 2, 3)


def test_a_party_reveals_nothing_before_all_have_signed_the_same_roster():
    found = [Membership(name, Credentials.self_signed(name), AllowList(), SESSION) for name in "ab"]
    roster = Roster(SESSION, STATEMENT, tuple(one.introduction for one in found))
    own, other = (one.endorse(roster, STATEMENT, 2) for one in found)
    for signatures in ([own], [own, own], [other, own], [own, bytes(len(other))]):
        with pytest.raises(AuthenticationError):
            found[0].reveal(signatures)
        with pytest.raises(ProtocolError, match=r"signed.*parties"):
            found[0].parts()
    assert found[0].reveal([own, other])


def test_rosters_are_checked():
    own, other, third = (
        Membership(name, Credentials.self_signed(name), AllowList(), SESSION) for name in ("own", "b", "c")
    )
    both = (own.introduction, other.introduction)
    strangers = (other.introduction, third.introduction)
    for roster, match in (
        (Roster(b"1" * 16, STATEMENT, both), "of another run"),
        (Roster(SESSION, b"1" * 32, both), "other settings"),
        (Roster(SESSION, STATEMENT, strangers), "not in the roster"),
    ):
        with pytest.raises(ProtocolError, match=match):
            own.endorse(roster, STATEMENT, 2)
    with pytest.raises(ProtocolError, match="at least 3"):
        own.endorse(Roster(SESSION, STATEMENT, both), STATEMENT, 3)
    with pytest.raises(ProtocolError, match="no roster yet"):
        own.reveal([])
    with pytest.raises(ProtocolError, match=r"signed.*parties"):
        own.begin([])


@given(n=st.integers(2, 1000), min_parties=st.integers(2, 1000))
def test_any_two_ends_of_a_run_have_a_signer_in_common(n, min_parties):
    assert 2 * PresentParties(min_parties).least_at_end(n) > n
    assert PresentParties(min_parties).least_at_end(n) >= min_parties
    assert AllParties().least_at_end(n) == n
