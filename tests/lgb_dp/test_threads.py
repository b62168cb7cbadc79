"""What threads may share: Datasets, live boosters, trainers, budgets and folds.

Each test holds one thread inside the window where another one did harm, and lets that one act there: at a
lock that keeps it out it waits, which is what `act_inside` allows for.
"""

import copy
import os
import pickle
import signal
import threading
from types import SimpleNamespace

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from gbdt_hosts import lightgbm as host
from gbdt_hosts.lightgbm import booster as private_booster
from lgb_dp.boosting import trainer as trainers
from lgb_dp.data import dataset as datasets
from lgb_dp.mechanisms import noise
from lgb_dp.mechanisms.rng import SecureRandom
from small_training import binary_data, dataset, train

X, Y = binary_data(200)
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2, "num_threads": 1}
WAIT = 0.2
"""Seconds that a thread which a lock keeps out is waited for; one that is not kept out needs far less."""


class Inside:
    """Calls `act` in another thread, once, from inside of a patched function."""

    def __init__(self, act):
        self._thread = threading.Thread(target=self._run, args=(act,))
        self._started = False
        self.error = None

    def _run(self, act):
        try:
            act()
        except Exception as error:
            self.error = error

    def __call__(self):
        if not self._started:
            self._started = True
            self._thread.start()
            self._thread.join(WAIT)

    def end(self):
        assert self._started, "the window was never reached"
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.error


def pause(monkeypatch, owner, name, inside, *, after=True):
    """Let `inside` act after (or before) each call of a function."""
    original = getattr(owner, name)

    def paused(*args, **kwargs):
        if after:
            result = original(*args, **kwargs)
            inside()
            return result
        inside()
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, paused)


def fit(data, n_rounds=2, **kwargs):
    return lgb.train(QUIET, data, n_rounds, callbacks=[lgb_dp.NewtonBoost(0.5, 1e-6)], **kwargs)


def live(n_rounds=40, **kwargs):
    trainer = lgb_dp.NewtonBoost(0.5, 1e-6, rounds=n_rounds, structure="random")
    return lgb.train(QUIET, dataset(X, Y, **kwargs), 1, callbacks=[trainer], keep_training_booster=True)


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
    inside = Inside(data.construct)
    pause(monkeypatch, datasets, "checked_label", inside, after=False)
    data.construct()
    assert inside.end() is None
    assert next(draws)[0] == 1, "the rows were drawn once"
    assert data.label.tolist() == [0.0] * 10
    assert len(np.unique(data.codes.take(np.arange(10)).codes)) == 1


@pytest.mark.parametrize("name", ["set_label", "set_weight", "set_init_score"])
def test_threads_set_nothing_while_another_constructs(monkeypatch, name):
    data = dataset(X, Y)
    inside = Inside(lambda: getattr(data, name)(np.full(len(Y), 7.0)))
    pause(monkeypatch, datasets, "checked_label", inside)
    data.construct()
    assert isinstance(inside.end(), lgb.basic.LightGBMError)
    assert data.label.tolist() == Y.tolist()
    assert data.weight is data.init_score is None


def test_threads_that_disclose_lose_no_disclosure(monkeypatch):
    data = dataset(X, Y)
    first, second = (lgb_dp.data.provenance.Provenance((text,)) for text in ("first", "second"))
    inside = Inside(lambda: data.disclose(second))
    pause(monkeypatch, lgb_dp.data.provenance.Provenance, "joined", inside)
    data.disclose(first)
    assert inside.end() is None
    assert {"first", "second"} <= set(data.provenance.leaks)


def test_threads_that_draw_other_folds_do_not_make_other_rows_a_fold(monkeypatch):
    data = dataset(X, Y)
    rows = next(lgb_dp.folds(2, data).split())[0]
    assignment = data.assigned_folds
    inside = Inside(lambda: lgb_dp.folds(7, data))
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


@pytest.fixture(scope="module")
def stock():
    return lgb.train(
        {**QUIET, "max_depth": -1, "num_leaves": 60, "min_data_in_leaf": 1}, lgb.Dataset(X, Y), 3
    )


def predictor_of(model):
    return lgb.basic._InnerPredictor.from_booster(booster=model, pred_parameter={})


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


def test_threads_do_not_change_the_start_scores_of_a_run(stock):
    data = dataset(X, Y, free_raw_data=False)
    booster = fit(data, init_model=stock, keep_training_booster=True)
    expected = booster._grower.raw_score(data).copy()
    data._set_predictor(None)
    np.testing.assert_array_equal(booster._grower.data.start_scores[:, 0], stock.predict(X, raw_score=True))
    np.testing.assert_array_equal(booster._grower.raw_score(data), expected)


class Edited:
    """A private model, one of whose leaves is far off until `restore`."""

    def __init__(self):
        self.model = lgb_dp.DPBooster(model_str=fit(dataset(X, Y)).model_to_string())
        self.intact = self.model.predict(X, raw_score=True)
        self._value = self.model.get_leaf_output(0, 0)
        self.model.set_leaf_output(0, 0, 9.0)

    def restore(self):
        self.model.set_leaf_output(0, 0, self._value)


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
    starts = model._grower.data.start_scores[:, 0]
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


def test_an_init_model_may_change_once_its_scores_are_predicted():
    """A Dataset that keeps its scores for another run predicts them anew if the model is another by then."""
    edited = Edited()
    data = dataset(X, Y, free_raw_data=False)
    assert not fit(data, init_model=edited.model).privacy.private
    edited.restore()
    booster = lgb.Booster({**QUIET, **data.get_params()}, data)  # of the predictor that the Dataset has
    env = lgb.callback.CallbackEnv(booster, QUIET, 0, 0, 2, None)
    lgb_dp.NewtonBoost(0.5, 1e-6)(env)
    np.testing.assert_array_equal(booster._grower.data.start_scores[:, 0], edited.intact)
    assert booster.privacy.private


def test_threads_may_train_a_live_init_model_on():
    """The native model that a predictor reads stays until nothing has its handle."""
    first = live()
    predictor = predictor_of(first)
    before = predictor.predict(X, raw_score=True)
    for _ in range(3):
        first.update()
        first.num_trees()
    np.testing.assert_array_equal(predictor.predict(X, raw_score=True), before)
    del first
    np.testing.assert_array_equal(predictor.predict(X, raw_score=True), before)


# Live boosters.


def test_threads_take_no_draw_of_a_reserve_twice(monkeypatch):
    reserve = noise.GaussianReserve(1e12, SecureRandom())
    other = []
    inside = Inside(lambda: other.append(reserve.hand_out(1e12, 5)))
    pause(monkeypatch, noise, "rounded_gaussian", inside)
    own = reserve.hand_out(1e12, 5)
    assert inside.end() is None
    assert not set(own.tolist()) & set(other[0].tolist())


def test_threads_that_update_one_booster_grow_one_tree_after_the_other(monkeypatch):
    booster = live()
    inside, growing, most = Inside(booster.update), [], []
    original = type(booster._grower).grow_iteration

    def grow_iteration(self):
        growing.append(threading.get_ident())
        most.append(len(growing))
        inside()
        try:
            return original(self)
        finally:
            growing.pop()

    monkeypatch.setattr(type(booster._grower), "grow_iteration", grow_iteration)
    booster.update()
    assert inside.end() is None
    assert most == [1, 1]
    assert booster.num_trees() == booster.current_iteration() == 3
    leaf_sums = [row["count"] for row in booster.privacy.ledger if row["release"] == "leaf sums"]
    assert leaf_sums == [3]


CALLS = {
    "model_to_string": lambda booster: booster.model_to_string(),
    "save_model": lambda booster: booster.save_model(os.devnull),
    "predict": lambda booster: booster.predict(X),
    "privacy": lambda booster: booster.privacy,
    "eval_train": lambda booster: booster.eval_train(),
    "rollback_one_iter": lambda booster: booster.rollback_one_iter(),
    "reset_parameter": lambda booster: booster.reset_parameter({"learning_rate": 0.1}),
    "pickle": lambda booster: pickle.dumps(booster),
    "deepcopy": copy.deepcopy,
    "num_trees": lambda booster: booster.num_trees(),
    "model_from_string": lambda booster: booster.model_from_string(booster.model_to_string()),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore::lgb_dp.NotPrivateWarning")
def test_threads_that_call_a_booster_while_it_grows_see_whole_iterations(monkeypatch, call):
    booster = live()
    grower, order = booster._grower, []
    inside = Inside(lambda: (CALLS[call](booster), order.append("called")))
    original = type(grower).grow_iteration

    def grow_iteration(self):
        inside()
        order.append("grown")
        return original(self)

    monkeypatch.setattr(type(grower), "grow_iteration", grow_iteration)
    booster.update()
    error = inside.end()
    assert error is None
    assert order == ["grown", "called"]
    assert lgb_dp.privacy_of(booster.model_to_string()).private
    assert booster.num_trees() == (1 if call == "rollback_one_iter" else 2)


def test_threads_that_load_the_grown_trees_at_once_load_each_once(monkeypatch):
    booster = live()
    booster.update()
    inside = Inside(booster.num_trees)
    pause(monkeypatch, private_booster, "tree_block", inside)
    assert booster.num_trees() == 2
    assert inside.end() is None
    assert len(lgb_dp.DPBooster(model_str=booster.model_to_string()).dump_model()["tree_info"]) == 2


def test_threads_that_take_one_booster_over_do_so_once(monkeypatch):
    budget = lgb_dp.Budget(1.0, 1e-5)
    data = dataset(X, Y)
    callback = lgb_dp.NewtonBoost(0.1, 1e-7, budget=budget)
    booster = lgb.Booster({**QUIET, **data.get_params()}, data)
    env = lgb.callback.CallbackEnv(booster, QUIET, 0, 0, 2, None)
    inside = Inside(lambda: callback(env))
    pause(monkeypatch, trainers.PrivateTrainer, "_initial_guarantee", inside)
    callback(env)
    assert isinstance(inside.end(), lgb.basic.LightGBMError)
    booster.update()
    alone = lgb_dp.Budget(1.0, 1e-5)
    train(dataset(X, Y), lgb_dp.NewtonBoost(0.1, 1e-7, budget=alone))
    assert budget.spent.mu == pytest.approx(alone.spent.mu)
    assert "_claim" not in vars(booster)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_threads_that_fork_while_another_trains_leave_a_child_that_does_not_wait(monkeypatch):
    booster, seen = live(), SimpleNamespace(status=None)

    def fork():
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            try:
                booster.update()
            except lgb_dp.ForkedProcessError:
                os._exit(0)
            finally:
                os._exit(1)
        seen.status = os.waitpid(child, 0)[1]

    inside = Inside(fork)
    original = type(booster._grower).grow_iteration
    monkeypatch.setattr(type(booster._grower), "grow_iteration", lambda self: (inside(), original(self))[1])
    booster.update()
    inside.end()
    assert seen.status == 0


# Budgets and estimators.


def test_threads_together_do_not_spend_more_than_a_budget_has(monkeypatch):
    budget = lgb_dp.Budget(1.0)
    cost = lgb_dp.accounting.ledger.Cost(0.6)
    inside = Inside(lambda: budget.charge(cost, "second"))
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


def test_threads_that_write_into_labels_do_not_reach_those_that_were_checked(monkeypatch):
    data = dataset(X, Y).construct()
    label = data.label if data.label.base is None else data.label.base

    def write():
        label[:] = 99.0

    inside = Inside(write)
    pause(monkeypatch, trainers.PrivateTrainer, "_initial_guarantee", inside)
    booster = fit(data, keep_training_booster=True)
    inside.end()
    assert set(booster._grower.label.tolist()) == {0.0, 1.0}
