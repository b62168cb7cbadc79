"""A record of all messages of a run agrees with its repetition; a change of any byte of it is named."""

import re
from dataclasses import replace

import pytest

from gbdt_commons.store import MemoryStore
from gbdt_parties.run.flights.driver import PointExchange, TableExchange
from gbdt_parties.run.flights.frames import FrameKind
from gbdt_parties.run.flights.kept import EVENTS, Charge, Connection, Opening, RoundAttempt, Signature, Value
from gbdt_parties.run.flights.replay import compared
from gbdt_parties.run.record import EXCHANGES, SUMMARY_BYTES
from gbdt_parties.two_party.life import Failures
from two_party_flights import Party, layout_of, meet, terms_of

pytest.importorskip("nacl")

LAYOUTS = [layout_of(), layout_of(owners=(1, 0, 0), ring_bits=64)]


class Recorded(Party):
    """A party whose messages are kept; the first one releases a value before the rounds."""

    stops_before = None

    def exchange(self, store):
        kind = PointExchange if self.place else TableExchange
        return kind(self.terms, store, Failures(), self.check, is_recorded=True)

    def train(self, exchange):
        def made(stream):
            return stream.words(2).tobytes()

        yield from exchange.value(0, 16, lambda content: None, None if self.place else made)
        for number, layout in enumerate(self.layouts):
            if number == self.stops_before:
                self.stops_before = None
                raise ValueError("of the trainer")
            yield from exchange.round(number, layout, self.inputs_of(number), self.pay)
        yield from exchange.end(b"model")
        return True


def trained(*stops, data=b"d" * 32):
    """Both parties after a run, in whose connections one of them has stopped before a round."""
    parties = [Recorded(place, LAYOUTS, data=data) for place in (0, 1)]
    for place, number in (*stops, (0, None)):
        parties[place].stops_before = number
        outcomes = meet(parties, [party.exchange(party.store) for party in parties])
    assert [one.sums for one in outcomes] == [True, True]
    return parties


def replayed(party, store=None, auditor=None):
    auditor = auditor or Recorded(party.place, LAYOUTS, data=party.data)

    def begin(other):
        auditor.store = other
        return auditor.exchange(other)

    kept = party.exchange(party.store if store is None else store).kept
    return compared(kept, begin, auditor.train)


def changed(store, kind, place, change):
    """A copy of a party's records with one entry changed, or with those from it on removed."""
    other = MemoryStore()
    for one in (EVENTS, EXCHANGES):
        for number, entry in enumerate(store.entries(one, "")):
            if one is not kind or number < place or change is not None:
                other.append(one, "", change(entry) if (one, number) == (kind, place) else entry)
    return other


def places_of(store, *, sent):
    """Where the messages of a connection are in its record that were sent, or received."""
    entries = enumerate(store.entries(EXCHANGES, ""))
    return [place for place, entry in entries if entry and (len(entry) == SUMMARY_BYTES) == sent]


def received_by(store):
    entries = store.entries(EXCHANGES, "")
    return [entry[SUMMARY_BYTES:] for entry in entries if len(entry) > SUMMARY_BYTES]


STEP = pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
"""Some of the messages, or all of them."""


def numbers(places, step):
    """Some numbers of messages, the last one among them, and where they are."""
    return list(enumerate(places))[::-step]


def flipped(content):
    """With another bit in the middle; of a record's entry, in the middle of its last part."""
    middle = len(content) - 20 if len(content) == SUMMARY_BYTES else (len(content) + SUMMARY_BYTES) // 2
    middle = middle if middle < len(content) else len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.fixture(scope="module")
def whole():
    return trained()


@pytest.mark.parametrize("place", [0, 1])
def test_a_run_agrees_with_its_repetition(whole, place):
    party = whole[place]
    report = replayed(party)
    assert report.agrees
    assert report.has_ended
    assert (report.rounds, report.attempts, report.connections) == (2, 2, 1)
    assert report.messages == len(places_of(party.store, sent=True))
    assert report.bytes == sum(map(len, received_by(whole[1 - place].store)))


@pytest.mark.parametrize("stops", [[(0, 0)], [(1, 0), (0, 1)]])
def test_runs_that_were_interrupted_agree_in_every_connection(stops):
    for party in trained(*stops):
        report = replayed(party)
        assert report.difference is None
        assert report.has_ended
        assert (report.rounds, report.connections) == (2, len(stops) + 1)


@STEP
@pytest.mark.parametrize("place", [0, 1])
def test_a_byte_of_any_received_message_is_found_out(whole, place, step):
    party = whole[place]
    for number, at in numbers(places_of(party.store, sent=False), step):
        report = replayed(party, changed(party.store, EXCHANGES, at, flipped))
        assert re.match(r"message \d+ \(|value 0|signature of round", report.difference), number
        assert not report.has_ended


@STEP
@pytest.mark.parametrize("place", [0, 1])
def test_a_byte_of_any_sent_message_is_named(whole, place, step):
    party = whole[place]
    for number, at in numbers(places_of(party.store, sent=True), step):
        report = replayed(party, changed(party.store, EXCHANGES, at, flipped))
        assert report.difference.startswith(f"message {number} (")
        assert report.difference.endswith("follows from the party's keys, rows and received messages")
        assert report.messages == number


@STEP
@pytest.mark.parametrize("place", [0, 1])
def test_missing_messages_are_named_by_what_is_not_reached(whole, place, step):
    """But for those after the last round, without which the run has not ended."""
    party = whole[place]
    for at in range(party.store.size(EXCHANGES, "") - 1, 0, -step):
        report = replayed(party, changed(party.store, EXCHANGES, at, None))
        assert not report.has_ended
        if report.agrees:
            assert report.rounds == 2
            assert at >= party.store.size(EXCHANGES, "") - 3
        else:
            assert "is not reached by the messages" in report.difference


NAMES = {
    Connection: r"message 0 \(greeting\)",
    Value: "value 0",
    RoundAttempt: r"attempt \d, kept in connection 0, is not what",
    Charge: "charge",
    Opening: "round",
    Signature: "signature of round",
}


@pytest.mark.parametrize("place", [0, 1])
def test_a_changed_event_is_named(whole, place):
    def change(event):
        if isinstance(event, RoundAttempt):
            return replace(event, number=event.number + 1)
        field = {Charge: "own", Opening: "sums", Connection: "nonce"}.get(type(event), "content")
        return replace(event, **{field: flipped(getattr(event, field))})

    party, seen = whole[place], set()
    for number, event in enumerate(party.store.entries(EVENTS, "")):
        report = replayed(party, changed(party.store, EVENTS, number, change))
        assert re.match(NAMES[type(event)], report.difference), number
        seen.add(type(event))
    assert seen == NAMES.keys()


def test_a_round_that_was_removed_from_the_messages_is_named(whole):
    party = whole[0]
    kinds = [m[4] for m in received_by(party.store)]
    at = places_of(party.store, sent=False)[kinds.index(FrameKind.BEGIN)]
    store = changed(party.store, EXCHANGES, at, None)
    for entry in [*party.store.entries(EXCHANGES, "")][at:]:
        if len(entry) == SUMMARY_BYTES:
            store.append(EXCHANGES, "", entry)
    report = replayed(party, store)
    assert report.rounds == 0
    assert re.match(r"message \d+ \(\w+\) of round 0, attempt 1, flight \d, in conn", report.difference)


@pytest.mark.parametrize("place", [0, 1])
def test_another_seed_or_other_data_are_found_out(whole, place):
    for auditor in (
        Recorded(place, LAYOUTS, terms=terms_of(place, seed=b"3" * 32)),
        Recorded(place, LAYOUTS, data=b"e" * 32),
    ):
        report = replayed(whole[place], auditor=auditor)
        assert re.match(r"message \d+ \(\w+\)", report.difference)
        assert not report.rounds


def test_a_value_is_drawn_from_the_seed_and_not_copied():
    """Of the connection in which it was released; later ones give it again."""
    parties = trained((0, 0))
    store = parties[0].store
    assert replayed(parties[0]).agrees
    kinds = [type(event) for event in store.entries(EVENTS, "")]
    assert kinds[:2] == [Connection, Value]
    assert (kinds.count(Connection), kinds.count(Value)) == (2, 1)
    other = changed(store, EVENTS, 1, lambda value: Value(bytes(16)))
    assert re.match("value 0, kept in connection 0, is not", replayed(parties[0], other).difference)


def test_nothing_is_kept_unless_it_is_asked_for():
    parties = [Party(place, LAYOUTS) for place in (0, 1)]
    meet(parties)
    assert not any(party.store.size(EXCHANGES, "") for party in parties)
