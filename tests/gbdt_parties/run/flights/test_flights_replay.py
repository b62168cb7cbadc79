"""An auditor repeats every byte of a party; lengths and order depend on public numbers alone."""

from hashlib import sha256

import pytest

from gbdt_commons.store import MemoryStore
from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import AuthenticationError, PartyUnavailableError, ProtocolError
from gbdt_parties.run.flights.frames import HEADER_BYTES, STOPPED, FrameKind
from gbdt_parties.run.flights.kept import Connection, Signature
from gbdt_parties.run.flights.replay import ComparedFlights, has_stopped, replay
from gbdt_parties.run.record import KeptExchange, summary
from gbdt_parties.run.replay import Compared, DifferenceError
from two_party_flights import Heard, Killed, Party, layout_of, meet, survive, terms_of

pytest.importorskip("nacl")

LAYOUTS = [layout_of(), layout_of(owners=(1, 0, 0), ring_bits=64)]


def new_parties(data=b"d" * 32, terms=(None, None)):
    return [Party(place, LAYOUTS, data=data, terms=terms[place]) for place in (0, 1)]


def repeated(party, connection, channel, auditor=None):
    """Messages of a connection by an auditor with the party's seed and data."""
    auditor = auditor or Party(party.place, LAYOUTS, data=party.data)

    record = Heard(channel.received)
    replay(party.process().kept, connection, record, begun_by(auditor), auditor.train)
    return record.sent


def begun_by(auditor):
    def begin(store):
        auditor.store = store
        return auditor.process(store)

    return begin


@pytest.fixture(scope="module")
def whole():
    """Both parties after a run without interruptions, and their channels."""
    parties = new_parties()
    return parties, [one.channel for one in meet(parties)]


@pytest.mark.parametrize("place", [0, 1])
def test_an_auditor_repeats_every_byte(whole, place):
    parties, channels = whole
    sent = repeated(parties[place], 0, channels[place])
    assert sent == channels[place].sent
    assert len(sent) >= 19


@pytest.mark.parametrize("place", [0, 1])
def test_another_seed_or_other_data_are_found_out(whole, place):
    """Each changes bytes that are no noise's: the party has used others than it says."""
    parties, channels = whole
    terms = terms_of(place, seed=b"3" * 32)
    for auditor in (Party(place, LAYOUTS, terms=terms), Party(place, LAYOUTS, data=b"e" * 32)):
        try:
            sent = repeated(parties[place], 0, channels[place], auditor)
        except ProtocolError:
            continue
        assert sent != channels[place].sent


@pytest.mark.parametrize("event", [61, 75])
@pytest.mark.parametrize("place", [0, 1])
def test_connections_that_were_interrupted_are_repeated_too(place, event):
    """Each from the lists as they were before it."""
    parties, channels = new_parties(), []
    parties[place].events.kill_at = event
    outcomes = meet(parties)
    assert isinstance(outcomes[place].error, Killed)
    channels.append([one.channel for one in outcomes])
    channels.append([one.channel for one in meet(parties)])
    for k, party in enumerate(parties):
        assert len(party.process().kept.all(Connection)) == 2
        first, second = (repeated(party, n, channels[n][k]) for n in (0, 1))
        sent = channels[0][k].sent
        assert first[: len(sent)] == sent
        assert second == channels[1][k].sent


def test_replay_changes_nothing(whole):
    parties, channels = whole
    before = [party.process().kept.all(Connection) for party in parties], parties[0].n_paid
    repeated(parties[0], 0, channels[0])
    assert before == ([party.process().kept.all(Connection) for party in parties], parties[0].n_paid)
    assert isinstance(parties[0].store, MemoryStore)


def test_traces_of_two_data_sets_of_one_size_are_equal(whole):
    """All messages of both sides, with their order at either, in runs of other data and other seeds."""
    parties, channels = whole
    others = new_parties(b"x" * 32, [terms_of(k, seed=bytes([k + 7]) * 32) for k in (0, 1)])
    again = [one.channel for one in meet(others)]
    for one, other, party, twin in zip(channels, again, parties, others, strict=True):
        assert [len(message) for message in one.sent] == [len(message) for message in other.sent]
        assert [message[:16] for message in one.sent] == [message[:16] for message in other.sent]
        assert [len(message) for message in one.received] == [len(message) for message in other.received]
        assert party.events.trace == twin.events.trace
        # At the beginning of the first round there are no sums yet.
        common = set(one.sent) & set(other.sent)
        assert [message[4] for message in common] == [FrameKind.BEGIN]


def test_every_round_and_the_end_are_signed_by_both(whole):
    """The side that opens first has the other one's signature of the last round with that of the end."""
    parties, _ = whole
    for party, other in zip(parties, parties[::-1], strict=True):
        kept = party.process().kept
        *signatures, last = kept.all(Signature)
        if party.place == 0:
            result = sha256(b"").digest()
            end = sha256(length_prefixed([kept.opened(1).signed, result])).digest()
            party.terms.check_signature(b"end", end, last.content)
            with pytest.raises(AuthenticationError):
                party.terms.check_signature(b"round", kept.opened(1).signed, last.content)
        else:
            signatures.append(last)
        for number, signature in enumerate(signatures):
            opening = kept.opened(number)
            party.terms.check_signature(b"round", opening.signed, signature.content)
            assert signature.content == other.process().kept.opened(number).signature
            other.terms.check_signature(b"round", opening.signed, opening.signature)
        assert len(kept.all(Signature)) == 2
    survive(parties, [])


def headed(kind, body=b""):
    """A message, as `heading` reads it."""
    header = bytearray(HEADER_BYTES)
    header[4] = kind
    return bytes(header) + body


def test_only_the_refusal_of_a_party_that_stopped_needs_no_reason():
    stopped = headed(FrameKind.REFUSAL, STOPPED.encode())
    assert has_stopped(summary(stopped))
    for other in (headed(FrameKind.REFUSAL, b"another reason"), headed(FrameKind.BEGIN, STOPPED.encode())):
        assert not has_stopped(summary(other))


def said(message):
    return KeptExchange(summary(message), b"")


def heard(message):
    return KeptExchange(summary(b""), message)


@pytest.mark.parametrize(
    ("kept", "how"),
    [(said(headed(FrameKind.BEGIN)), "sent.*follow"), (heard(headed(FrameKind.BEGIN)), "received.*waited")],
)
def test_messages_beyond_the_repetition_are_differences(kept, how):
    with pytest.raises(DifferenceError, match=how):
        ComparedFlights(iter([kept]), 0, Compared()).check_end()


def test_a_message_that_was_sent_before_what_it_follows_from_is_a_difference():
    compared = ComparedFlights(iter([said(headed(FrameKind.BEGIN))]), 0, Compared())
    with pytest.raises(DifferenceError, match=r"sent.*follow"):
        compared.receive()
    compared = ComparedFlights(iter([heard(headed(FrameKind.BEGIN))]), 0, Compared())
    with pytest.raises(DifferenceError, match="what follows"):
        compared.send(headed(FrameKind.BEGIN))


def test_after_a_difference_nothing_is_repeated():
    done = Compared()
    compared = ComparedFlights(iter([said(headed(FrameKind.BEGIN)), heard(b"a")]), 0, done)
    with pytest.raises(DifferenceError, match="what follows"):
        compared.send(headed(FrameKind.BEGIN, b"other"))
    compared.send(b"not compared any more")
    with pytest.raises(PartyUnavailableError):
        compared.receive()
    with pytest.raises(DifferenceError, match="what follows"):
        compared.check_end()
    assert (done.n_messages, done.n_bytes) == (0, 0)
