"""A horizontal party answers bytes with bytes, whatever they hold."""

import pickle

import numpy as np
import pytest

from gbdt_parties import messages
from gbdt_parties.errors import InvalidDataError
from xgb_fed.horizontal.common.messages import Introduce, OpenHorizontal, RowShape, Trees
from xgb_fed.horizontal.common.model import horizontal_settings
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.simfl.coordinator import SimFL
from xgb_fed.horizontal.simfl.messages import (
    AggregatedGradients,
    AggregateGradients,
    ColumnMoments,
    CommitSeed,
    FinishBoosting,
    GrowTrees,
    HashRows,
    HashTable,
    RevealSeed,
    StartBoosting,
    TellMoments,
)
from xgb_fed.vertical.protocol.messages import FindSplits

PARAMS = {"objective": "binary:logistic", "max_depth": 2}
SESSION = b"s" * 16


def drawn_party(name="a", seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((200, 5)).astype(np.float32)
    return HorizontalParty(X, (X[:, 0] > 0).astype(int), name, categorical_labels=True, random_state=0)


def ask(party, number, message, session=SESSION):
    return messages.read(party.handle(messages.write(session, number, message))).message


def opened_at(place):
    parties = [drawn_party("a"), drawn_party("b", 1)]
    training = SimFL(horizontal_settings(PARAMS), parties, max_rounds=4)
    training.prepare()
    training.ask_all(StartBoosting(np.array([0.5])), messages.Done)
    channel = training.channels[place]
    return parties[place], channel.session, channel.next_number


@pytest.fixture
def opened():
    """The party whose turn it is, its session, and the number of the next request."""
    return opened_at(0)


@pytest.fixture
def opened_second():
    """The party whose turn it is not."""
    return opened_at(1)


def test_kinds_of_both_files_are_known_and_do_not_clash():
    assert messages.KINDS[Trees.kind] is Trees
    assert messages.KINDS[messages.Done.kind] is messages.Done
    with pytest.raises(TypeError, match="both of kind 113"):
        type("Twin", (messages.Message,), {}, kind=113)
    assert messages.KINDS[113] is Trees


def test_doubles_travel_exactly():
    values = np.array([np.pi, -1e300, 5e-324, np.inf])
    sent = ColumnMoments(values, values, values, 3)
    got = messages.read(messages.write(SESSION, 1, sent)).message
    assert got.mean.dtype == np.float64
    assert np.array_equal(got.mean, values)


def test_sessions_start_once_and_requests_come_in_order():
    party = drawn_party()
    assert isinstance(ask(party, 0, Introduce(1)), RowShape)
    assert "out of order" in ask(party, 5, TellMoments(0)).reason
    assert "twice" in ask(party, 0, Introduce(1)).reason
    assert "no such session" in ask(party, 1, TellMoments(0)).reason
    assert isinstance(ask(party, 0, Introduce(1), b"t" * 16), RowShape)
    assert "not opened" in ask(party, 1, TellMoments(0), b"t" * 16).reason
    assert "not a veilboost message" in messages.read(party.handle(b"x" * 100)).message.reason


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (AggregateGradients(7), "similar to that party"),
        (AggregateGradients(0), "similar to that party"),
        (AggregatedGradients(np.zeros(3), np.zeros(3)), "number of rows"),
        (AggregatedGradients(np.full(200, np.nan), np.zeros(200)), "not finite"),
        (AggregatedGradients(np.zeros(200), np.full(200, -1.0)), "below 0"),
        (GrowTrees(3), "out of turn"),
        (FinishBoosting(0), "best round is not one"),
        (StartBoosting(np.array([0.5])), "started already"),
        (Trees(np.array([4]), b"tree"), "in this party's turn"),
        (HashTable(0, np.zeros(4)), "no other party"),
        (HashTable(1, np.zeros(4)), "out of turn"),
        (CommitSeed(), "once in a session"),
        (RevealSeed(bytes(64)), "once in a session"),
        (OpenHorizontal("{}", "", 0, np.array([200, 200]), 1, 10), "opened already"),
        (AggregateGradients(1), "turn of the party at place 0"),
        (HashRows(b"", 9, np.zeros(5), np.ones(5)), "once in a session"),
        (FindSplits(np.zeros(0), np.zeros(0)), "not a request"),
    ],
)
def test_what_does_not_fit_is_refused_and_ends_the_session(opened, message, reason):
    party, session, number = opened
    refusal = ask(party, number, message, session)
    assert isinstance(refusal, messages.Refusal)
    assert reason in refusal.reason
    assert "no such session" in ask(party, number + 1, GrowTrees(0), session).reason


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Trees(np.array([4]), b"tree"), "round's trees"),
        (Trees(np.array([2, 2]), b"tree"), "2 trees in a round of 1"),
        (Trees(np.array([9]), b"tree"), "cut off"),
        (GrowTrees(0), "turn of the party at place 0"),
        (AggregatedGradients(np.zeros(200), np.zeros(200)), "turn of the party at place 0"),
    ],
)
def test_what_does_not_fit_in_the_turn_of_another_party_is_refused(opened_second, message, reason):
    party, session, number = opened_second
    refusal = ask(party, number, message, session)
    assert isinstance(refusal, messages.Refusal)
    assert reason in refusal.reason


def test_without_other_parties_gradients_a_tree_is_grown_on_the_own(opened):
    party, session, number = opened
    assert isinstance(ask(party, number, GrowTrees(0), session), Trees)


def test_aggregates_are_sums_and_no_single_rows(opened_second):
    """A party answers with one number for each row of the builder, never with its own rows."""
    party, session, number = opened_second
    answer = ask(party, number, AggregateGradients(0), session)
    assert answer.g.shape == (200,)
    assert answer.h.sum() == pytest.approx(200 * 0.25)
    assert answer.g.sum() == pytest.approx(100 - (party.simfl.rows.y == 1).sum())


def test_sums_for_a_tree_come_once(opened):
    party, session, number = opened
    sums = AggregatedGradients(np.zeros(200), np.zeros(200))
    assert isinstance(ask(party, number, sums, session), messages.Done)
    assert "a second time" in ask(party, number + 1, sums, session).reason


def test_a_refused_coordinator_learns_no_data(opened):
    party, session, number = opened
    refusal = ask(party, number, StartBoosting(np.array([2.0])), session)
    assert not any(character.isdigit() for character in refusal.reason)


def test_party_can_be_pickled():
    copy = pickle.loads(pickle.dumps(drawn_party()))
    assert isinstance(ask(copy, 0, Introduce(0)), RowShape)


def test_bad_arguments():
    X, y = np.zeros((4, 2)), np.zeros(4)
    for name in ("", "coordinator", "active", "a\nb", 3):
        with pytest.raises(ValueError, match="name="):
            HorizontalParty(X, y, name)
    for name, value in (("known_features", -1), ("min_similar", 0), ("max_rows", 0), ("max_rounds", -1)):
        with pytest.raises(ValueError, match=f"{name}={value}"):
            HorizontalParty(X, y, **{name: value})
    with pytest.raises(InvalidDataError, match="labels of shape"):
        HorizontalParty(X, y[:3])
    with pytest.raises(InvalidDataError, match="3 weights for 4 rows"):
        HorizontalParty(X, y, sample_weight=np.ones(3))
    with pytest.raises(InvalidDataError, match="numbers"):
        HorizontalParty(np.array([["a"] * 2] * 4), y)
