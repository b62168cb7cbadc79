"""Two neighbouring minor versions understand each other; others refuse each other with both numbers."""

from functools import partial

import numpy as np
import pytest

from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import PartyRefusedError, ProtocolError
from gbdt_parties.messages import Done, Finish, Int64s, Integer, Message
from gbdt_parties.protocol import Addition
from gbdt_parties.session import SessionHandler
from gbdt_parties.traffic import Traffic
from two_builds import Build, PartyOfBuild, process_of_build
from xgb_fed import HorizontalParty, train_exact

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.FewPartiesWarning")


class Ordered(Message, kind=60_001):
    """A request that a later build has given two fields."""

    n: Integer
    most: Integer
    places: Int64s


class Told(Message, kind=60_002):
    """An answer that only a later build has."""

    n: Integer


class Former(Message, kind=60_003):
    """The request as the former build knows it."""

    n: Integer


ADDED = {
    "Ordered.most": Addition(3, 7),
    "Ordered.places": Addition(3, np.empty(0, dtype=np.int64)),
    "Told": Addition(3),
}
FORMER = Build(2, 2, kinds={Ordered.kind: Former})
NEW = Build(
    3, 2, {name: messages.protocol.Addition(*added) for name, added in ADDED.items()}, {Ordered.kind: Ordered}
)
LATER = Build(5, 4)


class Orders(SessionHandler):
    """Notes what it was asked for, as it reads it."""

    opening, closing = (Ordered, Former), (Finish,)

    def __init__(self):
        super().__init__()
        self.name, self.asked = "party", []

    def open(self, message, session):
        self.asked.append(message)
        return self, Told(message.n) if message.n == 99 else Done()


def ask(theirs, own, message, answer=Done):
    party = PartyOfBuild(Orders(), theirs)
    with own.used():
        Channel(party, bytes(16), Traffic()).ask(message, answer)
    return party


def order(n=4, most=7, places=()):
    return Ordered(n, most, np.asarray(places, dtype=np.int64))


@pytest.mark.parametrize(
    ("theirs", "own", "heard"),
    [
        (NEW, NEW, [(3, 3)]),
        (FORMER, FORMER, [(2, 2)]),
        (NEW, FORMER, [(2, 2)]),
        (FORMER, NEW, [(3, 2), (2, 2)]),
    ],
    ids=["both new", "both former", "a former caller", "a former party"],
)
def test_both_sides_speak_the_older_version_and_a_field_that_it_lacks_has_its_default(theirs, own, heard):
    message = Former(4) if own is FORMER else order()
    party = ask(theirs, own, message)
    assert party.heard == heard
    (asked,) = party.party.asked
    assert asked.n == 4
    if theirs is NEW:
        assert (asked.most, list(asked.places)) == (7, [])


@pytest.mark.parametrize(
    ("message", "answer"), [(order(most=8), Done), (order(places=[1]), Done), (Told(1), Done)]
)
def test_nothing_that_the_other_version_lacks_is_left_out_without_a_word(message, answer):
    with pytest.raises(ProtocolError, match=r"version 2.*upgrade"):
        ask(FORMER, NEW, message, answer)


def test_an_answer_that_the_caller_s_version_lacks_is_a_refusal():
    with pytest.raises(PartyRefusedError, match=r"version 2.*Told"):
        ask(NEW, FORMER, Former(99))
    ask(NEW, NEW, order(99), Told)


def test_a_kind_that_the_version_of_its_header_lacks_is_refused():
    with NEW.used():
        data = messages.write(bytes(16), 1, Told(1))
        assert messages.read(data).message.n == 1
        with pytest.raises(ProtocolError, match=r"version 2.*Told"):
            messages.read(data[:4] + (2).to_bytes(2, "little") + data[6:])


@pytest.mark.parametrize(("theirs", "own"), [(LATER, NEW), (NEW, LATER), (FORMER, LATER)])
def test_versions_that_are_no_neighbours_refuse_each_other_with_their_numbers(theirs, own):
    with pytest.raises((PartyRefusedError, ProtocolError), match=r"version \d.*speaks version \d"):
        ask(theirs, own, order())


def member(k):
    """One of two organisations."""
    rng = np.random.default_rng(k)
    return HorizontalParty(
        rng.normal(size=(150, 3)), rng.integers(0, 2, 150), f"p{k}", categorical_labels=True
    )


def test_organisations_train_while_one_after_the_other_is_upgraded():
    models = [train_exact({}, [member(0), member(1)], 2)]
    for theirs, own in ((3, 2), (2, 3)):
        with process_of_build(Build(theirs, 2), partial(member, 1)) as other, Build(own, 2).used():
            models.append(train_exact({}, [member(0), other], 2))
        assert other.heard == {2}
    assert len({bytes(model.booster.save_raw()) for model in models}) == 1
