"""Discrete Laplace noise: draws are those of exact integers, and have the closed-form distribution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from gbdt_kernels.draws import discrete_laplace_from_words
from gbdt_kernels.draws.discrete import LOG2_DENOMINATOR, bernoulli_exp, draw_below

ONE = 2**LOG2_DENOMINATOR
MASK64 = 2**64 - 1


def random_words(seed, n):
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


def draws(numerator, words, n):
    out = np.zeros(n, dtype=np.int64)
    n_complete = discrete_laplace_from_words(numerator, words, out)
    return out[:n_complete]


class OutOfWordsError(Exception):
    pass


class ExactSampler:
    """Algorithms 1 and 2 of Canonne, Kamath and Steinke on Python's integers."""

    def __init__(self, words):
        self.words = iter(words)

    def word(self):
        for word in self.words:
            return word
        raise OutOfWordsError

    def below(self, bound):
        while (drawn := self.word() % 2 ** (bound - 1).bit_length()) >= bound:
            pass
        return drawn

    def bernoulli_exp(self, numerator):
        k = 1
        while self.word() % ONE < numerator and (k == 1 or self.below(k) == 0):
            k += 1
        return k % 2 == 1

    def discrete_laplace(self, numerator):
        while True:
            fraction = self.word() % ONE
            if not self.bernoulli_exp(fraction):
                continue
            whole = 0
            while self.bernoulli_exp(ONE):
                whole += 1
            magnitude = (fraction + whole * ONE) // numerator
            negative = self.word() % 2
            if magnitude or not negative:
                return -magnitude if negative else magnitude


WORDS = st.lists(
    st.one_of(
        st.integers(0, MASK64),
        st.integers(0, 20),
        st.sampled_from([0, 1, ONE - 1, ONE, ONE + 1, ONE // 2, MASK64]),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(
    words=WORDS, numerator=st.one_of(st.integers(1, 2**62), st.sampled_from([1, ONE, 2**62, 3, ONE // 10]))
)
def test_draws_are_those_of_exact_integers(words, numerator):
    exact, sampler = [], ExactSampler(words)
    try:
        while True:
            exact.append(sampler.discrete_laplace(numerator))
    except OutOfWordsError:
        pass
    assert draws(numerator, np.array(words, dtype=np.uint64), 100).tolist() == exact


@pytest.mark.parametrize("numerator", [1, 12345, ONE // 7, ONE, 5 * ONE])
def test_long_runs_are_those_of_exact_integers(numerator):
    words = random_words(numerator % 97, 6000)
    sampler = ExactSampler(words.tolist())
    exact = [sampler.discrete_laplace(numerator) for _ in range(150)]
    assert draws(numerator, words, 150).tolist() == exact


@pytest.mark.parametrize("bound", range(2, 34))
def test_below_is_uniform(bound):
    n_words = 2 ** (bound - 1).bit_length()
    drawn = [
        draw_below(bound, np.array([w | ~(n_words - 1) & MASK64], dtype=np.uint64), 0) for w in range(n_words)
    ]
    assert [value for value, _ in drawn] == [w if w < bound else -1 for w in range(n_words)]
    assert {at for _, at in drawn} == {1}


@pytest.mark.parametrize("bound", [5, 2**32, 2**40 + 1, 3 * ONE])
def test_below_reads_every_bit_that_the_bound_has(bound):
    for bit in range(64):
        word = 1 << bit
        assert draw_below(bound, np.array([word], dtype=np.uint64), 0) == (
            ExactSampler([word]).below(bound),
            1,
        )


def test_below_reads_on_after_a_rejection():
    assert draw_below(3, np.array([9, 3, 7, 2, 1], dtype=np.uint64), 1) == (2, 4)
    assert draw_below(3, np.array([2], dtype=np.uint64), 1) == (-1, 1)


@njit
def count_of_ones(numerator, words, n):
    at = ones = 0
    for _ in range(n):
        one, at = bernoulli_exp(numerator, words, at)
        if one < 0:
            return -1
        ones += one
    return ones


@pytest.mark.parametrize("gamma", [0.0, 2.0**-10, 0.1, 0.5, 0.9, 1.0])
def test_bernoulli_is_exp(gamma):
    n = 200_000
    ones = count_of_ones(np.uint64(gamma * ONE), random_words(5, 6 * n), n)
    p = np.exp(-gamma)
    assert abs(ones - n * p) <= 5 * np.sqrt(n * p * (1 - p))


def test_bernoulli_compares_whole_integers():
    """A comparison in float64 would not tell a numerator from its neighbour."""
    numerator = np.uint64(ONE - 1)
    assert bernoulli_exp(numerator, np.array([ONE - 1], dtype=np.uint64), 0) == (1, 1)
    assert bernoulli_exp(numerator, np.array([ONE - 2, ONE - 1], dtype=np.uint64), 0) == (0, 2)
    assert bernoulli_exp(numerator, np.array([ONE - 2], dtype=np.uint64), 0) == (-1, 1)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([0, 0, 1], (0, 3)),  # trial 1 succeeds; trial 2 fails by a 1 out of {0, 1}
        ([0, 0, 0, 0, 1], (1, 5)),  # trial 2 succeeds; trial 3 fails by a 1 out of {0, 1, 2}
        ([0, 0, 0, 0, 3, 2], (1, 6)),  # a 3 is drawn again
        ([0, 0, 0, 0, 0, 0, 3], (0, 7)),
        ([0, 0], (-1, 2)),
        ([0, 0, 0], (-1, 3)),
    ],
)
def test_trial_k_succeeds_in_one_of_k_cases(words, expected):
    assert bernoulli_exp(np.uint64(ONE), np.array(words, dtype=np.uint64), 0) == expected


@pytest.mark.parametrize("inverse_scale", [4.0, 1.0, 0.3, 0.05, 0.003])
def test_frequencies_are_the_closed_form(inverse_scale):
    n = 100_000
    numerator = int(inverse_scale * ONE)
    values = draws(numerator, random_words(6, 40 * n), n)
    assert len(values) == n
    q = np.exp(-numerator / ONE)
    reach = int(np.log(n * (1 - q) / (1 + q) / 10) / inverse_scale)
    k = np.arange(-reach, reach + 1)
    expected = n * (1 - q) / (1 + q) * q ** np.abs(k)
    counts = np.bincount(values[np.abs(values) <= reach] + reach, minlength=len(k))
    observed = np.append(counts, n - counts.sum())
    expected = np.append(expected, n - expected.sum())
    chi_square = ((observed - expected) ** 2 / np.maximum(expected, 1)).sum()
    assert chi_square < len(k) + 6 * np.sqrt(2 * len(k))


@pytest.mark.parametrize("numerator", [1, 2**10, 2**40])
def test_wide_noise_has_the_closed_form_distribution(numerator):
    n = 100_000
    values = np.sort(draws(numerator, random_words(7, 20 * n), n)) * (numerator / ONE)
    cdf = np.where(values < 0, np.exp(values) / 2, 1 - np.exp(-values) / 2)
    distance = np.abs(cdf - np.arange(0.5, n) / n).max()
    assert distance < 2.5 / np.sqrt(n)


def test_noise_of_a_tiny_scale_is_zero():
    values = draws(2**62, random_words(8, 30_000), 1000)
    assert len(values) == 1000
    assert not values.any()


@pytest.mark.parametrize("numerator", [ONE // 50, ONE, 4 * ONE])
def test_words_in_pieces_continue_the_same_draws(numerator):
    words = random_words(9, 400)
    whole = draws(numerator, words, 40)
    lengths = []
    for m in range(len(words) + 1):
        part = draws(numerator, words[:m], 40)
        np.testing.assert_array_equal(part, whole[: len(part)])
        lengths.append(len(part))
    assert lengths[0] == 0
    assert np.isin(np.diff(lengths), [0, 1]).all()
    assert lengths[-1] == len(whole) > 10


@pytest.mark.parametrize("seed", range(20))
def test_the_last_bit_of_the_last_word_is_the_sign(seed):
    words = random_words(seed, 300)
    numerator = ONE // 20
    n_read = next(m for m in range(300) if len(draws(numerator, words[:m], 1)))
    value = draws(numerator, words[:n_read], 1).tolist()
    words[n_read - 1] ^= np.uint64(1)
    assert draws(numerator, words[:n_read], 1).tolist() == [-v for v in value if v]


def test_nothing_is_written_beyond_the_complete_draws():
    out = np.full(50, 99)
    n_complete = discrete_laplace_from_words(ONE // 1000, random_words(10, 100), out)
    assert 0 < n_complete < 50
    assert (out[n_complete:] == 99).all()


def test_about_twelve_words_are_read_per_value():
    words = random_words(11, 120_000)
    assert 8_000 < len(draws(ONE // 50, words, 20_000)) < 15_000
