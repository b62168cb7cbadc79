import pytest

from gbdt_parties.errors import AuthenticationError, ProtocolError
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials

RUN, STATEMENT = bytes(16), bytes(32)
SIGNED_BY = {name: Credentials.self_signed(name) for name in ("ada", "bob", "cyd")}


def agreement(name, **settings):
    return Agreement(name, SIGNED_BY[name], settings.pop("allowed", AllowList()), RUN, **settings)


def agreed(*names):
    """Parties that have signed one roster."""
    found = [agreement(name) for name in names or SIGNED_BY]
    roster = Roster(RUN, STATEMENT, tuple(one.introduction for one in found))
    signatures = [one.endorse(roster, STATEMENT, 2) for one in found]
    for one in found:
        one.confirm(signatures)
    return found


@pytest.mark.parametrize("are_revealed", [False, True])
def test_all_parties_have_one_public_stream_that_no_other_run_has(are_revealed):
    seeds = set()
    for _ in range(2):
        found = agreed()
        if are_revealed:
            for one in found:
                one.begin([other.keys.seed for other in found])
        (seed,) = {one.public_seed for one in found}
        seeds.add(seed)
    assert len(seeds) == 2


@pytest.mark.parametrize("are_revealed", [False, True])
def test_an_agreement_is_taken_up_as_it_was_and_checked_again(are_revealed):
    found = agreed()
    if are_revealed:
        found[0].begin([other.keys.seed for other in found])
    kept = found[0].to_dict()
    again = agreement("ada", kept=kept)
    again.take_up(kept, STATEMENT, 2)
    assert again.introduction == found[0].introduction
    assert again.roster == found[0].roster
    assert again.public_seed == found[0].public_seed
    assert again.to_dict() == kept
    with pytest.raises(ProtocolError, match="settings, columns"):
        agreement("ada", kept=kept).take_up(kept, b"1" * 32, 2)
    with pytest.raises(AuthenticationError, match=r"'bob'.*allow-list"):
        agreement("ada", kept=kept, allowed=AllowList(())).take_up(kept, STATEMENT, 2)
    spoiled = {**kept, "signatures": kept["signatures"][::-1]}
    with pytest.raises(AuthenticationError, match=r"signed.*certificate"):
        agreement("ada", kept=kept).take_up(spoiled, STATEMENT, 2)
    with pytest.raises(ProtocolError, match="another release"):
        agreement("ada", kept={**kept, "format": -1})


def test_seeds_are_those_that_the_parties_are_committed_to():
    found = agreed()
    seeds = [one.keys.seed for one in found]
    for others in ([], seeds[:2], seeds[::-1], [*seeds[:2], bytes(32)]):
        with pytest.raises(ProtocolError, match="committed"):
            found[0].begin(others)


def test_nothing_begins_before_all_have_signed_the_same_roster():
    found = [agreement(name) for name in ("ada", "bob")]
    with pytest.raises(ProtocolError, match="no roster yet"):
        found[0].confirm([])
    roster = Roster(RUN, STATEMENT, tuple(one.introduction for one in found))
    own, other = (one.endorse(roster, STATEMENT, 2) for one in found)
    for signatures in ([own], [own, own], [other, own], [own, bytes(len(other))]):
        with pytest.raises(AuthenticationError):
            found[0].confirm(signatures)
        with pytest.raises(ProtocolError, match=r"signed.*parties"):
            found[0].begin([one.keys.seed for one in found])
        with pytest.raises(ProtocolError, match=r"signed.*parties"):
            _ = found[0].public_seed


def test_rosters_are_checked():
    own, other, third = (agreement(name) for name in SIGNED_BY)
    both = own.introduction, other.introduction
    strangers = other.introduction, third.introduction
    for roster, match in (
        (Roster(b"1" * 16, STATEMENT, both), "of another run"),
        (Roster(RUN, b"1" * 32, both), "other settings"),
        (Roster(RUN, STATEMENT, strangers), "not in the roster"),
    ):
        with pytest.raises(ProtocolError, match=match):
            own.endorse(roster, STATEMENT, 2)
    with pytest.raises(ProtocolError, match="at least 3"):
        own.endorse(Roster(RUN, STATEMENT, both), STATEMENT, 3)
    with pytest.raises(ProtocolError, match="at most 2"):
        own.endorse(Roster(RUN, STATEMENT, (*both, third.introduction)), STATEMENT, 2, 2)
    own.endorse(Roster(RUN, STATEMENT, both), STATEMENT, 2)
    with pytest.raises(ProtocolError, match="roster was signed"):
        own.endorse(Roster(RUN, STATEMENT, both[::-1]), STATEMENT, 2)
