"""A training run is bound by what it started with, and what voids it is known to the budget that paid."""

import os

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from forked_children import refused_in_a_child
from growers import evaluation_of, grower_of
from lgb_dp.data.start_scores import StartScores
from small_training import binary_data, dataset, leaf_values, train

X, Y = binary_data()
PARAMS = {"objective": "binary", "verbosity": -1, "max_depth": 2, "learning_rate": 0.3}
TRAINERS = {
    "newton": lambda: lgb_dp.NewtonBoost(1.0, 1e-5, random_state=1),
    "newton-sampled": lambda: lgb_dp.NewtonBoost(1.0, 1e-5, subsample=0.5, random_state=1),
    "dpboost": lambda: lgb_dp.DPBoost(1.0, trees_per_ensemble=2, random_state=1),
    "dpboost-paper": lambda: lgb_dp.DPBoost(1.0, variant="paper", random_state=1),
    "sequential": lambda: lgb_dp.SequentialBoost(1.0, random_state=1),
    "parallel": lambda: lgb_dp.ParallelBoost(1.0, random_state=1),
    "mboost": lambda: lgb_dp.MBoost(1.0, random_state=1),
    "forest-laplace": lambda: lgb_dp.RandomForestLaplace(1.0, random_state=1),
    "forest-exponential": lambda: lgb_dp.RandomForestExponential(1.0, random_state=1),
}
# What an attribute is set to in the middle of a run, where halving it says nothing.
OTHER_VALUES = {"variant": "tight", "structure": "random", "leverage": "noised", "alpha": 0.5, "depth": 1}

pytestmark = [
    pytest.mark.filterwarnings("ignore::lgb_dp.PrivacyLeakWarning"),
    pytest.mark.usefixtures("coarse_accounting"),
]


def other_value(name, value):
    if name in OTHER_VALUES:
        return OTHER_VALUES[name]
    if isinstance(value, bool):
        return not value
    return value * 2 if isinstance(value, (int, float)) else None


def first_tree(data, trainer, n_rounds=6):
    """A booster after the first of `n_rounds` trees of the budget's plan, with the rest to come."""
    planned = {"planned_rounds": lambda *_: n_rounds}
    trainer.__class__ = type(type(trainer).__name__, (type(trainer),), planned)
    return lgb.train(PARAMS, data, 1, callbacks=[trainer], keep_training_booster=True)


def finished(booster, n_rounds=6):
    while booster.current_iteration() < n_rounds:
        booster.update()
    return booster


def leaves(booster):
    return [leaf_values(booster, tree) for tree in range(booster.num_trees())]


@pytest.mark.parametrize("name", TRAINERS)
def test_side_door_settings_changed_while_training_do_not_reach_the_run(name):
    weight = np.where(X[:, 0] > 0, 1.0, 0.5)
    undisturbed = finished(first_tree(dataset(X, Y, weight=weight, weight_bound=1.0), TRAINERS[name]()))
    trainer = TRAINERS[name]()
    booster = first_tree(dataset(X, Y, weight=weight, weight_bound=1.0), trainer)
    for attribute, value in list(vars(trainer).items()):
        if attribute not in ("booster_", "budget"):
            setattr(trainer, attribute, other_value(attribute, value))
    finished(booster)
    np.testing.assert_equal(leaves(booster), leaves(undisturbed))
    assert booster.privacy == undisturbed.privacy


def written_into(array):
    """A read-only array of which somebody has found the one that owns the numbers."""
    return array if array.base is None else array.base


@pytest.mark.parametrize("name", TRAINERS)
def test_side_door_a_dataset_changed_while_training_does_not_reach_the_run(name):
    def data():
        weight = np.where(X[:, 0] > 0, 1.0, 0.5)
        return dataset(X, Y, weight=weight, weight_bound=1.0, label_bounds=(0, 1))

    undisturbed = finished(first_tree(data(), TRAINERS[name]()))
    changed = data()
    booster = first_tree(changed, TRAINERS[name]())
    written_into(changed.label)[:] = 0.0
    written_into(changed.weight)[:] = 9.0
    changed.label = 1 - Y
    changed.weight = changed.weight_bound = changed.label_bounds = changed._binned = None
    changed._group_weight, changed.fold_part = "mean", None
    changed._used_scores = StartScores(np.ones((len(Y), 1)), is_public=True)
    finished(booster)
    np.testing.assert_equal(leaves(booster), leaves(undisturbed))
    assert booster.privacy == undisturbed.privacy


@pytest.mark.parametrize("change", ["set to None", "in place"])
def test_side_door_persons_stay_together_in_samples_whatever_the_dataset_is_told(change):
    def data():
        return dataset(X, Y, groups=np.arange(len(Y)) // 2, rows_per_group=2).construct()

    def trainer():
        return lgb_dp.NewtonBoost(1.0, 1e-5, subsample=0.5, random_state=1)

    undisturbed = finished(first_tree(data(), trainer()))
    changed = data()
    booster = first_tree(changed, trainer())
    if change == "in place":
        written_into(changed.group_of_row)[:] = np.arange(len(Y))
    else:
        changed._group_of_row = None
    np.testing.assert_equal(leaves(finished(booster)), leaves(undisturbed))


def test_side_door_subsample_raised_while_training_is_not_accounted_for_as_before():
    trainer = lgb_dp.NewtonBoost(1.0, 1e-6, subsample=0.05, rounds=20)
    booster = lgb.train(PARAMS, dataset(X, Y), 1, callbacks=[trainer], keep_training_booster=True)
    trainer.subsample = 1.0
    assert grower_of(booster).settings.subsample == 0.05
    assert grower_of(booster).settings.budget is trainer.budget


def test_a_run_does_not_keep_the_booster_of_the_run_before():
    trainer = lgb_dp.NewtonBoost(1.0, 1e-6)
    first_tree(dataset(X, Y), trainer)
    booster = first_tree(dataset(X, Y), trainer)
    assert trainer.booster_ is booster
    assert not hasattr(grower_of(booster).settings, "booster_")


def test_two_trainers_for_one_booster_are_refused_still():
    trainers = [lgb_dp.DPBoost(1.0), lgb_dp.DPBoost(1.0)]
    with pytest.raises(lgb_dp.InvalidArgumentError, match="two private trainers"):
        lgb.train(PARAMS, dataset(X, Y), 2, callbacks=trainers)


# Forked processes.


def parts_of(data, k=3):
    return [data.subset(rows).construct() for rows, _ in lgb_dp.folds(k, data).split()]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("paid", [False, True])
def test_side_door_a_forked_process_trains_on_no_fold_of_its_parent(nested, paid):
    budget = lgb_dp.Budget(1.0, 1e-5) if paid else None
    parts = parts_of(dataset(X, Y))
    parts = parts_of(parts[0]) if nested else parts
    epsilon = 0.1

    def run(part):
        return train(part, lgb_dp.NewtonBoost(epsilon, 1e-7, budget=budget), num_threads=1)

    run(parts[0])
    assert refused_in_a_child(lambda: run(parts[1]))
    spent = budget.spent if paid else None
    run(parts[1])  # the parent goes on, and has paid
    assert spent == (budget.spent if paid else None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_side_door_a_cross_validation_does_not_go_on_in_a_forked_process():
    part = parts_of(dataset(X, Y))[0].fold_part
    assert refused_in_a_child(lambda: part.granted("cost"))
    assert refused_in_a_child(lambda: part.use(object()))


# Budgets know at once which runs they paid for are not private.


def interrupt(env):
    raise KeyboardInterrupt


def test_side_door_a_budget_knows_of_fixed_noise_before_the_models_report_is_read():
    budget = lgb_dp.Budget(1.0)
    first_tree(dataset(X, Y), lgb_dp.DPBoost(0.5, random_state=1, budget=budget))
    assert not budget.report().private
    assert "random_state" in budget.report().reasons[0]


def test_side_door_a_budget_knows_of_an_aborted_run_that_leaked():
    budget = lgb_dp.Budget(1.0)
    with pytest.raises(KeyboardInterrupt):
        train(lgb_dp.Dataset(X, Y), lgb_dp.DPBoost(0.5, budget=budget), callbacks=[interrupt])
    assert budget.spent.epsilon == pytest.approx(0.5, rel=1e-15)
    assert not budget.report().private


def test_side_door_a_budget_knows_of_a_fold_that_was_trained_on_twice():
    budget = lgb_dp.Budget(1.0)
    part = parts_of(dataset(X, Y))[0]
    first_tree(part, lgb_dp.DPBoost(0.1, budget=budget))
    assert budget.report().private
    first_tree(part, lgb_dp.DPBoost(0.1, budget=budget))
    assert not budget.report().private


def test_side_door_a_budget_knows_at_once_that_private_rows_chose_the_number_of_trees():
    budget = lgb_dp.Budget(1.0)
    booster = first_tree(dataset(X, Y), lgb_dp.DPBoost(0.5, budget=budget))
    evaluation = evaluation_of(booster)
    evaluation.evaluated_private_rows = True
    assert budget.report().private
    evaluation.stopped_early()
    assert not budget.report().private
    assert booster.privacy.reasons == budget.report().reasons


def test_a_run_that_the_budget_refused_does_not_void_it():
    budget = lgb_dp.Budget(1.0)
    with pytest.raises(lgb_dp.BudgetExceededError):
        train(dataset(X, Y), lgb_dp.DPBoost(2.0, random_state=1, budget=budget))
    assert budget.report().private


@pytest.mark.parametrize("name", TRAINERS)
def test_a_trainer_with_other_settings_is_one_of_its_own(name):
    trainer = TRAINERS[name]()
    other = trainer.with_settings(epsilon=0.25, random_state=9)
    assert type(other) is type(trainer)
    assert (other.epsilon, other.random_state) == (0.25, 9)
    same = {key: value for key, value in vars(trainer).items() if key not in ("epsilon", "random_state")}
    assert {key: vars(other)[key] for key in same} == same
    trainer.epsilon = -1.0
    with pytest.raises(lgb_dp.InvalidArgumentError, match="epsilon"):
        trainer.with_settings()
