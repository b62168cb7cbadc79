"""Public numbers of a run: sums that neither wrap nor lose a bit, and steps that are fine enough."""

import math
from fractions import Fraction

import numpy as np
import pytest

from gbdt_parties.errors import SumRangeError
from lgb_dp.accounting.gaussian import gaussian_mu
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.vertical.numbers import MAX_STEPS, PublicNumbers

BOUNDS = [(0.5, 0.3003), (1.0, 0.3003), (0.08, 0.5), (1.0, 0.5), (1.0, 1.0), (0.9, 0.5)]
"""Of the losses: binary (two clips), square, logarithmic link, Huber, a quantile of 0.9."""


def tree_mu(epsilon, n_trees):
    return gaussian_mu(epsilon, 1e-5) / math.sqrt(n_trees)


def prototype_steps(n_rows, clip, half):
    """The rule of the prototype, which bounds gradients alone and forgets the noise."""
    return 2 ** min(14, math.floor(math.log2((2 ** (half - 1) - 1) / (n_rows * clip))))


def opened(numbers, gradient, hessian):
    """Packed sums as they are opened: elements of the ring."""
    words = numbers.packed(np.array(gradient, dtype=np.int64), np.array(hessian, dtype=np.int64))
    return words & np.uint64((1 << numbers.ring_bits) - 1)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("n_rows", [1, 1_000, 100_000, 1_000_000, 10_000_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_largest_sums_with_noise_fit_a_half(bounds, n_rows, epsilon):
    numbers = PublicNumbers.of(n_rows, 40.0, bounds, tree_mu(epsilon, 200))
    assert numbers.max_rows == n_rows + 480
    half = 2 ** (numbers.ring_bits // 2 - 1)
    std = max(bounds) * numbers.steps / numbers.mu
    assert n_rows * max(bounds) * numbers.steps + 12 * math.sqrt(2) * std < half
    for limit, variance, most in zip(numbers.limits, numbers.variances, numbers.largest, strict=True):
        assert numbers.max_rows * limit + 12 * math.sqrt(2 * variance) <= most < half
    # The fewest bits, and the most steps.
    twice = PublicNumbers(numbers.max_rows, bounds, numbers.mu, numbers.ring_bits, numbers.steps + 1)
    assert numbers.steps == MAX_STEPS or max(twice.largest) >= half


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("n_rows", [1_000, 1_000_000])
def test_packed_sums_decode_exactly(bounds, n_rows):
    numbers = PublicNumbers.of(n_rows, 40.0, bounds, tree_mu(1.0, 200))
    rng = np.random.default_rng(n_rows)
    most_g, most_h = numbers.largest
    gradient = np.concatenate([rng.integers(-most_g, most_g + 1, 5_000), [most_g, -most_g, 0, -1, 0, -1]])
    hessian = np.concatenate([rng.integers(-most_h, most_h + 1, 5_000), [-most_h, most_h, -1, 0, 0, -1]])
    for found, put in zip(
        numbers.decoded(opened(numbers, gradient, hessian)), (gradient, hessian), strict=True
    ):
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, put)


@pytest.mark.parametrize("ring_bits", [48, 64])
def test_sums_of_shares_carry_from_one_half_into_the_other_and_back(ring_bits):
    numbers = PublicNumbers(1_000, (1.0, 0.5), 0.1, ring_bits, 1_024)
    rng = np.random.default_rng(3)
    g, h = rng.integers(-1_024, 1_025, (2, 500)), rng.integers(-50, 513, (2, 500))
    shares = rng.integers(0, 2**64, 500, dtype=np.uint64)
    others = numbers.packed(g.sum(axis=0), h.sum(axis=0)) - shares
    total = np.array([(shares.sum() + others.sum()) & np.uint64((1 << ring_bits) - 1)])
    gradient, hessian = numbers.decoded(total)
    assert (gradient[0], hessian[0]) == (g.sum(), h.sum())


def wrapped(half, total):
    return not -(2 ** (half - 1)) <= total < 2 ** (half - 1)


def test_hessians_of_a_hundred_thousand_rows_that_wrap_by_gradients_alone_do_not_wrap():
    """C = 0.08: the prototype's steps follow from C, but hessians reach 0.5."""
    n_rows, bounds = 100_000, (0.08, 0.5)
    steps = prototype_steps(n_rows, bounds[0], 24)
    assert wrapped(24, n_rows * int(bounds[1] * steps))
    numbers = PublicNumbers.of(n_rows, 40.0, bounds, tree_mu(1.0, 200))
    gradient, hessian = -n_rows * numbers.limits[0], n_rows * numbers.limits[1]
    assert not wrapped(numbers.ring_bits // 2, hessian)
    found = numbers.decoded(opened(numbers, [gradient], [hessian]))
    assert [int(sums[0]) for sums in found] == [gradient, hessian]


def test_noise_of_a_thousand_rows_that_wraps_by_rows_alone_does_not_wrap():
    """ε = 0.1: the noise of two parties is far larger than any sum."""
    n_rows, bounds, mu = 1_000, (0.5, 0.3003), tree_mu(0.1, 200)
    steps = prototype_steps(n_rows, bounds[0], 24)
    noise = 6 * math.sqrt(2) * bounds[0] * steps / mu
    assert wrapped(24, noise)
    numbers = PublicNumbers.of(n_rows, 40.0, bounds, mu)
    noise = [round(12 * math.sqrt(2 * variance)) for variance in numbers.variances]
    sums = [n_rows * limit for limit in numbers.limits]
    far = [a + b for a, b in zip(sums, noise, strict=True)]
    found = numbers.decoded(opened(numbers, [-far[0]], [far[1]]))
    assert [int(values[0]) for values in found] == [-far[0], far[1]]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_the_room_of_a_hessian_is_the_largest_in_the_bound(bounds):
    numbers = PublicNumbers.of(50_000, 40.0, bounds, tree_mu(1.0, 200))
    clip, limit = (Fraction(bound) * numbers.steps for bound in bounds)
    room = numbers.hessian_room
    assert len(room) == numbers.limits[0] + 1
    assert room[0] == numbers.limits[1]
    for q, h in enumerate(room.tolist()):
        assert (q / clip) ** 2 + (h / limit) ** 2 <= 1 < (q / clip) ** 2 + ((h + 1) / limit) ** 2
    with pytest.raises(ValueError, match="read-only"):
        room[0] += 1


@pytest.mark.parametrize(("n_rows", "ring_bits"), [(10_000, 48), (100_000, 48), (1_000_000, 64)])
def test_rounding_is_small_beside_the_noise(n_rows, ring_bits):
    numbers = PublicNumbers.of(n_rows, 40.0, (0.5, 0.3003), tree_mu(1.0, 200))
    assert numbers.ring_bits == ring_bits
    rng = np.random.default_rng(0)
    exact = 5.37
    rounded = np.floor(exact + rng.random((200, 1_000)))
    added = rounded.sum(axis=1).var() / 1_000 * numbers.max_rows
    for variance in numbers.variances:
        assert math.sqrt((2 * variance + added) / (2 * variance)) < 1.031


def test_a_ring_that_is_too_coarse_is_not_taken():
    small = PublicNumbers(1_000_000, (0.5, 0.3003), tree_mu(1.0, 200), 48, 16)
    # 5 steps of a hessian, and rounding of more than half of the noise.
    assert min(small.limits) == 4
    assert 0.25 * 2 * min(small.variances) < 1_000_000 / 4
    assert PublicNumbers.of(1_000_000, 40.0, (0.5, 0.3003), tree_mu(1.0, 200)).ring_bits == 64


def test_numbers_follow_from_the_released_count_alone():
    mu = tree_mu(1.0, 100)
    assert PublicNumbers.of(999.25, 3.0, (0.5, 0.3003), mu) == PublicNumbers.of(999.5, 3.0, (0.5, 0.3003), mu)
    assert PublicNumbers.of(-500.0, 3.0, (0.5, 0.3003), mu).max_rows == 1


def test_variances_are_those_of_the_bounds_and_of_rounding():
    numbers = PublicNumbers.of(30_000, 40.0, (0.08, 0.5), 0.02)
    for bound, variance in zip(numbers.bounds, numbers.variances, strict=True):
        assert (Fraction(bound) * numbers.steps / Fraction(0.02)) ** 2 + 4 <= variance
        assert variance < (bound * numbers.steps / 0.02) ** 2 * (1 + 1e-9) + 5.01
    assert numbers.stds == pytest.approx((math.sqrt(2) * 0.08 / 0.02, math.sqrt(2) * 0.5 / 0.02), rel=1e-4)


def test_sums_that_honest_parties_do_not_get_are_refused():
    numbers = PublicNumbers.of(1_000, 5.0, (0.5, 0.3003), 0.05)
    most, highest = numbers.largest
    fits = opened(numbers, [most, -most, 0], [0, highest, 0])
    numbers.check_range([fits, fits])
    for gradient, hessian in [(most + 1, 0), (-most - 1, 0), (0, highest + 1), (0, -highest)]:
        with pytest.raises(SumRangeError, match="out of range"):
            numbers.check_range([fits, opened(numbers, [gradient, 0], [hessian, 0])])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((math.nan, 1.0, (0.5, 0.3), 0.1), "released_rows=nan"),
        ((1.0, 0.0, (0.5, 0.3), 0.1), "released_std"),
        ((1.0, 1.0, (0.0, 0.3), 0.1), "bound of gradients"),
        ((1.0, 1.0, (0.5, math.inf), 0.1), "bound of hessians"),
        ((1.0, 1.0, (0.5, 0.3), math.inf), "mu of a tree"),
        ((1e12, 1.0, (0.5, 0.3), 0.1), "fit.*64 bits"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        PublicNumbers.of(*arguments)
