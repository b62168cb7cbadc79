"""Rounds of two parties with the tables and noise of each loss, beside a central simulation."""

from functools import cache
from itertools import count

import numpy as np
import pytest

from gbdt_parties.two_party.layout import RoundLayout, TreeLayout
from gbdt_parties.two_party.rounds import PointSide, TableSide
from gbdt_parties.two_party.session import Draws
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.registry import loss_of
from lgb_dp.vertical.noise import sum_noise
from lgb_dp.vertical.numbers import PublicNumbers
from lgb_dp.vertical.tables import PointTables, loss_bounds, round_points, to_points
from two_party_sides import A, B, play, sessions

pytest.importorskip("nacl")

OBJECTIVES = ["binary", "regression", "huber", "regression_l1", "quantile", "poisson"]
OWN = {"huber": {"alpha": 2.0}, "quantile": {"alpha": 0.9}}
NUMBERS = count(1)
LEVELS = 3


@cache
def pair():
    return sessions()


def central(one, numbers, inputs, points, clip):
    """Sums in steps, row by row: Python's integers, and tables of one row at a time."""
    target, weight, score, others, leaves, dither = inputs
    sums = [[[0, 0] for _ in range(1 << LEVELS)] for _ in leaves]
    numbers_of_points = to_points(others, points, dither[1], one.interpolation_exponent)
    for i, point in enumerate(numbers_of_points.tolist()):
        row = PointTables(one, numbers, target[i : i + 1], weight[i : i + 1])
        word = int(row.at(score[i : i + 1], points, dither[0][i : i + 1], clip)(0, 1)[0, point, 0])
        half = numbers.ring_bits // 2
        low = word % 2**half
        h = low - 2**half * (low >> half - 1)
        g = (word - h >> half) % 2**half
        g -= 2**half * (g >> half - 1)
        for tree, leaf in zip(sums, leaves, strict=True):
            tree[leaf[i]][0] += g
            tree[leaf[i]][1] += h
    return np.array(sums)


@pytest.mark.parametrize("ring_bits", [48, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("n", "objective"), [(1, "binary"), *((97, name) for name in OBJECTIVES)])
def test_opened_sums_are_the_central_sums_and_both_noises(n, objective, ring_bits):
    scale = LabelScale(
        objective, 1, 0.0, 1.0 if objective == "binary" else 20.0, of_objective=OWN.get(objective, {})
    )
    one, clip, rng = loss_of(scale, None, 0.0, 0.3), 0.3, np.random.default_rng(n)
    made = PublicNumbers.of(n, 10.0, loss_bounds(one), 0.05)
    numbers = PublicNumbers(made.max_rows, made.bounds, made.mu, ring_bits, made.steps)
    points = round_points(scale.entry.reach, -0.4, 0.6)
    label = rng.choice([0.0, 1.0], n) if objective == "binary" else rng.uniform(0, 20, n)
    target, weight = one.targets(label, scale), rng.choice([0.0, 0.4, 1.0], n)
    score, others = rng.normal(-0.5, 0.5, n), rng.normal(0, 0.3, n)
    # The last leaves are empty.
    leaves = [rng.integers(0, 6, n).astype(np.uint8) for _ in range(3)]
    dither = rng.integers(0, 2**32, (2, n), dtype=np.uint32)
    owners = (1, 0, 1)
    trees = tuple(TreeLayout((place,), 0, LEVELS) for place in owners)
    layout = RoundLayout((A, B), n, points, 1, ring_bits, trees, numbers.bounds, rows_per_message=64)
    streams = [Draws(name * 32, b"n" * 32).stream(b"noise") for name in (b"a", b"b")]
    noise = [[sum_noise(numbers, 1 << LEVELS, stream) for _ in trees] for stream in streams]

    tables = PointTables(one, numbers, target, weight).at(score, points, dither[0], clip)
    own = [[leaves[t] for t in layout.owned_by(place)] for place in (0, 1)]
    number, chosen = next(NUMBERS), to_points(others, points, dither[1], one.interpolation_exponent)
    table_side = TableSide(pair()[0], layout, number, 0, tables, own[0], noise[0])
    point_side = PointSide(pair()[1], layout, number, 0, chosen, own[1], noise[1])
    play(table_side, point_side)

    numbers.check_range(table_side.opened)
    expected = central(one, numbers, (target, weight, score, others, leaves, dither), points, clip)
    mask = np.uint64((1 << ring_bits) - 1)
    for t in range(len(trees)):
        np.testing.assert_array_equal(table_side.opened[t], point_side.opened[t])
        added = [numbers.decoded(noise[place][t] & mask) for place in (0, 1)]
        opened = numbers.decoded(table_side.opened[t])
        for k in (0, 1):
            np.testing.assert_array_equal(opened[k] - added[0][k] - added[1][k], expected[t, :, k])
        assert (expected[t, 6:] == 0).all()
