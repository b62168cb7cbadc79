"""Tables of gradients and hessians at points: their bound, what they are in expectation, and the points."""

from itertools import product

import numpy as np
import pytest

from gbdt_parties.two_party.layout import RoundLayout
from gbdt_parties.two_party.names import Seat
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import STEPS, NewtonLoss
from lgb_dp.losses.registry import loss_of
from lgb_dp.vertical.numbers import PublicNumbers
from lgb_dp.vertical.tables import N_POINTS, PointTables, loss_bounds, round_points, to_points

OWN = {"huber": {"alpha": 2.0}, "quantile": {"alpha": 0.9}, "tweedie": {"tweedie_variance_power": 1.4}}
OBJECTIVES = ["binary", "regression", "regression_l1", "huber", "quantile", "poisson", "gamma", "tweedie"]
CLIP = {"huber": 0.2, "regression_l1": 0.05, "quantile": 0.05, "poisson": 0.3, "gamma": 0.7, "tweedie": 0.4}
"""Of `Start`."""

EXTREME = [
    0.0,
    -0.0,
    1e-300,
    0.3,
    -0.3,
    7.0,
    -7.0,
    30.0,
    -30.0,
    800.0,
    -800.0,
    1e300,
    -1e300,
    np.inf,
    -np.inf,
]


def loss(objective, hessian_share=0.0, mu=0.3):
    low, high = (0.0, 1.0) if objective == "binary" else (0.5, 20.0)
    scale = LabelScale(objective, 1, low, high, of_objective=OWN.get(objective, {}))
    return loss_of(scale, None, hessian_share, mu), scale


def numbers_for(one, steps=None, ring_bits=48):
    numbers = PublicNumbers.of(5_000, 20.0, loss_bounds(one), 0.02)
    return PublicNumbers(5_480, numbers.bounds, 0.02, ring_bits, steps) if steps else numbers


def made(one, numbers, target, weight, score, points, dither, clip):
    """Decoded tables."""
    n = len(target)
    tables = PointTables(one, numbers, target, weight).at(score, points, dither, clip)(0, n)
    assert tables.shape == (n, len(points), 1)
    assert tables.dtype == np.uint64
    return numbers.decoded(tables[:, :, 0] & np.uint64((1 << numbers.ring_bits) - 1))


@pytest.mark.parametrize("hessian_share", [0.0, 0.2])
@pytest.mark.parametrize(("steps", "ring_bits"), [(16_384, 64), (97, 48), (20, 48)])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_entry_keeps_to_the_bound_after_rounding(objective, steps, ring_bits, hessian_share):
    """Whatever index is asked for, whatever scores, labels, weights and dithers are."""
    one, _ = loss(objective, hessian_share)
    numbers = numbers_for(one, steps, ring_bits)
    dithers = [0, 0xFFFF, 0xFFFF0000, 0xFFFFFFFF, 0x80008000]
    rows = list(product(EXTREME, [0.0, 1.0, 0.37, -1.0], [0.0, 1e-9, 0.5, 1.0], dithers))
    rng = np.random.default_rng(1)
    random = zip(
        rng.normal(0, 3, 4_000),
        rng.random(4_000),
        rng.random(4_000),
        rng.integers(0, 2**32, 4_000),
        strict=True,
    )
    score, target, weight, dither = map(np.array, zip(*rows, *random, strict=True))
    points = np.concatenate([np.linspace(-12, 12, 16), [500.0]])
    gradient, hessian = made(
        one, numbers, target, weight, score, points, dither.astype(np.uint32), CLIP.get(objective, 1.0)
    )
    assert np.abs(gradient).max() <= numbers.limits[0]
    assert hessian.min() >= 0
    # The room is the largest integer in the bound, by exact arithmetic (test_numbers).
    assert (hessian <= numbers.hessian_room[np.abs(gradient)]).all()


def test_a_score_that_is_no_number_keeps_to_the_bound():
    for objective in OBJECTIVES:
        one, _ = loss(objective)
        numbers = numbers_for(one)
        nan = np.full(1, np.nan)
        gradient, hessian = made(
            one, numbers, np.ones(1), np.ones(1), nan, (-1.0, 1.0), np.zeros(1, np.uint32), 1.0
        )
        assert (hessian <= numbers.hessian_room[np.abs(gradient)]).all()
        assert (hessian >= 0).all()


def pooled(one, target, clip, score):
    """Pairs of the pooled trainer, in units: one row at a time."""
    n, out = len(target), np.zeros((len(target), 1, 2), dtype=np.int64)
    rows = np.arange(n, dtype=np.uint16)
    one.pairs(target, clip).add_up(score[:, None], np.ones(n, dtype=np.int32), rows, 0, n, out)
    return out[:, 0, 0] / STEPS, out[:, 0, 1] / STEPS


@pytest.mark.parametrize("weight", [1.0, 0.4])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_entries_are_those_of_the_pooled_trainer_in_expectation(objective, weight):
    one, scale = loss(objective)
    clip, numbers = CLIP.get(objective, 1.0), numbers_for(one, 200)
    rng, n_dithers = np.random.default_rng(5), 512
    labels = rng.choice([0.0, 1.0], 40) if objective == "binary" else rng.uniform(0.5, 20.0, 40)
    target, score, points = one.targets(labels, scale), rng.normal(-0.5, 1.0, 40), (-1.5, -0.2, 0.4, 2.0)
    # Dithers at equal distances, so that their mean is exact but for 1/1024 of a step.
    one_of = (np.arange(n_dithers) * 128 + 64).astype(np.uint32)
    dither = np.tile(one_of << np.uint32(16) | one_of, 40)
    rows = np.repeat(np.arange(40), n_dithers)
    found = made(one, numbers, target[rows], np.full(len(rows), weight), score[rows], points, dither, clip)
    mean_g, mean_h = (part.reshape(40, n_dithers, 4).mean(axis=1) / numbers.steps for part in found)
    for j, point in enumerate(points):
        g, h = pooled(one, target, clip, score + point)
        # The pooled trainer rounds toward zero, and ⌊CK⌋ may be less than CK.
        near = 2 / STEPS + 2e-3 / numbers.steps
        np.testing.assert_allclose(
            mean_g[:, j],
            weight * g,
            atol=near + weight * (numbers.bounds[0] - numbers.limits[0] / numbers.steps),
        )
        room = np.abs(g) < 0.9 * numbers.bounds[0]
        np.testing.assert_allclose(mean_h[room, j], weight * h[room], atol=4 / numbers.steps)
        assert (mean_h[:, j] <= weight * h + near + 3.5 / numbers.steps + 0.05 * ~room).all()


def test_rounding_keeps_the_sign_that_a_label_gives():
    one, _ = loss("binary")
    numbers, n = numbers_for(one), 5_000
    rng = np.random.default_rng(2)
    target, score = rng.integers(0, 2, n).astype(float), rng.normal(0, 20, n)
    dither = rng.choice([0, 0xFFFFFFFF], n).astype(np.uint32)
    gradient, _ = made(one, numbers, target, np.ones(n), score, round_points(12.0, -20, 20), dither, 1.0)
    assert (gradient[target == 1] <= 0).all()
    assert (gradient[target == 0] >= 0).all()


def test_tables_are_the_same_in_any_chunks_and_follow_from_the_dither():
    one, _ = loss("binary")
    numbers, rng = numbers_for(one), np.random.default_rng(4)
    tables = PointTables(one, numbers, rng.integers(0, 2, 1_000).astype(float), np.ones(1_000))
    score, points = rng.normal(size=1_000), round_points(12.0, -20, 20)
    dither = rng.integers(0, 2**32, 1_000, dtype=np.uint32)
    made_once = tables.at(score, points, dither)
    whole = made_once(0, 1_000)
    np.testing.assert_array_equal(np.concatenate([made_once(0, 311), made_once(311, 1_000)]), whole)
    np.testing.assert_array_equal(tables.at(score, points, dither)(0, 1_000), whole)
    assert (tables.at(score, points, ~dither)(0, 1_000) != whole).any()


def test_the_looked_up_entry_is_the_interpolation_in_expectation():
    one, _ = loss("binary")
    numbers, n = numbers_for(one, 16_384, 64), 200_000
    rng, points = np.random.default_rng(6), round_points(12.0, -20.0, 20.0)
    words = rng.integers(0, 2**32, (2, n), dtype=np.uint32)
    for own, others in [(0.3, 1.1), (-2.0, -0.1), (0.0, 14.0)]:
        point = to_points(np.full(n, others), points, words[0], one.interpolation_exponent)
        gradient, _ = made(one, numbers, np.ones(n), np.ones(n), np.full(n, own), points, words[1], 1.0)
        exact = np.clip(1 / (1 + np.exp(-own - np.array(points))) - 1, -0.5, 0.5)
        mean = np.take_along_axis(gradient, point[:, None].astype(int), axis=1).mean() / numbers.steps
        assert mean == pytest.approx(np.interp(others, points, exact), abs=5 * 0.5 / np.sqrt(n))


DITHERS = (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)) + np.uint32(1 << 15)
"""At equal distances, so that a mean over them is an expectation but for 2^-16."""


@pytest.mark.parametrize("exponent", [0.0, 1.0, -1.0, 0.6, 1e-12])
def test_points_are_drawn_with_the_mean_of_the_score_or_of_its_exponential(exponent):
    points = (-3.0, -1.0, 0.5, 4.0)

    def kept(score):
        return np.exp(exponent * score) if abs(exponent) > 1e-9 else np.asarray(score)

    for score in (-2.75, -1.0, 0.0, 0.5, 3.9999):
        found = to_points(np.full(len(DITHERS), score), points, DITHERS, exponent)
        assert kept(np.array(points))[found].mean() == pytest.approx(kept(score), abs=1e-3)
        assert len(np.unique(found)) <= 2
    for score, last in [(-3.0, 0), (-1e9, 0), (4.0, 3), (1e300, 3), (-np.inf, 0), (np.inf, 3)]:
        assert (to_points(np.full(len(DITHERS), score), points, DITHERS, exponent) == last).all()


def drawn_gradients(objective, points, score, label, exponent):
    """Expected gradient at the points that a score becomes, less that at the score."""
    power = loss(objective)[0].power

    def gradient(at):
        return np.exp((2 - power) * at) - label * np.exp((1 - power) * at)

    found = to_points(np.full(len(DITHERS), score), points, DITHERS, exponent)
    return abs(gradient(np.array(points)[found]).mean() - gradient(score))


@pytest.mark.parametrize("objective", ["poisson", "gamma"])
def test_expected_gradients_of_poisson_and_gamma_are_those_of_the_exact_score(objective):
    exponent = loss(objective)[0].interpolation_exponent
    for score in (-0.4, 0.0, 0.5):
        for label in (0.3, 2.0):
            case = objective, (-0.6, 0.7), score, label
            assert drawn_gradients(*case, exponent) < 1e-4
            assert drawn_gradients(*case, 0.0) > 1e-2


def test_expected_gradients_of_tweedie_at_the_mean_are_exact_but_for_higher_orders():
    exponent = loss("tweedie")[0].interpolation_exponent
    for score in (-0.04, 0.0, 0.05):
        case = "tweedie", (-0.06, 0.07), score, np.exp(score)
        assert drawn_gradients(*case, exponent) < 1e-4 < 2e-4 < drawn_gradients(*case, 0.0)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (-0.01, 0.3), (-1e9, 1e9), (-5.0, 0.0)])
def test_points_cover_what_the_trees_can_add(objective, low, high):
    one, scale = loss(objective)
    points = round_points(scale.entry.reach, low, high)
    assert len(points) == N_POINTS
    assert points[0] < 0 < points[-1]
    reach = 12.0 if objective == "binary" else 4.0 if objective in ("poisson", "gamma", "tweedie") else 1.0
    assert points[0] <= max(low, -reach)
    assert min(high, reach) <= points[-1]
    assert -reach <= points[0] < points[-1] <= reach
    seats = Seat(0, b"a" * 32), Seat(1, b"b" * 32)
    RoundLayout(seats, 10, points, 1, 48, (), loss_bounds(one))


@pytest.mark.parametrize(("low", "high"), [(-4.0, 4.0), (-3.4, 3.9), (-2.0, 4.0)])
def test_points_of_a_logarithmic_link_hardly_raise_predictions(low, high):
    """Interpolation between points is above exp, most where they are far apart; few scores are far from 0."""
    points = round_points(loss("poisson")[1].entry.reach, low, high)
    scores = np.random.default_rng(8).normal(0, 0.45, 10_000)
    means = np.interp(scores, points, np.exp(points))
    assert 1.0 < means.mean() / np.exp(scores).mean() < 1.01


def test_tables_of_other_bounds_or_weights_are_refused():
    one, _ = loss("binary")
    numbers = numbers_for(one)
    ones = np.ones(3)
    with pytest.raises(InvalidArgumentError, match="loss"):
        PointTables(loss("regression")[0], numbers, ones, ones)
    for weight in (np.array([0.0, 1.0, 1.5]), np.array([0.0, -0.1, 1.0]), np.array([0.0, np.nan, 1.0])):
        with pytest.raises(InvalidArgumentError, match=r"weight.*\[0, 1\]"):
            PointTables(one, numbers, ones, weight)
    with pytest.raises(InvalidArgumentError, match="weight of shape"):
        PointTables(one, numbers, ones, np.ones(2))
    with pytest.raises(InvalidArgumentError, match="against the rest"):
        PointTables(NewtonLoss("multiclass", 0.5, 0.0), numbers, ones, ones)
