"""Each row draws its tree independently of all others, and a filtered row stays spent."""

import warnings

import numpy as np
import pytest

import lgb_dp
from lgb_dp.dpboost import square_loss
from lgb_dp.dpboost.trainer import draw_tree_of_row
from lgb_dp.mechanisms.rng import SecureRandom
from small_training import binary_data, dataset, train

X, Y = binary_data()


def test_adding_a_row_changes_no_other_rows_tree():
    before = draw_tree_of_row(1000, 20, 0.1, SecureRandom(5))
    after = draw_tree_of_row(1001, 20, 0.1, SecureRandom(5))
    np.testing.assert_array_equal(before, after[:1000])


def test_sizes_are_the_papers_in_expectation():
    n, t, rate = 200_000, 10, 0.3
    sizes = np.bincount(draw_tree_of_row(n, t, rate, SecureRandom(5)), minlength=t)
    expected = n * rate * (1 - rate) ** np.arange(t) / (1 - (1 - rate) ** t)
    assert (np.abs(sizes - expected) < 6 * np.sqrt(expected)).all()


def rows_of_every_tree(monkeypatch, data, trainer, n_rounds):
    plans = []
    grow = square_loss.SquareLossTraining.grow_tree
    with monkeypatch.context() as patch:
        patch.setattr(
            square_loss.SquareLossTraining,
            "grow_tree",
            lambda self, plan, *args: plans.append(plan) or grow(self, plan, *args),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lgb_dp.PrivacyLeakWarning)
            train(data, trainer, n_rounds=n_rounds)
    return plans


@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost(1.0, trees_per_ensemble=4), lgb_dp.ParallelBoost(1.0)])
def test_trees_whose_costs_are_parallel_read_disjoint_rows(monkeypatch, trainer):
    plans = rows_of_every_tree(monkeypatch, dataset(X, Y), trainer, 8)
    for group in {plan.group for plan in plans}:
        rows = np.concatenate([plan.rows for plan in plans if plan.group == group])
        assert len(np.unique(rows)) == len(rows)
    assert len({(plan.group, plan.part) for plan in plans}) == 8


def test_filtered_rows_are_not_handed_to_a_later_tree(monkeypatch):
    monkeypatch.setattr("lgb_dp.dpboost.square_loss.G_STAR", 0.5)
    plans = rows_of_every_tree(monkeypatch, dataset(X, Y), lgb_dp.DPBoost(1.0), 3)
    assert sum(len(plan.rows) for plan in plans) == len(X)


@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost, lgb_dp.ParallelBoost])
def test_in_training_too_neither_labels_nor_other_rows_decide_a_rows_tree(monkeypatch, trainer):
    before = rows_of_every_tree(monkeypatch, dataset(X, Y), trainer(1.0, random_state=5), 4)
    more = dataset(np.r_[X, X[:1]], np.r_[1 - Y, 1])
    after = rows_of_every_tree(monkeypatch, more, trainer(1.0, random_state=5), 4)
    n_compared = 4 if trainer is lgb_dp.DPBoost else 1  # PARA draws again for every tree
    for a, b in zip(before[:n_compared], after[:n_compared], strict=True):
        np.testing.assert_array_equal(np.sort(a.rows), np.sort(b.rows[b.rows < len(X)]))


@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost, lgb_dp.ParallelBoost])
def test_trees_are_disjoint_also_where_rows_are_fewer_than_trees(monkeypatch, trainer):
    plans = rows_of_every_tree(monkeypatch, dataset(X[:12], Y[:12]), trainer(0.1), 30)
    rows = np.concatenate([plan.rows for plan in plans])
    assert len(np.unique(rows)) == len(rows)
