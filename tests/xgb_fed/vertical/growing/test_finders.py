"""A passive party that lies: one error, whatever the lie, and the estimator stays unfitted."""

import contextlib
import itertools
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import xgb_fed
from gbdt_parties import messages
from gbdt_parties.errors import ConsentError, InvalidDataError, PartyRefusedError, ProtocolError
from packed_fields import fields_of
from vertical_training import Recorder, parties_of, problem, train
from xgb_fed import OkamotoUchiyama, Paillier, Plain
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.errors import CipherError
from xgb_fed.vertical.protocol.messages import (
    Assignments,
    ModelOpened,
    OpenTraining,
    SplitStatistics,
    TrainingOpened,
)

X, Y = problem(n=60, n_features=4, missing=0.1)
PARAMS = {"max_depth": 3, "max_bin": 6, "n_estimators": 1, "base_score": 0.5}

BRIEF = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 4, "base_score": 0.5}


class Liar:
    """Changes the answers of one kind, from some answer of that kind on.

    Parameters
    ----------
    kind : type of message
    lie : callable
        ``lie(answer, opening)`` gives the fields to replace.
    after : int
        True answers before the first lie.
    """

    def __init__(self, kind, lie, after=0):
        self.kind, self.lie, self.after = kind, lie, after
        self.opening, self.seen = None, 0

    def __call__(self, request, answer):
        question, envelope = messages.read(request), messages.read(answer)
        if isinstance(question.message, OpenTraining):
            self.opening = question.message
        if not isinstance(envelope.message, self.kind):
            return answer
        self.seen += 1
        if self.seen <= self.after:
            return answer
        fields = dict(envelope.message.__dict__) | self.lie(envelope.message, self.opening)
        return messages.write(envelope.session, envelope.sequence, self.kind(**fields))


def fit_with(change, cipher=None, **params):
    party = Recorder(parties_of([X[:, 2:]])[0], change)
    classifier = xgb_fed.VerticalXGBClassifier(**{**PARAMS, **params}, cipher=cipher or Plain())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
        try:
            classifier.fit(X[:, :2], Y, parties=[party])
        except Exception:
            with pytest.raises(NotFittedError):
                classifier.predict(X[:, :2])
            with pytest.raises(NotFittedError):
                classifier.traffic_  # noqa: B018
            assert not [name for name in vars(classifier) if name.endswith("_")]
            raise
    return classifier


def sums_of(answer, opening):
    key = read_public_key(opening.public_key)
    return key, key.from_bytes(answer.sums)


def on_sums(change):
    """A lie about the ciphertexts."""

    def lie(answer, opening):
        key, rows = sums_of(answer, opening)
        return {"sums": key.to_bytes(change(key, rows))}

    return lie


def on_fields(change):
    """A lie about the integers of `Plain`: ``change(fields, n_sums, bits)`` changes them in place."""

    def lie(answer, opening):
        key, rows = sums_of(answer, opening)
        per = (key.plaintext_limit.bit_length() - 1) // opening.field_bits
        fields = [f for value in key.decrypt(rows) for f in fields_of(value, opening.field_bits, per)]
        change(fields, np.count_nonzero(answer.counts), opening.field_bits)
        packed = [
            sum(f << opening.field_bits * (per - 1 - k) for k, f in enumerate(fields[at : at + per]))
            for at in range(0, len(fields), per)
        ]
        return {"sums": key.to_bytes(key.encrypt(packed))}

    return lie


def assign(index, function):
    def change(fields, n_sums, bits):
        fields[index] = function(fields, bits)

    return change


def beyond_the_fields(fields, n_sums, bits):
    assert n_sums < len(fields)
    fields[n_sums] = 1


def swapped(fields, n_sums, bits):
    other = next(k for k, field in enumerate(fields) if field != fields[0])
    fields[0], fields[other] = fields[other], fields[0]


LIES = {
    "a doubled sum": on_sums(lambda key, rows: key.add(rows, rows)),
    "ciphertexts in another order": on_sums(lambda key, rows: np.concatenate([rows[1:], rows[:1]])),
    "one ciphertext too few": on_sums(lambda key, rows: rows[:-1]),
    "one too many": on_sums(lambda key, rows: np.concatenate([rows, rows[:1]])),
    "none": on_sums(lambda key, rows: rows[:0]),
    "no ciphertexts at all": lambda answer, opening: {"sums": b"garbage" * 20},
    "nothing": lambda answer, opening: {"sums": b""},
    "cut off": lambda answer, opening: {"sums": answer.sums[:-5]},
    "a key": lambda answer, opening: {"sums": opening.public_key},
    "of another key": lambda answer, opening: {"sums": Plain(300).to_bytes(Plain(300).encrypt([1, 2, 3]))},
    "another number of nodes": lambda answer, opening: {"counts": np.tile(answer.counts, 2)},
    "no nodes": lambda answer, opening: {"counts": answer.counts[:0]},
    "bins in another order": lambda answer, opening: {"counts": answer.counts[::-1].copy()},
    "a row too many": lambda answer, opening: {"counts": answer.counts + (answer.counts > 0)},
    "absurdly many": lambda answer, opening: {"counts": np.full_like(answer.counts, np.iinfo(np.int32).max)},
    "fewer counts": lambda answer, opening: {"counts": answer.counts[:-1]},
    "counts of zero": lambda answer, opening: {"counts": 0 * answer.counts},
    "negative counts": lambda answer, opening: {"counts": -answer.counts},
    "counts of everything": lambda answer, opening: {"counts": np.full_like(answer.counts, len(X))},
    "counts of a few rows": lambda answer, opening: {"counts": np.minimum(answer.counts, 1)},
}
PLAIN_LIES = {
    "a wrong bin": on_fields(assign(0, lambda f, bits: f[0] + 1)),
    "swapped bins": on_fields(swapped),
    "a sum beyond its rows": on_fields(assign(1, lambda f, bits: sum(f))),
    "a g beyond its rows": on_fields(assign(1, lambda f, bits: (1 << bits) - 1)),
    "a sum of nothing": on_fields(assign(1, lambda f, bits: 0)),
    "more fields than announced": on_fields(beyond_the_fields),
}


@pytest.fixture(scope="module")
def the_error():
    """What the simplest lie gives."""
    with pytest.raises(ProtocolError) as caught:
        fit_with(Liar(SplitStatistics, LIES["nothing"]))
    return caught.value


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("lie", [*LIES.values(), *PLAIN_LIES.values()], ids=[*LIES, *PLAIN_LIES])
def test_every_lie_about_statistics_gives_the_same_error(lie, after, the_error):
    """The reason would answer questions about the key: type, text and cause are the same for all."""
    with pytest.raises(ProtocolError) as caught:
        fit_with(Liar(SplitStatistics, lie, after))
    assert (type(caught.value), str(caught.value)) == (type(the_error), str(the_error))
    assert caught.value.__suppress_context__
    assert "'party 0'" in str(the_error)


@pytest.mark.parametrize(
    "scheme", [Paillier(512, True), OkamotoUchiyama(512, True)], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize(
    "name", ["a doubled sum", "ciphertexts in another order", "one too many", "cut off", "of another key"]
)
def test_lies_under_encryption(scheme, name, the_error):
    with pytest.raises(ProtocolError) as caught:
        fit_with(Liar(SplitStatistics, LIES[name]), scheme)
    assert str(caught.value) == str(the_error)


@pytest.mark.parametrize(
    "scheme", [Paillier(512, True), OkamotoUchiyama(512, True)], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("bad", [0, "modulus", "largest"])
def test_numbers_that_are_no_ciphertexts(scheme, bad, the_error):
    def lie(answer, opening):
        key, rows = sums_of(answer, opening)
        value = {"modulus": key.modulus.words, "largest": np.uint64(2**64 - 1)}.get(bad, np.uint64(0))
        rows = rows.copy()
        rows[-1] = value
        return {"sums": key.to_bytes(rows)}

    with pytest.raises(ProtocolError) as caught:
        fit_with(Liar(SplitStatistics, lie), scheme)
    assert str(caught.value) == str(the_error)


def other_rows(answer, opening):
    """As many rows as before, but others."""
    bits = np.unpackbits(answer.left_rows)
    return {"left_rows": np.packbits(np.roll(bits[:60], 7))}


ASSIGNMENTS = {
    "too few flags": lambda a, o: {"left_rows": a.left_rows[:-1]},
    "flags beyond": lambda a, o: {"left_rows": a.left_rows | np.uint8(1)},
    "all left": lambda a, o: {"left_rows": np.packbits(np.ones(60, dtype=bool))},
    "none left": lambda a, o: {"left_rows": 0 * a.left_rows},
    "other rows": other_rows,
    "more splits": lambda a, o: {"split_ids": np.append(a.split_ids, 7).astype(np.int32)},
    "a negative number": lambda a, o: {"split_ids": -1 - a.split_ids},
    "an old number": lambda a, o: {"split_ids": a.split_ids + 5},
}


@pytest.mark.parametrize("lie", ASSIGNMENTS.values(), ids=ASSIGNMENTS)
def test_lies_about_assignments(lie):
    """Which rows went left must agree with the sums that won the split."""
    with pytest.raises(ProtocolError, match="'party 0'"):
        fit_with(Liar(Assignments, lie), tree_mode="layered", max_depth=2, active_depth=1)


def test_a_wrong_count_of_the_chosen_candidate_is_found():
    """Counts one too high move g by the offset: gains out of nowhere, which the assignment belies."""

    def lie(answer, opening):
        return {"counts": answer.counts + (answer.counts < len(X) - 1)}

    with pytest.raises(ProtocolError):
        fit_with(Liar(SplitStatistics, lie))


COLUMNS = {
    "no columns": lambda a, o: {"n_bins": a.n_bins[:0], "counts": a.counts[:0]},
    "bins without a column": lambda a, o: {"n_bins": a.n_bins[:-1]},
    "negative bins": lambda a, o: {"n_bins": -a.n_bins},
    "more bins than max_bin allows": lambda a, o: {
        "n_bins": np.array([len(a.counts) - 1], dtype=np.int32),
        "counts": np.where(np.arange(len(a.counts)) == 0, len(X), 0).astype(np.int32),
    },
    "rows too few": lambda a, o: {"counts": a.counts - (a.counts > 0)},
    "negative rows": lambda a, o: {"counts": -a.counts},
    "rows of another bin": lambda a, o: {"counts": np.append(a.counts[1:], a.counts[:1])},
}


@pytest.mark.parametrize("lie", COLUMNS.values(), ids=COLUMNS)
def test_lies_about_columns(lie):
    with pytest.raises(ProtocolError, match="'party 0'"):
        fit_with(Liar(TrainingOpened, lie))


def replayed(number):
    """Answer every request from some number on with an older answer."""
    old = []

    def change(request, answer):
        old.append(answer)
        return old[-2] if len(old) > number else answer

    return change


def renumbered(session=None, step=0):
    def change(request, answer):
        envelope = messages.read(answer)
        return messages.write(session or envelope.session, envelope.sequence + step, envelope.message)

    return change


def always(message):
    def change(request, answer):
        envelope = messages.read(answer)
        return messages.write(envelope.session, envelope.sequence, message)

    return change


@pytest.mark.parametrize(
    "change",
    [
        replayed(1),
        replayed(4),
        renumbered(step=1),
        renumbered(session=b"x" * 16),
        always(messages.Done()),
        always(messages.Finish()),
        always(ModelOpened(60)),
        lambda request, answer: request,
        lambda request, answer: answer[:-1],
        lambda request, answer: answer + b"\0",
        lambda request, answer: b"",
        lambda request, answer: b"HTTP/1.1 500 Internal Server Error",
    ],
)
def test_answers_that_break_the_protocol(change):
    with pytest.raises(ProtocolError, match="'party 0'"):
        fit_with(change)


def test_a_refusal_is_told_with_its_reason():
    with pytest.raises(PartyRefusedError, match="'party 0' refuses: out of order today"):
        fit_with(always(messages.Refusal("out of order today", 0)))
    with pytest.raises(ConsentError):
        fit_with(always(messages.Refusal("no consent", 1)))


def test_answers_with_flipped_bytes():
    """Every answer of a training, damaged here and there: our errors or a model, never another exception."""
    good = Recorder(parties_of([X[:, 2:]])[0])
    train(BRIEF, X[:, :2], Y, [good], 1)
    rng = np.random.default_rng(0)
    for at, _ in itertools.product(range(len(good.answers)), range(3)):
        counter = itertools.count()

        def damage(request, answer, at=at, counter=counter):
            if next(counter) != at:
                return answer
            data = bytearray(answer)
            for place in rng.integers(24, len(data), rng.integers(1, 4)) if len(data) > 24 else ():
                data[place] ^= int(rng.integers(1, 256))
            return bytes(data)

        party = Recorder(parties_of([X[:, 2:]])[0], damage)
        with contextlib.suppress(ProtocolError, CipherError, InvalidDataError):
            train(BRIEF, X[:, :2], Y, [party], 1)
