"""Every public candidate split is scored, and trees are complete whatever the rows."""

import numpy as np
import pytest

import lgb_dp
from dp_training import grower
from gbdt_kernels.draws import of_candidates
from gbdt_kernels.trees import candidate_gains
from lgb_dp.boosting.levels import grow_structure
from lgb_dp.mechanisms.noise import select
from lgb_dp.mechanisms.rng import SecureRandom
from small_training import binary_data, dataset, field, train

X, Y = binary_data()


@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost, lgb_dp.MBoost])
def test_every_candidate_can_be_chosen_even_with_a_single_row(trainer):
    data = lgb_dp.Dataset(np.full((1, 2), -2.9), label=[1.0], bounds=(-3, 3), max_bin=4)
    seen = set()
    for _ in range(150):
        booster = train(data, trainer(0.01), n_rounds=1, max_depth=1)
        seen.add(tuple(field(booster, name)[0] for name in ("split_feature", "threshold", "decision_type")))
    assert len(seen) == 2 * 3 * 2


@pytest.mark.parametrize("name", ["DPBoost", "SequentialBoost", "ParallelBoost", "MBoost"])
def test_trees_are_complete_on_pure_and_tiny_data(name):
    data = dataset(X[:3], np.ones(3))
    booster = train(data, getattr(lgb_dp, name)(1.0), n_rounds=4, max_depth=3, learning_rate=0.1)
    assert booster.num_trees() == 4
    assert all(tree["num_leaves"] == 8 for tree in booster.dump_model()["tree_info"])


def test_empty_nodes_draw_their_split_like_any_other():
    data = lgb_dp.Dataset(np.full((1, 2), -2.9), label=[1.0], bounds=(-3, 3), max_bin=4).construct()
    one, seen = np.ones(1, dtype=np.int32), set()
    for _ in range(300):  # the row goes left at every split, so node 2 is empty
        tree = grow_structure(
            data.codes, 0 * one, one, one, data.bins.layout(), 0.0, [1e-9] * 2, SecureRandom()
        )
        seen.add((tree.feature[2], tree.goes_left[2].tobytes()))
    assert len(seen) == 2 * 3 * 2


def test_nodes_choose_among_the_gains_of_all_candidates(monkeypatch):
    gains, utilities = [], []
    monkeypatch.setattr(
        "lgb_dp.boosting.levels.candidate_gains",
        lambda *args: gains.append(candidate_gains(*args)) or gains[-1].copy(),
    )

    def select_observed(u, random, n_threads, repeats):
        utilities.append(of_candidates(u, repeats))
        gains[-1] = of_candidates(gains[-1], repeats)
        return select(u, random, n_threads, repeats)

    monkeypatch.setattr("lgb_dp.boosting.levels.select", select_observed)
    training = grower(dataset(X[:9], np.ones(9)), lgb_dp.DPBoost(1.0), max_depth=4)
    for level in range(4):
        assert gains[level].shape == (2**level, 4 * 7 * 2)
        np.testing.assert_array_equal(utilities[level], gains[level] * training.selection_scale)
