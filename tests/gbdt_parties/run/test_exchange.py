from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbdt_parties.errors import AuthenticationError, ProtocolError
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.run.exchange import MaskedSums, Participation
from gbdt_parties.secure_sum.encapsulations import forwarded_to
from gbdt_parties.secure_sum.rings import MODULO_64
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials

RUN, STATEMENT = bytes(16), bytes(32)


class Numbers:
    ring = MODULO_64

    def __init__(self, what, n_values=1):
        self.parts, self.n_values = [what], n_values


def sides(n=3):
    found = [Agreement(name, Credentials.self_signed(name), AllowList(), RUN) for name in "abcdef"[:n]]
    roster = Roster(RUN, STATEMENT, tuple(one.introduction for one in found))
    signatures = [one.endorse(roster, STATEMENT, n) for one in found]
    sent, names = [one.encapsulated() for one in found], roster.names
    for place, one in enumerate(found):
        one.confirm(signatures, forwarded_to(place, names, sent))
        one.begin([other.keys.seed for other in found])
    return [MaskedSums(one, Participation(), n) for one in found]


def attempt_of(one, question, is_own=True):
    """The next attempt of a party, over all parties."""
    asked = one.n_opened, one.n_opened + 1
    return one.attempt(question, asked, range(len(one.roster.names)), is_own=is_own)


def answers(found, question, values):
    return {
        k: one.masked(attempt_of(one, question), question, MODULO_64.from_integers(own))
        for k, (one, own) in enumerate(zip(found, values, strict=True))
    }


def opened(one, question, contributions):
    attempt = attempt_of(one, question, False)
    total = one.total(attempt, question, contributions)
    one.note_opened(attempt, total)
    return total


def test_everybody_opens_the_same_sums_one_after_the_other():
    found = sides()
    for number, values in enumerate([([1, -2], [3, 4], [5, 6]), ([7], [8], [-9])]):
        question = Numbers(b"question %d" % number, len(values[0]))
        contributions = answers(found, question, values)
        assert contributions == answers(found, question, values)
        for one in found:
            total = opened(one, question, contributions)
            assert MODULO_64.centred(total, 100).tolist() == [sum(own) for own in zip(*values, strict=True)]


def test_answers_to_another_question_or_round_are_not_opened():
    found = sides()
    contributions = answers(found, Numbers(b"one"), ([1], [2], [3]))
    with pytest.raises(AuthenticationError, match=r"signed.*attempt"):
        opened(found[0], Numbers(b"another"), contributions)
    opened(found[0], Numbers(b"one"), contributions)
    with pytest.raises(AuthenticationError, match=r"signed.*attempt"):
        opened(found[0], Numbers(b"one"), contributions)


@pytest.mark.parametrize("asked", [(1, 2, [0, 1, 2]), (0, 2, [0, 1, 2]), (0, 1, [0, 1]), (0, 1, [0, 2, 1])])
def test_other_rounds_and_members_are_refused(asked):
    with pytest.raises(ProtocolError, match="asked for"):
        sides()[0].attempt(Numbers(b"one"), asked[:2], asked[2], is_own=True)


def test_sums_over_the_parties_that_are_there_are_of_the_next_round():
    rule = Participation(2)
    for asked in ((1, 7), (3, 7)):
        with pytest.raises(ProtocolError, match=f"round {asked[0]}, attempt 7.*round 2"):
            rule.check(asked, [0, 2], 2, 3)
    rule.check((2, 7), [0, 2], 2, 3)


@given(n=st.integers(2, 1000), min_parties=st.integers(2, 1000))
def test_any_two_ends_of_a_run_have_a_signer_in_common(n, min_parties):
    assert 2 * Participation(min_parties).least_at_end(n) > n
    assert Participation(min_parties).least_at_end(n) >= min_parties
    assert Participation().least_at_end(n) == n


def test_noise_is_bound_to_the_round_the_members_and_the_question_and_not_to_a_number_of_choice():
    agreed = sides()[0]
    one = attempt_of(agreed, Numbers(b"what"))
    key = agreed.noise_key(one)
    assert agreed.noise_key(replace(one, number=9)) == key
    others = {"round": 1, "members": (0, 1), "question": bytes(32)}
    keys = {agreed.noise_key(replace(one, **{name: value})) for name, value in others.items()}
    assert len(keys | {key}) == 4
    assert sides()[0].noise_key(one) not in {key, *keys}
