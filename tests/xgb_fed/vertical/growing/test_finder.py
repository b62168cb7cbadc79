"""A passive party that lies: one error, whatever the lie, and the estimator stays unfitted."""

import contextlib
import itertools

import numpy as np
import pytest

from gbdt_parties import messages
from gbdt_parties.errors import ConsentError, InvalidDataError, PartyRefusedError, ProtocolError
from liars import Liar, X, Y, fit_with
from vertical_training import Recorder, parties_of, train
from xgb_fed.errors import CipherError
from xgb_fed.vertical.protocol.messages import (
    Assignments,
    ModelOpened,
)

BRIEF = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 4, "base_score": 0.5}


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
