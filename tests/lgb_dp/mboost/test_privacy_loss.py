"""The privacy loss of whole training runs of MBoost never exceeds epsilon."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lgb_dp
from lgb_dp.mboost import trainer as mboost
from lgb_dp.mboost.trainer import BOOST_STEPS
from replay import privacy_loss
from small_training import binary_data, dataset, train

X, Y = binary_data()


EVERY_TEST = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def trainings(draw):
    """Neighbouring data sets, the added row last, and settings of every kind."""
    n = draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = np.column_stack([rng.choice([-2.9, -1, 0, 2.9, np.nan], n), rng.integers(0, 5, n)])
    n_classes = draw(st.sampled_from([2, 3]))
    label = rng.integers(0, n_classes, n).astype(float)
    if draw(st.booleans()):
        rows[:-1], label[:-1] = rows[0], label[0]
    weight = rng.choice([0.0, 0.3, 2.0], n) if draw(st.booleans()) else None
    start = rng.choice([-100.0, 0.0, 0.5, 100.0], (n, n_classes if n_classes > 2 else 1))
    trainer = {
        "alpha": draw(st.sampled_from([0.01, 0.5, 1.0, "calibrated"])),
        "smoothing": draw(st.sampled_from([0.0, 0.1])),
        "weight_share": draw(st.sampled_from([0.0, 0.2])),
        "leaf_share": draw(st.sampled_from([0.01, 0.3])),
        "leaf_bound": draw(st.sampled_from([0.5, 100.0])),
        "leverage": draw(st.sampled_from(["public", "noised"])),
        "n_rows": draw(st.sampled_from([None, 1e-3, 40.0, 2.0**40])),
    }
    params = {"max_depth": draw(st.integers(1, 3)), "learning_rate": draw(st.sampled_from([0.1, 1.0]))}
    params |= (
        {"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": n_classes}
    )
    columns = rows, label, weight, start if draw(st.booleans()) else None
    return columns, trainer, params, draw(st.integers(1, 3)), draw(st.integers(0, 2**32 - 1))


def first_rows(columns, n):
    rows, label, weight, start = (column if column is None else column[:n] for column in columns)
    return lgb_dp.Dataset(
        rows,
        label,
        bounds={0: (-3, 3)},
        categories={1: range(5)},
        max_bin=4,
        weight=weight,
        weight_bound=None if weight is None else 2.0,
        init_score=start,
    )


def loss_of(monkeypatch, columns, trainer, params, n_rounds, seed, epsilon=3.0):
    n = len(columns[0])
    data = first_rows(columns, n), first_rows(columns, n - 1)
    # The same public subsets of categories in both trainings.
    callback = lgb_dp.MBoost(epsilon, random_state=1, **trainer)
    return privacy_loss(monkeypatch, seed, *data, callback, params, n_rounds)


@EVERY_TEST
@given(case=trainings())
def test_no_neighbours_and_outputs_lose_more_than_epsilon(monkeypatch, case):
    lost, epsilon = loss_of(monkeypatch, *case)
    assert epsilon <= 3.0
    assert lost <= epsilon


def worst_case(monkeypatch, epsilon=3.0, n=40, n_features=200):
    """Loss where nearly all of ε pays for one split of a pure node, and a row of the other class is added.

    One feature sets that row apart: by it the risk stays, by all others it rises by Δ.
    """
    rows = np.full((n + 1, n_features), -1.0)
    rows[n, 0] = 1.0
    label = np.r_[np.zeros(n), 1.0]
    trainer = lgb_dp.MBoost(epsilon, alpha=1.0, smoothing=0.0, leaf_share=1e-6, n_rows=n, random_state=1)
    both = (lgb_dp.Dataset(rows[:k], label[:k], bounds=(-3, 3), max_bin=2) for k in (n + 1, n))
    return privacy_loss(monkeypatch, 0, *both, trainer, {"objective": "binary", "max_depth": 1}, 1)[0]


def test_the_worst_neighbours_come_close_to_epsilon(monkeypatch):
    assert 0.96 * 3.0 < worst_case(monkeypatch) <= 3.0


@pytest.mark.parametrize("name", ["risk_sensitivity", "selection_scale"])
def test_a_tenth_too_little_noise_in_a_split_would_be_found_out(monkeypatch, name):
    original = getattr(mboost, name)
    factor = 0.9 if name == "risk_sensitivity" else 1.1
    monkeypatch.setattr(mboost, name, lambda *args: factor * original(*args))
    assert worst_case(monkeypatch) > 3.0


def mutated(columns, rng):
    """A case like another one: the added row and one other drawn anew."""
    rows, label, weight, start = (None if column is None else column.copy() for column in columns)
    for i in {int(rng.integers(len(rows))), len(rows) - 1}:
        other = int(rng.integers(len(rows)))
        rows[i] = (
            rows[other] if rng.random() < 0.3 else (rng.choice([-2.9, -1, 0, 2.9, np.nan]), rng.integers(5))
        )
        label[i] = rng.choice(label) if rng.random() < 0.5 else rng.integers(2)
        if weight is not None:
            weight[i] = rng.choice([0.0, 0.3, 2.0])
        if start is not None:
            start[i] = rng.choice([-100.0, -1.0, 0.0, 1.0, 100.0])
    return rows, label, weight, start


def climb(monkeypatch, trainer, n_rounds, weighted, started, rng, n_steps, n=15):
    """Largest loss found by going from case to case whenever it does not fall."""
    columns = (
        np.column_stack([rng.choice([-2.9, 2.9, np.nan], n), rng.integers(0, 5, n)]),
        np.zeros(n),
        np.full(n, 2.0) if weighted else None,
        np.zeros((n, 1)) if started else None,
    )
    params = {"objective": "binary", "max_depth": 2, "learning_rate": 1.0}
    seed, largest = 0, 0.0
    for _ in range(n_steps):
        new = mutated(columns, rng), seed if rng.random() < 0.5 else int(rng.integers(2**32))
        lost, epsilon = loss_of(monkeypatch, new[0], trainer, params, n_rounds, new[1])
        assert lost <= epsilon
        if lost >= largest:
            (columns, seed), largest = new, lost
    return largest


@pytest.mark.slow
@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize(("weighted", "started"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(
    "settings_of",
    [
        {"alpha": 1.0, "smoothing": 0.0, "n_rows": 1e-3},
        {"alpha": 0.1, "smoothing": 0.1, "weight_share": 0.2},
        {"alpha": "calibrated", "weight_share": 0.3, "leaf_bound": 50.0, "leverage": "noised"},
    ],
)
def test_a_directed_search_finds_no_loss_above_epsilon(monkeypatch, settings_of, weighted, started, n_rounds):
    rng = np.random.default_rng(n_rounds)
    assert climb(monkeypatch, settings_of, n_rounds, weighted, started, rng, 300) > 0.5


@pytest.mark.slow
@settings(EVERY_TEST, max_examples=1500)
@given(case=trainings())
def test_a_long_random_search_finds_no_loss_above_epsilon(monkeypatch, case):
    lost, epsilon = loss_of(monkeypatch, *case)
    assert lost <= epsilon


@pytest.mark.parametrize("released", [np.zeros(8), np.full(8, -50.0), np.full(8, 7.0)])
def test_boosting_weights_keep_to_the_bound_that_the_released_trees_give(monkeypatch, released):
    """Whatever the leaves were, no row's weight exceeds ψ⁻¹ of the largest score that they allow."""
    seen = []
    grow = mboost.MBoostTraining.grow_tree

    def record(self, k, sign, weight, largest, n_rows):
        seen.append((weight.max(), largest))
        tree = grow(self, k, sign, weight, largest, n_rows)
        return dataclasses.replace(tree, leaf_value=released + tree.leaf_value)

    monkeypatch.setattr(mboost.MBoostTraining, "grow_tree", record)
    train(dataset(X, Y), lgb_dp.MBoost(5.0, alpha=1.0), n_rounds=4, max_depth=3)
    assert all(weight <= largest for weight, largest in seen)
    assert seen[0] == (BOOST_STEPS // 2, BOOST_STEPS // 2)
    assert BOOST_STEPS // 2 < seen[1][1] <= BOOST_STEPS
