"""The draw of a split is exact, and its weights are the exponential mechanism's."""

import math
from bisect import bisect_right
from decimal import Decimal, localcontext
from itertools import accumulate, groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.draws import of_candidates, select
from gbdt_kernels.draws.selection import FLOOR, WORD_PAIRS_PER_DRAW, draw_one
from gbdt_kernels.trees import BinLayout, candidate_gains
from selection_weights import cumulated, weights_of

pytestmark = pytest.mark.usefixtures("tiny_blocks")

MASK64 = 2**64 - 1
ROUNDING = 2.0**-32 * (1 + 2.0**-10)
"""Rounding down, and (a thousand times less) the rounding of exp."""


def drawn_index(weights, *integers):
    """Index drawn when the random words spell the given integers, in runs or one by one."""
    words = np.array([word for x in integers for word in (x >> 64, x & MASK64)], dtype=np.uint64)
    runs = [(weight, len(list(equal))) for weight, equal in groupby(weights)]
    drawn = set()
    for parts in (runs, [(weight, 1) for weight in weights]):
        own = np.array([weight for weight, _ in parts], dtype=np.uint64)
        end = np.cumsum([length for _, length in parts]).astype(np.int32)
        drawn.add(int(draw_one(own, own, end, *cumulated(own, end), words)))
    assert len(drawn) == 1
    return drawn.pop()


def mask_of(total):
    """The bits the draw keeps: those of the total's high word, or of its low word if there is no high one."""
    return (1 << total.bit_length()) - 1


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 9), st.integers(2**32, 2**62)), min_size=1, max_size=12))
def test_the_draw_is_right_at_every_cumulative_boundary(weights):
    total = sum(weights)
    ends = list(accumulate(weights))
    for x in {y for end in [0, *ends] for y in (end - 1, end, end + 1) if 0 <= y < total}:
        assert drawn_index(weights, x) == bisect_right(ends, x)
    for x in {total, total + 1, mask_of(total)} - {mask_of(total) + 1, mask_of(total) + 2}:
        assert drawn_index(weights, x) == -1


@pytest.mark.parametrize("n", [3, 4, 5, 8, 9, 40])
def test_the_draw_is_right_for_totals_around_powers_of_the_word(n):
    """Weights of 2**62: four make 2**64 exactly."""
    weights = [2**62] * n
    for i in range(n):
        assert drawn_index(weights, i * 2**62) == i
        assert drawn_index(weights, (i + 1) * 2**62 - 1) == i
    assert drawn_index(weights, n * 2**62) == -1


@pytest.mark.parametrize("weights", [[1], [2], [3, 1, 4], [0, 5, 0, 2], [8], [1] * 17])
def test_every_integer_below_the_total_is_drawn_exactly_once(weights):
    total = sum(weights)
    drawn = [drawn_index(weights, x) for x in range(mask_of(total) + 1)]
    assert [drawn.count(i) for i in range(len(weights))] == weights
    assert drawn.count(-1) == mask_of(total) + 1 - total


@settings(max_examples=100, deadline=None)
@given(weights=st.lists(st.integers(2**32, 2**62), min_size=1, max_size=9), noise=st.integers(0, 2**128 - 1))
def test_bits_above_the_total_are_ignored(weights, noise):
    total = sum(weights)
    x = noise % total
    ignored = noise & ~mask_of(total) & (2**128 - 1)
    assert drawn_index(weights, x | ignored) == drawn_index(weights, x)


@settings(max_examples=100, deadline=None)
@given(weights=st.lists(st.integers(2**32, 2**62), min_size=1, max_size=9), data=st.data())
def test_rejected_words_give_way_to_the_next_pair(weights, data):
    total = sum(weights)
    rejected = data.draw(st.lists(st.integers(total, mask_of(total)), max_size=3))
    x = data.draw(st.integers(0, total - 1))
    assert drawn_index(weights, *rejected, x) == bisect_right(list(accumulate(weights)), x)
    assert not rejected or drawn_index(weights, *rejected) == -1


def test_a_node_is_drawn_alike_whatever_was_drawn_before_it():
    """Nodes whose candidates are one run, or three, share their memory."""
    rng, n = np.random.default_rng(4), 200
    utilities = np.where(np.arange(n)[:, None] % 2, [0.0, 0.0, 0.0], [0.0, -1.0, -2.0])
    words = rng.integers(0, 2**64, (n, 2), dtype=np.uint64)
    together, alone = np.full(n, -1), np.full(n, -1)
    select(utilities, words, together, 1)
    for k in range(n):
        select(utilities[k : k + 1], words[k : k + 1], alone[k : k + 1], 1)
    np.testing.assert_array_equal(together, alone)
    assert {-1, 0, 1, 2} == set(alone[1::2].tolist())


UTILITIES = st.lists(
    st.one_of(
        st.floats(-30, 30),
        st.floats(-1e12, 1e12),
        st.sampled_from([0.0, -FLOOR, float(np.nextafter(-FLOOR, 0)), float(np.nextafter(-FLOOR, -99))]),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=300, deadline=None)
@given(UTILITIES)
def test_weights_are_exp_of_the_floored_utilities(utilities):
    weights, total = weights_of(utilities)
    largest = Decimal(max(utilities))
    with localcontext() as context:
        context.prec = 40
        for weight, utility in zip(weights, utilities, strict=True):
            exact = 2**62 * max(Decimal(utility) - largest, Decimal(-FLOOR)).exp()
            assert abs(weight - exact) <= Decimal(ROUNDING) * exact
            assert weight <= 2**62
    assert weights[int(np.argmax(utilities))] == 2**62
    assert total == sum(weights)


def test_no_weight_is_below_the_floor():
    assert 30 * np.log(2) == FLOOR
    near = -FLOOR + np.arange(-50, 51) * np.spacing(FLOOR)
    far = [-21.0, -1e3, -1e300, -np.inf]
    weights, _ = weights_of([0.0, *near, *far])
    assert min(weights) == 2**32
    assert weights[-4:] == [2**32] * 4


def test_totals_carry_into_the_high_word():
    for n in (1, 3, 4, 5, 1000):
        weights, total = weights_of([0.25] * n)
        assert total == sum(weights) == n * 2**62


@settings(max_examples=300, deadline=None)
@given(
    moves=st.lists(st.tuples(st.floats(-45, 5), st.floats(0, 1)), min_size=1, max_size=10),
    shift=st.floats(-100, 100),
    epsilon=st.floats(0, 8),
)
def test_flooring_keeps_utilities_1_lipschitz_and_probabilities_within_epsilon(moves, shift, epsilon):
    """Neighbours move every utility by an amount in [shift, shift + epsilon]."""
    before = np.array([u for u, _ in moves])
    after = before + shift + epsilon * np.array([t for _, t in moves])
    old, old_total = weights_of(before)
    new, new_total = weights_of(after)
    log_new, log_old = (np.array([math.log(w) for w in weights]) for weights in (new, old))
    floored_move = log_new + after.max() - log_old - before.max()
    slack = 2 * ROUNDING
    assert (floored_move >= shift - slack).all()
    assert (floored_move <= shift + epsilon + slack).all()
    log_ratio = log_new - math.log(new_total) - (log_old - math.log(old_total))
    assert np.abs(log_ratio).max() <= epsilon + 2 * slack


def random_nodes(seed, n_nodes):
    rng = np.random.default_rng(seed)
    layout = BinLayout(np.array([4, 3, 2]), np.array([False, True, False]), rng.random((2, 12)) < 0.5)
    histograms = np.zeros((n_nodes, layout.n_total_bins, 2), dtype=np.int64)
    for node in histograms:
        for f in range(layout.n_features):
            bins = slice(*layout.bin_offsets[f : f + 2])
            node[bins, 1] = rng.multinomial(100, np.full(layout.n_bins[f] + 1, 1 / (layout.n_bins[f] + 1)))
            node[bins, 0] = rng.integers(-20, 20, layout.n_bins[f] + 1)
    words = rng.integers(0, 2**64, (n_nodes, 2 * WORD_PAIRS_PER_DRAW), dtype=np.uint64)
    return layout, histograms, words


@pytest.mark.parametrize("n_threads", [1, 3])
def test_each_node_gets_the_draw_of_its_own_gains_and_words(n_threads):
    layout, histograms, words = random_nodes(0, 50)
    chosen = np.full(50, -1)
    utilities = 0.3 * candidate_gains(histograms, layout, 0.5, n_threads)
    select(utilities, words, chosen, n_threads)
    for node in range(50):
        weights, _ = weights_of(utilities[node])
        integers = [(high << 64) + low for high, low in words[node].reshape(-1, 2).tolist()]
        assert chosen[node] == drawn_index(weights, *integers)


@settings(max_examples=100, deadline=None)
@given(
    runs=st.lists(st.tuples(st.floats(-25, 0), st.integers(1, 600)), min_size=1, max_size=8),
    words=st.lists(st.integers(0, MASK64), min_size=2, max_size=2 * WORD_PAIRS_PER_DRAW).filter(
        lambda words: len(words) % 2 == 0
    ),
)
def test_runs_of_equal_candidates_are_drawn_from_as_one_by_one(runs, words):
    utilities = np.array([u for u, length in runs for _ in range(length)])
    weights = [int(2**62 * np.exp(u - utilities.max())) for u, length in runs for _ in range(length)]
    weights = [max(weight, 2**32) for weight in weights]
    ends, total = list(accumulate(weights)), sum(weights)
    pairs = [((high << 64) + low) & mask_of(total) for high, low in zip(words[::2], words[1::2], strict=True)]
    drawn = [x for x in pairs if x < total]
    chosen = np.array([-1])
    select(utilities[None], np.array([words], dtype=np.uint64), chosen)
    assert chosen[0] == (bisect_right(ends, drawn[0]) if drawn else -1)


@settings(max_examples=100, deadline=None)
@given(
    parts=st.lists(
        st.tuples(
            st.sampled_from([0.0, -1.0, -7.5, -FLOOR, -99.0]),
            st.sampled_from([None, 0.0, -1.0, -8.0, -99.0]),
            st.integers(1, 300),
        ),
        min_size=1,
        max_size=8,
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_candidates_that_repeat_are_drawn_as_if_each_were_written_out(parts, seed):
    utilities = np.array([[u for pair in parts for u in pair[:2] if u is not None]])
    widths = np.array([2 if pair[1] is not None else 1 for pair in parts])
    repeats = np.column_stack([np.cumsum(widths) - widths, widths, [pair[2] for pair in parts]])
    written_out = [u for *pair, count in parts for u in [u for u in pair if u is not None] * count]
    of_all = of_candidates(utilities, repeats)
    assert of_all.tolist() == [written_out]
    words = np.random.default_rng(seed).integers(0, 2**64, (64, 2 * WORD_PAIRS_PER_DRAW), dtype=np.uint64)
    chosen, expected = np.full((2, 64), -1)
    select(np.repeat(utilities, 64, axis=0), words, chosen, 1, repeats.astype(np.int32))
    select(np.repeat(of_all, 64, axis=0), words, expected, 1)
    assert chosen.tolist() == expected.tolist()
    weights, total = weights_of(written_out)
    high, low = words[0, :2].tolist()
    drawn = ((high << 64) + low) & mask_of(total)
    assert drawn >= total or chosen[0] == bisect_right(list(accumulate(weights)), drawn)


def test_chosen_nodes_are_kept_and_rejected_ones_stay_open():
    layout, histograms, words = random_nodes(1, 4)
    words[1] = MASK64
    chosen = np.array([7, -1, -1, 3])
    utilities = 0.3 * candidate_gains(histograms, layout, 0.5)
    select(utilities, words, chosen)
    assert chosen[[0, 1, 3]].tolist() == [7, -1, 3]
    assert chosen[2] >= 0
    words[1] = 0
    select(utilities, words, chosen)
    assert chosen[1] == 0


@pytest.mark.parametrize("scale", [0.0, 0.1, 0.2])
def test_frequencies_are_the_exponential_mechanism(scale):
    n = 40_000
    layout, histograms, _ = random_nodes(2, 1)
    words = np.random.default_rng(3).integers(0, 2**64, (n, 2 * WORD_PAIRS_PER_DRAW), dtype=np.uint64)
    chosen = np.full(n, -1)
    utilities = scale * candidate_gains(histograms, layout, 0.5)[0]
    select(np.repeat(utilities[None], n, axis=0), words, chosen)
    expected = np.exp(utilities - utilities.max())
    expected *= n / expected.sum()
    common = expected > 5
    counts = np.bincount(chosen, minlength=layout.n_candidates)
    chi_square = ((counts - expected)[common] ** 2 / expected[common]).sum()
    assert common.sum() > 1
    assert chi_square < common.sum() + 6 * np.sqrt(2 * common.sum())
