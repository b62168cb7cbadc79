"""What threads may share: Datasets, live boosters, trainers, budgets and folds.

Each test holds one thread inside the window where another one did harm, and lets that one act there: at a
lock that keeps it out it waits, which is what `Inside` allows for.
"""

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from gbdt_hosts import lightgbm as host
from growers import grower_of
from lgb_dp.boosting import trainer as trainers
from lgb_dp.data import dataset as datasets
from lgb_dp.mechanisms import noise
from lgb_dp.mechanisms.rng import SecureRandom
from small_training import dataset
from threads_at_once import QUIET, Edited, Inside, X, Y, fit, pause, predictor_of

# Datasets.


def test_threads_that_construct_a_dataset_use_one_draw_of_every_persons_rows(monkeypatch):
    """Rows, labels and persons of a Dataset tell by their values which row they come from."""
    row = np.arange(60.0)
    data = lgb_dp.Dataset(
        row[:, None] % 2, row % 2, bounds=(0, 1), max_bin=2, groups=np.arange(60) // 6, rows_per_group=1
    )
    draws = iter([np.arange(0, 60, 6), np.arange(1, 60, 6)])  # rows of label 0, rows of label 1
    monkeypatch.setattr(
        datasets, "draw_kept_rows", lambda groups, n, k: ((kept := next(draws)), np.arange(len(kept)))
    )
    inside = Inside(data.construct, kept_out=True)
    pause(monkeypatch, datasets, "checked_label", inside, after=False)
    data.construct()
    assert inside.end() is None
    assert next(draws)[0] == 1, "the rows were drawn once"
    assert data.label.tolist() == [0.0] * 10
    assert len(np.unique(data.codes.take(np.arange(10)).codes)) == 1


@pytest.mark.parametrize("name", ["set_label", "set_weight", "set_init_score"])
def test_threads_set_nothing_while_another_constructs(monkeypatch, name):
    data = dataset(X, Y)
    inside = Inside(lambda: getattr(data, name)(np.full(len(Y), 7.0)), kept_out=True)
    pause(monkeypatch, datasets, "checked_label", inside)
    data.construct()
    assert isinstance(inside.end(), lgb.basic.LightGBMError)
    assert data.label.tolist() == Y.tolist()
    assert data.weight is data.init_score is None


def test_threads_that_disclose_lose_no_disclosure(monkeypatch):
    data = dataset(X, Y)
    first, second = (lgb_dp.data.provenance.Provenance((text,)) for text in ("first", "second"))
    inside = Inside(lambda: data.disclose(second), kept_out=True)
    pause(monkeypatch, lgb_dp.data.provenance.Provenance, "joined", inside)
    data.disclose(first)
    assert inside.end() is None
    assert {"first", "second"} <= set(data.provenance.leaks)


def test_threads_that_draw_other_folds_do_not_make_other_rows_a_fold(monkeypatch):
    data = dataset(X, Y)
    rows = next(lgb_dp.folds(2, data).split())[0]
    assignment = data.assigned_folds
    inside = Inside(lambda: lgb_dp.folds(7, data), kept_out=True)
    pause(monkeypatch, type(assignment), "training_part", inside)
    part = data.subset(rows)
    inside.end()
    assert part.fold_part.assignment is assignment
    assert data.assigned_folds is not assignment


def test_threads_that_cross_validate_at_once_each_pay():
    """A part made in one pass over the folds stays with it when another thread begins another pass."""
    budget = lgb_dp.Budget(1.0, 1e-5)
    data = dataset(X, Y)
    folds = lgb_dp.folds(3, data)

    def run(part):
        callback = lgb_dp.NewtonBoost(0.1, 1e-7, budget=budget)
        return lgb.train(QUIET, part, 1, callbacks=[callback])

    first = data.subset(next(folds.split())[0])
    second = data.subset(next(folds.split())[0])  # another thread's pass
    run(second)
    paid = budget.spent.mu
    assert run(first).privacy.private
    assert budget.spent.mu > paid * 1.4
    assert not run(first).privacy.private


# Initial models.


WINDOWS = {
    "before the rows are read": (trainers, "rows_of_run", False),
    "after the rows were read": (trainers, "rows_of_run", True),
    "before the report": (trainers.PrivateTrainer, "_initial_guarantee", False),
    "after the report": (trainers.PrivateTrainer, "_initial_guarantee", True),
    "before the model gets its trees": (host, "take_over", False),
}


@pytest.mark.parametrize("window", WINDOWS)
def test_threads_with_an_init_model_do_not_reach_a_run_from_scratch(monkeypatch, stock, window):
    data = dataset(X, Y, free_raw_data=False).construct()
    inside = Inside(lambda: data._set_predictor(predictor_of(stock)))
    owner, name, after = WINDOWS[window]
    pause(monkeypatch, owner, name, inside, after=after)
    model = fit(data)
    assert inside.end() is None
    assert model.privacy.private
    assert model.num_trees() == 2
    assert max(tree["num_leaves"] for tree in model.dump_model()["tree_info"]) <= 32


@pytest.mark.parametrize("window", WINDOWS)
def test_threads_from_scratch_do_not_hide_the_init_model_of_another_run(monkeypatch, stock, window):
    data = dataset(X, Y, free_raw_data=False).construct()
    inside = Inside(lambda: data._set_predictor(None))
    owner, name, after = WINDOWS[window]
    pause(monkeypatch, owner, name, inside, after=after)
    model = fit(data, init_model=stock)
    assert inside.end() is None
    assert not model.privacy.private
    assert model.num_trees() == 5


@pytest.mark.parametrize("is_public", [False, True])
@pytest.mark.parametrize("window", ["before the text is taken", *WINDOWS])
def test_threads_that_restore_an_init_model_hide_no_start_scores(monkeypatch, window, is_public):
    """Guarantee, start scores and trees are of one text, whenever the init_model is edited and restored."""
    windows = {**WINDOWS, "before the text is taken": (host.InitialModel, "of", False)}
    edited = Edited()
    data = dataset(X, Y, free_raw_data=False)
    valid = data.create_valid(X, Y, public=is_public)
    inside = Inside(edited.restore)
    owner, name, after = windows[window]
    pause(monkeypatch, owner, name, inside, after=after)
    model = fit(data, init_model=edited.model, valid_sets=[valid], keep_training_booster=True)
    assert inside.end() is None
    starts = grower_of(model).data.start_scores[:, 0]
    is_intact = np.array_equal(starts, edited.intact)
    assert model.privacy.private == is_intact == (window == "before the text is taken")
    np.testing.assert_array_equal(model.predict(X, num_iteration=2, raw_score=True), starts)


def test_an_init_model_that_was_restored_is_refused_if_the_rows_are_gone(monkeypatch):
    edited = Edited()
    inside = Inside(edited.restore)
    pause(monkeypatch, host.InitialModel, "of", inside, after=False)
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="changed since"):
        fit(dataset(X, Y), init_model=edited.model)
    inside.end()


# Live boosters.


def test_threads_take_no_draw_of_a_reserve_twice(monkeypatch):
    reserve = noise.GaussianReserve(1e12, SecureRandom())
    other = []
    inside = Inside(lambda: other.append(reserve.hand_out(1e12, 5)), kept_out=True)
    pause(monkeypatch, noise, "rounded_gaussian", inside)
    own = reserve.hand_out(1e12, 5)
    assert inside.end() is None
    assert not set(own.tolist()) & set(other[0].tolist())


# Budgets and estimators.


def test_threads_together_do_not_spend_more_than_a_budget_has(monkeypatch):
    budget = lgb_dp.Budget(1.0)
    cost = lgb_dp.accounting.ledger.Cost(0.6)
    inside = Inside(lambda: budget.charge(cost, "second"), kept_out=True)
    pause(monkeypatch, lgb_dp.Budget, "_fits", inside)
    budget.charge(cost, "first")
    assert isinstance(inside.end(), lgb_dp.BudgetExceededError)
    assert budget.spent.epsilon == 0.6


def test_threads_that_fit_one_estimator_leave_a_whole_model_of_one_of_them(monkeypatch):
    model = lgb_dp.DPLGBMClassifier(n_estimators=2, epsilon=0.5).fit(X, Y, bounds=(-3, 3), classes=[0, 1])
    inside = Inside(lambda: model.fit(X[:, :3], Y, bounds=(-3, 3), classes=[0, 1]))
    pause(monkeypatch, lgb_dp.estimators.base, "surroundings", inside)
    model.fit(X, Y, bounds=(-3, 3), classes=[0, 1])
    assert inside.end() is None
    assert model.booster_.num_feature() == model.n_features_in_
    assert model.privacy_.epsilon <= 0.5


def test_threads_that_change_a_trainer_do_not_reach_the_run_that_it_charged(monkeypatch):
    trainer = lgb_dp.NewtonBoost(0.5, 1e-6)
    inside = Inside(lambda: setattr(trainer, "epsilon", 50.0))
    pause(monkeypatch, trainers.PrivateTrainer, "_initial_guarantee", inside)
    model = lgb.train(QUIET, dataset(X, Y), 2, callbacks=[trainer])
    inside.end()
    assert model.privacy.epsilon <= 0.5
