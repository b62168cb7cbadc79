"""Exponents and orders are drawn independently, and a copy of a stream draws others."""

import copy
import pickle
from itertools import permutations

import numpy as np
import pytest

from uniformity import check_uniform, stream


def test_exponents_are_independent():
    """No correlation between the parts modulo p and modulo q: the joint law is the product (616 cells above).

    Here the exponents themselves: rejection leaves no bias toward small numbers, as a modulo reduction would.
    """
    drawn = stream(4).below(22, 22 * 400)[:, 0]
    check_uniform(drawn.tolist(), list(range(22)))
    drawn = stream(5).below((1 << 64) + 1, 3)
    assert drawn.shape == (3, 2)
    nonzero = stream(6).below(3, 900, nonzero=True)[:, 0]
    check_uniform(nonzero.tolist(), [1, 2])


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_a_stream_draws_other_numbers(duplicate):
    one = stream(7)
    other = duplicate(one)
    assert type(other) is type(one)
    assert (one.words(1, 4) != other.words(1, 4)).all()


def test_orders_are_uniform_and_drawn_again_where_words_are_equal(monkeypatch):
    one = stream(8)
    drawn = ["".join(map(str, one.permutation(3))) for _ in range(6 * 400)]
    check_uniform(drawn, ["".join(order) for order in permutations("012")])
    words = iter([[5, 9, 5], [9, 5, 7]])
    monkeypatch.setattr(one, "words", lambda n_rows, width: np.array([next(words)], dtype=np.uint64))
    assert one.permutation(3).tolist() == [1, 2, 0]
