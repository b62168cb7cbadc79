"""One booster in several threads."""

import copy
import os
import pickle
import threading

import lightgbm as lgb
import pytest

import lgb_dp
from gbdt_hosts.lightgbm import booster as private_booster
from growers import grower_of
from lgb_dp.boosting import trainer as trainers
from small_training import dataset, train
from threads_at_once import QUIET, Inside, X, Y, live, pause


def test_threads_that_update_one_booster_grow_one_tree_after_the_other(monkeypatch):
    booster = live()
    inside, growing, most = Inside(booster.update, kept_out=True), [], []
    original = type(grower_of(booster)).grow_iteration

    def grow_iteration(self):
        growing.append(threading.get_ident())
        most.append(len(growing))
        inside()
        try:
            return original(self)
        finally:
            growing.pop()

    monkeypatch.setattr(type(grower_of(booster)), "grow_iteration", grow_iteration)
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
    grower, order = grower_of(booster), []
    inside = Inside(lambda: (CALLS[call](booster), order.append("called")), kept_out=True)
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
    inside = Inside(booster.num_trees, kept_out=True)
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
