"""What a party's copy of a run charges, and which values of the other party it takes."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from gbdt_parties.errors import ProtocolError
from gbdt_parties.run.engine import carried_out
from gbdt_parties.two_party.names import Seat
from lgb_dp.accounting.ledger import Release
from lgb_dp.accounting.shares import closeness
from lgb_dp.losses.loss import STEPS
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.trees import PublicTree
from lgb_dp.vertical.numbers import TAIL, PublicNumbers
from lgb_dp.vertical.replica import ReplicaAnswers
from lgb_dp.vertical.sums import OpenedSums, PointHolder, ReleasedCounts

A, B = Seat(0, b"a" * 32), Seat(1, b"b" * 32)
NUMBERS = PublicNumbers.of(100.0, 5.0, (0.1, 0.3), 0.5)
COUNTS = Release("label counts", "Gaussian", 0.0, 0, 0, mu=0.25)
N_ROWS = 7


class OneSide:
    """An exchange whose other party sends given bytes, and notes what this one sends and pays."""

    def __init__(self, others=b""):
        self.others, self.said, self.n_paid = others, [], 0

    def value(self, number, size, check, make):
        yield from ()
        content = self.others if make is None else make(SecureRandom(1))
        assert len(content) == size
        check(content)
        self.said.append((number, make is not None))
        return content

    def round(self, number, layout, inputs, pay, public):
        yield from ()
        pay()
        assert PublicNumbers.from_bytes(public) == NUMBERS
        return number, layout


def answers_of(exchange, place=0):
    """Gives the answer of a party to a question, and what it has charged."""
    charged, seats = [], SimpleNamespace(own=(A, B)[place], other=(A, B)[1 - place])
    answers = ReplicaAnswers(exchange, seats, N_ROWS, lambda *charge: charged.append(charge))
    return lambda asked: carried_out(answers.answer(asked), None), charged


def tree(depth):
    n_nodes = 2**depth - 1
    return PublicTree(np.zeros(n_nodes, np.int32), np.zeros((n_nodes, 256), np.uint8), np.zeros(n_nodes))


def test_a_round_is_charged_for_all_its_trees_and_for_noise_that_is_not_gaussian():
    assert NUMBERS.variances[0] < NUMBERS.variances[1]
    answer, charged = answers_of(OneSide(), place=1)
    refresh = SimpleNamespace(
        number=3, numbers=NUMBERS, trees=[tree(4), tree(2), tree(3)], layout=lambda seats, n: (seats, n)
    )
    assert answer(OpenedSums(refresh, SimpleNamespace(inputs=print))) == (3, ((A, B), N_ROWS))
    close = 2 * (16 + 4 + 8) * closeness(NUMBERS.variances[0], 1)
    assert charged == [("leaf sums", NUMBERS.mu * math.sqrt(3), close)]


def test_own_counts_are_charged_before_noise_and_others_are_not():
    exchange = OneSide(np.arange(3).astype("<i8").tobytes())
    answer, charged = answers_of(exchange)
    found = answer(ReleasedCounts(COUNTS, np.array([500, 600, 0, 0, 0]), 2.0, (2, 3)))
    assert charged == [("label counts", 0.25, 0.0)]
    assert exchange.said == [(0, True), (1, False)]
    assert found[2:].tolist() == [0, 1, 2]
    assert (np.abs(found[:2] - [500, 600]) < TAIL * 2).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_counts_that_no_rows_and_noise_can_have_are_refused(sign):
    scale = 2.0
    bound = math.ceil(STEPS * N_ROWS + TAIL * scale)
    for value, is_possible in ((bound, True), (bound + 1, False)):
        answer, _ = answers_of(OneSide(np.array([0, sign * value], "<i8").tobytes()), place=1)
        asked = ReleasedCounts(COUNTS, np.zeros(2, np.int64), scale, (2, 0))
        if is_possible:
            assert answer(asked).tolist() == [0, sign * value]
        else:
            with pytest.raises(ProtocolError, match=r"counts.*range"):
                answer(asked)


def test_a_party_without_labels_counts_none():
    counts = PointHolder(None, SimpleNamespace(n_counts=lambda n_outputs: 2 * n_outputs)).label_counts()
    assert (counts.dtype, counts.tolist()) == (np.int64, [0, 0])
