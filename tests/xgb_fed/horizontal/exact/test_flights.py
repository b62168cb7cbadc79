"""Questions that are asked together: the same sums as one by one, and one signature for all of them."""

import warnings
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from disturbed import Between, lost
from exact_training import NAMES, party, text_of
from gbdt_parties import patience as lost_parties
from gbdt_parties.errors import AuthenticationError, PartyRefusedError, ProtocolError, SumRangeError
from gbdt_parties.messages import read, write
from gbdt_parties.secure_sum.contributions import question_digest
from gbdt_parties.secure_sum.messages import AskSum, Contributed
from gbdt_parties.secure_sum.rings import MODULO_64, MODULO_128
from secure_sessions import attempt, sessions
from xgb_fed import ExactTerms, HorizontalParty, train_exact
from xgb_fed.horizontal.exact import training as exact_training_module
from xgb_fed.horizontal.exact import trees as exact_trees
from xgb_fed.horizontal.exact.questions import (
    ExactQuestion,
    Flight,
    ask_counts,
    ask_words,
    in_flights,
    together,
)

COUNTS = ExactQuestion("rows", MODULO_64, MODULO_64.from_integers(np.array([3, 4, 5])), 40)
BINS = ExactQuestion("round 2: children", MODULO_128, MODULO_128.from_integers(np.array([-7, 9])), 70)
OTHERS = ExactQuestion("round 2: other children", MODULO_128, MODULO_128.from_integers(np.array([6, 8])), 70)
PARTIES = sessions()


def asked(*questions, number=1):
    """The attempt that every party makes of a flight, after the same transcript."""
    flight = Flight(questions)
    return flight, attempt(number=number, question=question_digest([b"transcript", *flight.parts]))


def answers(*questions, number=1, parties=PARTIES):
    flight, asking = asked(*questions, number=number)
    return {place: one.contribute(asking, flight.ring, flight.values) for place, one in enumerate(parties)}


def opened(contributions, *questions, number=1):
    flight, asking = asked(*questions, number=number)
    total = PARTIES[0].add_up(asking, flight.ring, flight.n_values, contributions)
    return [np.asarray(one).tolist() for one in flight.checked(total)]


def words(question, times):
    return MODULO_128.from_integers(times * question.values_in(MODULO_128)[:, 0].view(np.int64)).tolist()


def test_the_sums_of_a_flight_are_those_of_its_questions():
    for questions in [(COUNTS,), (BINS,), (COUNTS, BINS), (BINS, COUNTS, OTHERS)]:
        expected = [[9, 12, 15] if one is COUNTS else words(one, 3) for one in questions]
        assert opened(answers(*questions), *questions) == expected
    assert Flight([COUNTS]).ring is MODULO_64
    # One signature, of 64 bytes, and one head.
    assert len(answers(COUNTS, BINS)[1]) == 12 + 16 * 5 + 64


def test_an_answer_to_one_flight_is_none_to_another():
    """Not to a part of it, to more, to its questions in another order, or to those of another name."""
    flights = [list(order) for n in (1, 2, 3) for order in permutations([COUNTS, BINS, OTHERS], n)]
    flights.append([COUNTS, replace(BINS, what="round 3: children")])
    flights.append([COUNTS, replace(BINS, bits=71)])
    # Other borders between the same values.
    flights.append([replace(BINS, values=BINS.values[:1]), replace(BINS, values=BINS.values[1:])])
    given = [answers(*questions) for questions in flights]
    for here, questions in enumerate(flights):
        for there, other in enumerate(given):
            replaced = {**given[here], 1: other[1]}
            if here == there:
                opened(replaced, *questions)
            else:
                with pytest.raises((AuthenticationError, ProtocolError), match="'bob'"):
                    opened(replaced, *questions)


def test_an_answer_to_a_flight_is_none_to_the_same_one_later_or_in_another_run():
    for other in (answers(COUNTS, BINS, number=2), answers(COUNTS, BINS, parties=sessions())):
        with pytest.raises(AuthenticationError, match="'bob' is not signed"):
            opened({**answers(COUNTS, BINS), 1: other[1]}, COUNTS, BINS)


def test_answers_are_not_cut_or_joined():
    whole, first, second = answers(COUNTS, BINS), answers(BINS), answers(OTHERS)
    joined = first[1][:-64] + second[1][12:-64] + first[1][-64:]
    for content, questions in [(joined, (BINS, OTHERS)), (whole[1][: -64 - 32] + whole[1][-64:], (COUNTS,))]:
        with pytest.raises((AuthenticationError, ProtocolError), match="'bob'"):
            opened({**answers(*questions), 1: content}, *questions)


def test_masks_of_flights_are_no_masks_of_their_parts():
    """Else the difference of two answers would be one of what is masked."""
    alone, first, swapped = (PARTIES[0].streams(asked(*one)[1])[1].words(4).tolist() for one in (
        (BINS,), (BINS, OTHERS), (OTHERS, BINS)
    ))  # fmt: skip
    assert not set(alone) & set(first)
    assert not set(first) & set(swapped)


@pytest.mark.parametrize("count", [2**40 + 1, -(2**40) - 1, 2**63, 2**64 + 5])
def test_a_number_of_rows_out_of_range_is_refused_in_a_flight_too(count):
    total = Flight([COUNTS, BINS]).values
    total[1] = [count % 2**64, (count >> 64) % 2**64]
    with pytest.raises(SumRangeError):
        Flight([COUNTS, BINS]).checked(total)


def test_a_sum_out_of_range_is_refused_beside_numbers_of_rows():
    total = Flight([COUNTS, BINS]).values
    total[3] = [0, 1 << 6]
    with pytest.raises(SumRangeError):
        Flight([COUNTS, BINS]).checked(total)


def steps(name, n_steps):
    found = []
    for k in range(n_steps):
        found.append((yield from ask_counts(f"{name} {k}", np.array([k, 10]))).tolist())
    return found


def carried_out(asking, max_bytes=1 << 20):
    """Result of a computation of one party, and the texts of its flights."""
    flights, told = in_flights(asking, max_bytes), None
    texts = []
    try:
        while True:
            flight = flights.send(told)
            texts.append([part.decode().split(";")[0] for part in flight.parts])
            told = flight.checked(flight.values)
    except StopIteration as end:
        return end.value, texts


def test_computations_side_by_side_ask_what_they_ask_alone():
    result, texts = carried_out(together(steps("a", 2), steps("b", 0), steps("c", 3)))
    assert result == [[[k, 10] for k in range(n)] for n in (2, 0, 3)]
    assert texts == [["a 0", "c 0"], ["a 1", "c 1"], ["c 2"]]


def test_flights_that_are_too_long_are_asked_one_by_one_and_in_pieces():
    long = MODULO_128.from_integers(np.arange(10))
    none = np.empty(0, dtype=np.int64)
    n_of = {16: 11, 64: 4, 100: 3, 159: 3, 160: 2, 191: 2, 192: 1, 10**6: 1}
    for max_bytes, n_flights in n_of.items():
        empty = ask_counts("none", none), ask_words("no", long[:0], 70)
        asking = together(steps("a", 1), ask_words("long", long, 70), *empty)
        (of_a, of_long, of_none, of_no), texts = carried_out(asking, max_bytes)
        assert of_a == [[0, 10]]
        np.testing.assert_array_equal(of_long, long)
        assert of_none.shape == (0,)
        assert of_no.shape == (0, 2)
        assert len(texts) == n_flights
    assert carried_out(ask_counts("none", none))[1] == []


# In training runs.

PARAMS = {"objective": "binary:logistic", "max_depth": 4, "max_bin": 8}


def members():
    """Parties with 120 rows each and 30 held-out ones."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(450, 3)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=450) > 0).astype(int)
    X, y = np.split(X, [360]), np.split(y, [360])
    return [
        HorizontalParty(
            X[0][k::3],
            y[0][k::3],
            name,
            categorical_labels=True,
            max_rounds=10_000,
            exact=ExactTerms(min_rows_per_node=4, held_out=[(X[1][k::3], y[1][k::3])]),
        )
        for k, name in enumerate(NAMES)
    ]


def trained(parties, n_rounds, params=(), **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train_exact(
            {**PARAMS, **dict(params)}, parties, n_rounds, min_rows_per_node=4, verbose_eval=False, **settings
        )


@pytest.fixture
def seen(monkeypatch):
    """All flights, and all sums in them by what was asked, as any party opens them."""
    found, checked = [], Flight.checked

    def noted(self, total):
        sums = checked(self, total)
        of_each = zip(self.questions, sums, strict=True)
        found.append([(one.what, np.asarray(own).tobytes()) for one, own in of_each])
        return sums

    monkeypatch.setattr(Flight, "checked", noted)
    return found


def sums_of(seen):
    return {one for flight in seen for one in flight if one[1]}


def one_after_the_other(*askings):
    results = []
    for asking in askings:
        results.append((yield from asking))
    return results


@pytest.mark.parametrize(
    ("params", "settings"),
    [
        ({}, {}),
        ({"subsample": 0.5, "learning_rate": 3.0}, {"early_stopping_rounds": 2}),
        ({"objective": "multi:softprob", "num_class": 2, "max_depth": 3}, {"early_stopping_rounds": 1}),
    ],
)
def test_what_is_asked_together_tells_what_it_tells_one_after_the_other(params, settings, seen, monkeypatch):
    parties = members()  # once: samples are those of their names, rows and secrets
    model = text_of(trained(parties, 5, params, **settings))
    joined, n_joined = sums_of(seen), len(seen)
    seen.clear()
    for module in (exact_training_module, exact_trees):
        monkeypatch.setattr(module, "together", one_after_the_other)
    assert text_of(trained(parties, 5, params, **settings)) == model
    assert sums_of(seen) == joined
    assert n_joined < len(seen)


def test_no_root_is_asked_about_after_the_round_that_ends_training(seen):
    model = trained(members(), 50, {"learning_rate": 3.0}, early_stopping_rounds=2)
    n_rounds = len(model.evals_result["validation_0"]["logloss"])
    assert n_rounds < 50
    assert len({what for what, _ in sums_of(seen) if what.endswith(": roots")}) == n_rounds
    # Before that may happen, the losses of a round travel with the root of the next one.
    assert any({"round 0: losses", "round 1: roots"} <= {what for what, _ in flight} for flight in seen)


@pytest.mark.parametrize("back", [1, 2, 3])
def test_the_answer_to_a_flight_is_refused_as_that_to_a_later_one(back):
    """A party, or who forwards its answers, answers another level."""
    given = []

    def replayed(number, message, send):
        answer = send()
        if not isinstance(message, AskSum):
            return answer
        given.append(answer)
        return answer if len(given) < 14 else _renumbered(given[-1 - back], answer)

    parties = [Between(one) for one in members()]
    parties[1].disturb = replayed
    with pytest.raises((PartyRefusedError, ProtocolError), match="'bob'"):
        trained(parties, 2)


def _renumbered(old, new):
    """The content of one answer under the session and number of another one."""
    envelope = read(new)
    return write(envelope.session, envelope.sequence, Contributed(read(old).message.content))


def test_a_party_that_is_lost_between_the_pieces_of_a_flight_goes_on(tmp_path, monkeypatch):
    """Killed at one piece after the other, each time as another answer is on its way."""
    monkeypatch.setattr(lost_parties, "SECONDS_BETWEEN_TRIES", 0.001)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    monkeypatch.setattr("xgb_fed.horizontal.exact.run.MAX_OPENED_BYTES", 3 * 400)

    def run(disturb, folder):
        parties = [Between(party(k, folder)) for k in range(3)]
        parties[1].disturb = lambda number, message, send: disturb(parties[1], number, message, send)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return train_exact({**PARAMS, "max_depth": 3}, parties, 1, patience=30.0, verbose_eval=False)

    undisturbed = text_of(run(lambda one, number, message, send: send(), tmp_path / "undisturbed"))

    def killed(one, number, message, send):
        if not isinstance(message, AskSum) or message.round % 6 != 5 or message.round in done:
            return send()
        done.add(message.round)
        if message.round % 12 == 5:
            send()
        one.party.close()
        one.party = party(1, tmp_path / "killed")
        return lost()

    done = set()
    assert text_of(run(killed, tmp_path / "killed")) == undisturbed
    assert len(done) > 2
