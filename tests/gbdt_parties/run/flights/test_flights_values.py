"""Values that one side releases before the rounds, and the result that both compare after them."""

import copy

import pytest

from gbdt_parties.errors import PartyRefusedError, ProtocolError
from gbdt_parties.run.flights.frames import FrameKind
from gbdt_parties.run.flights.kept import EVENTS, Value
from gbdt_parties.run.flights.replay import replay
from two_party_flights import LEDGER, Heard, Party, layout_of, meet, terms_of

pytest.importorskip("nacl")


class Releasing(Party):
    """A party of which the first one releases a value before the rounds, and compares a result after them."""

    content, n_bytes, result, n_made = b"12345678", 8, b"model", 0

    def made(self, stream=None):
        self.n_made += 1
        self.store.append(LEDGER, "values", 1)
        return self.content

    def check_value(self, content):
        if content == b"too much":
            raise ProtocolError("out of range")

    def train(self, exchange):
        own = self.made if self.place == 0 else None
        self.value = yield from exchange.value(0, self.n_bytes, self.check_value, own)
        for number, layout in enumerate(self.layouts):
            yield from exchange.round(number, layout, self.inputs_of(number), self.pay)
        yield from exchange.end(self.result)
        return self.value


def parties():
    return [Releasing(place, [layout_of()]) for place in (0, 1)]


def errors(outcomes):
    return [str(one.error) for one in outcomes]


def test_a_value_is_made_and_charged_once_and_given_again_on_every_connection():
    both = parties()
    for _ in range(3):
        assert [one.sums for one in meet(both)] == [b"12345678"] * 2
    assert both[0].n_made == both[0].store.size(LEDGER, "values") == 1
    assert both[0].n_paid == 1


def test_another_value_than_before_is_refused():
    both = parties()
    meet(both)
    lying = Releasing(0, [layout_of()])
    lying.content = b"87654321"
    lying.made()
    (place,) = (k for k, one in enumerate(both[0].store.entries(EVENTS, "")) if isinstance(one, Value))
    events = list(both[0].store.entries(EVENTS, ""))
    both[0].store.delete(EVENTS, "", place)
    for event in (Value(lying.content), *events[place + 1 :]):
        both[0].store.append(EVENTS, "", event)
    outcomes = meet(both)
    assert "releases another value 0 than before" in errors(outcomes)[1]
    assert isinstance(outcomes[0].error, PartyRefusedError)


def values_of(party):
    return party.process().kept.all(Value)


def test_a_side_that_has_lost_its_value_does_not_draw_it_again():
    """Noise drawn twice for the same counts would leave, and the older ledger has one charge."""
    both = parties()
    older = copy.deepcopy(both[0].store)
    for party in both:
        party.layouts = []
        party.terms = terms_of(party.place, 1)
    meet(both)
    assert [len(values_of(party)) for party in both] == [1, 1]
    both[0].store, both[0].n_made = older, 0
    outcomes = meet(both)
    assert "value 0 was released before, and is not kept here" in errors(outcomes)[0]
    assert both[0].n_made == both[0].store.size(LEDGER, "values") == 0
    assert FrameKind.VALUE not in [message[4] for message in outcomes[0].channel.sent]


@pytest.mark.parametrize("event", [None, 33])
def test_an_auditor_repeats_connections_with_values(event):
    """A value is drawn again in the connection in which it was released, and given again in later ones."""

    class Drawing(Releasing):
        def made(self, stream=None):
            self.content = stream.words(1).tobytes()
            return super().made()

    def parties():
        return [Drawing(place, [layout_of()]) for place in (0, 1)]

    both, channels = parties(), []
    both[0].events.kill_at = event
    channels.append([one.channel for one in meet(both)])
    channels.append([one.channel for one in meet(both)])
    for k, party in enumerate(both):
        for number, of_both in enumerate(channels):
            auditor = parties()[k]

            def begin(store, auditor=auditor):
                auditor.store, auditor.content = store, b"not this"
                return auditor.process(store)

            record = Heard(of_both[k].received)
            replay(party.process().kept, number, record, begin, auditor.train)
            sent = record.sent
            assert of_both[k].sent == sent[: len(of_both[k].sent)]
            assert any(message[4] == FrameKind.VALUE for message in sent) is (k == 0)


@pytest.mark.parametrize(
    ("content", "text"), [(b"1234567", "a value has 7 bytes, not 8"), (b"too much", "out of range")]
)
def test_values_of_another_length_or_range_are_refused_and_not_kept(content, text):
    both = parties()
    both[0].content = content
    assert text in errors(meet(both))[1]
    assert not values_of(both[1])


def test_sides_with_different_results_refuse_each_other():
    both = parties()
    both[1].result = b"another model"
    assert all("another result of all rounds" in text for text in errors(meet(both)))


def test_values_come_in_their_order():
    party = parties()[0]
    kept = party.process().kept
    with pytest.raises(ProtocolError, match=r"value 1.*value 0"):
        kept.release(1, party.made)
    assert party.store.size(LEDGER, "values") == 0
