"""What masks hide, by exact enumeration of a toy modulus, and that they cancel."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_parties.secure_sum.masks import CHUNK, mask_stream, masked, pair_of, signs
from gbdt_parties.secure_sum.rings import MODULO_64, MODULO_128, Ring

TOY = Ring(2)
N = 4
PAIRS = list(combinations(range(N), 2))
WORLDS = [(0, 0, 0, 0), (1, 3, 0, 0), (2, 1, 3, 2), (3, 3, 1, 2)]
"""Values of four parties; all but the last world have the sum 0."""

MASKS = np.array(list(product(range(2**TOY.bits), repeat=len(PAIRS))), dtype=np.uint64)
"""Everything that the masks of all pairs can be, each equally likely."""


class Enumerated:
    """The stream of a pair, in all of those cases."""

    def __init__(self, pair):
        self.values = MASKS[:, PAIRS.index(pair)]

    def words(self, count):
        assert count == len(MASKS)
        return self.values


def messages(values):
    """What the parties send in all cases, by the code that real streams are used with."""
    columns = []
    for place, value in enumerate(values):
        added, subtracted = [], []
        for other, sign in signs(place, range(N)).items():
            (added if sign > 0 else subtracted).append(Enumerated((min(place, other), max(place, other))))
        own = np.full(len(MASKS), value, dtype=np.uint64)
        columns.append(next(masked(TOY, own, added, subtracted)))
    return np.column_stack(columns)


def views(values, colluding=()):
    """Everything the coordinator and some parties see, as frequencies over all cases."""
    known = [i for i, pair in enumerate(PAIRS) if set(pair) & set(colluding)]
    digits = np.hstack([messages(values), MASKS[:, known]])
    number = digits @ 4 ** np.arange(digits.shape[1], dtype=np.uint64)
    _, first, times = np.unique(number, return_index=True, return_counts=True)
    return digits[first].tolist(), times.tolist(), [values[place] for place in colluding]


def test_each_message_alone_is_uniform_whatever_the_value():
    for values in WORLDS:
        for column in messages(values).T:
            assert np.bincount(column.astype(np.int64)).tolist() == [len(MASKS) // 4] * 4


def test_the_coordinator_sees_the_sum_and_nothing_else():
    """All messages together are uniform on those that add up to the sum."""
    for values in WORLDS:
        seen, times, _ = views(values)
        assert {sum(row) % 4 for row in seen} == {sum(values) % 4}
        assert len(seen) == 4 ** (N - 1)
        assert len(set(times)) == 1
    assert views(WORLDS[0]) == views(WORLDS[1]) == views(WORLDS[2]) != views(WORLDS[3])


def test_two_parties_with_the_coordinator_see_no_more_than_the_sum_of_the_others():
    for colluding in combinations(range(N), 2):
        others = [place for place in range(N) if place not in colluding]
        by_sum = {}
        for values in product(range(4), repeat=2):
            world = [0] * N
            for place, value in zip(others, values, strict=True):
                world[place] = value
            by_sum.setdefault(sum(values) % 4, []).append(views(world, colluding))
        assert len(by_sum) == 4
        for seen in by_sum.values():
            assert all(view == seen[0] for view in seen)
        distinct = [seen[0] for seen in by_sum.values()]
        assert all(a != b for a, b in combinations(distinct, 2))


@settings(max_examples=20, deadline=None)
@given(
    n_parties=st.integers(2, 6),
    n_values=st.sampled_from([1, 3, CHUNK, CHUNK + 1]),
    ring=st.sampled_from([MODULO_64, MODULO_128]),
    seed=st.integers(0, 2**32),
)
def test_masks_cancel(n_parties, n_values, ring, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-(2**50), 2**50, (n_parties, n_values))
    total = ring.zeros(n_values)
    for place in range(n_parties):
        added, subtracted = [], []
        for other, sign in signs(place, range(n_parties)).items():
            pair = bytes([min(place, other), max(place, other)])
            (added if sign > 0 else subtracted).append(mask_stream(pair, pair, b"roster", b"attempt"))
        own = ring.from_integers(vectors[place])
        sent = np.concatenate(list(masked(ring, own, added, subtracted)))
        if n_parties > 1:
            assert not np.array_equal(sent, own)
        total = ring.add(total, sent)
    assert ring.centred(total, 2**60).tolist() == vectors.sum(axis=0).tolist()


def test_the_party_that_comes_first_adds_the_mask_of_a_pair():
    assert signs(1, range(4)) == {0: -1, 2: 1, 3: 1}


@pytest.mark.parametrize("changed", range(4))
def test_streams_differ_with_secret_pair_roster_and_attempt(changed):
    one = (b"s", b"p", b"r", b"a")
    other = [*one[:changed], b"x", *one[changed + 1 :]]
    assert mask_stream(*one).words(2).tolist() == mask_stream(*one).words(2).tolist()
    assert mask_stream(*one).words(2).tolist() != mask_stream(*other).words(2).tolist()


def test_a_pair_is_the_same_from_both_sides_and_no_other():
    ends = [(place, bytes([key]) * 32) for place in range(3) for key in range(3)]
    pairs = {pair_of(one, other): {one, other} for one, other in combinations(ends, 2)}
    assert len(pairs) == len(list(combinations(ends, 2)))
    assert all(pair_of(*sorted(two, reverse=True)) == pair for pair, two in pairs.items())
    # Parties of several releases derive the same masks.
    assert pair_of((258, b"k" * 32), (1, b"l" * 32)) == b"\1\0" + b"l" * 32 + b"\2\1" + b"k" * 32
