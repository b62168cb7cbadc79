"""Interrupts at any line: what was paid for stays usable, every charge counts once, and no process ends."""

import sys
import threading
from functools import cache
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from gbdt_hosts.lightgbm import booster as host_booster
from lgb_dp.accounting import budget as budgets
from lgb_dp.boosting import trainer as trainers
from lgb_dp.boosting import training as trainings
from lgb_dp.dpboost import square_loss
from lgb_dp.dpboost import trainer as dpboost
from lgb_dp.newton import core, noised_sums
from small_training import binary_data, dataset, train

X, Y = binary_data(120)
ROUNDS = 3
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2, "num_threads": 1}
MODULES = {module.__file__ for module in (host_booster, budgets, trainers, trainings, dpboost)}
MODULES |= {lgb.engine.__file__, lgb.basic.__file__}

pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.NotPrivateWarning")


@cache
def _blocks(path):
    """Lines of `with`, which come again between a block and its `__exit__`, where no signal is handled."""
    lines = enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1)
    return {number for number, line in lines if line.lstrip().startswith("with ")}


def _in_finalizer(frame):
    """Whether an exception would not get out."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


class InterruptedAt:
    """Raises a KeyboardInterrupt at one line event of some modules, counted from the first."""

    def __init__(self, line, modules=MODULES):
        self.line, self.modules, self.count = line, modules, 0

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, kind, *_):
        sys.settrace(self.before)
        return kind is KeyboardInterrupt

    def _call(self, frame, event, _):
        path = frame.f_code.co_filename
        return self._event if path in self.modules and not _in_finalizer(frame) else None

    def _event(self, frame, event, _):
        if event == "line" and frame.f_lineno not in _blocks(frame.f_code.co_filename):
            self.count += 1
            if self.count == self.line:
                raise KeyboardInterrupt
        return self._event


def n_lines(run):
    with InterruptedAt(-1) as traced:
        run(whole())
    return traced.count


def run_with(kind):
    def run(budget, trainer=None):
        trainer = trainer or made(kind, budget)
        return lgb.train(QUIET, dataset(X, Y), ROUNDS, callbacks=[trainer])

    return run


def made(kind, budget):
    if kind == "newton":
        return lgb_dp.NewtonBoost(0.4, 1e-5, budget=budget)
    return lgb_dp.DPBoost(0.4, trees_per_ensemble=2, budget=budget)


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 100])
@pytest.mark.parametrize("kind", ["newton", pytest.param("dpboost", marks=pytest.mark.slow)])
def test_an_interrupt_at_any_line_leaves_a_usable_booster_or_a_named_error(kind, every):
    run = run_with(kind)
    run(whole())  # kernels are compiled, modules loaded
    n_all = n_lines(run)
    assert n_all > 1000
    n_kept = 0
    # All of the last lines, where the finished model takes the place of the one in training.
    for line in sorted({*range(1, n_all, every), *range(n_all - 50, n_all)}):
        budget = whole()
        trainer = made(kind, budget)
        with InterruptedAt(line):
            run(budget, trainer)
        n_charges = len(budget.report().ledger)
        assert n_charges <= 1
        booster = getattr(trainer, "booster_", None)
        if booster is not None:
            assert n_charges == 1
            n_kept += usable(booster)
        run(budget)
        assert len(budget.report().ledger) == n_charges + 1
    assert n_kept > 50


def whole():
    return lgb_dp.Budget(2.0, 1e-4, pure_epsilon=1.0)


def usable(booster):
    """Whether a booster that a run left has trees; it must be one that can be asked everything."""
    report = booster.privacy
    assert report.private
    n_trees = booster.num_trees()
    assert 0 <= n_trees <= ROUNDS
    if (
        n_trees == 0
    ):  # LightGBM writes no parameters of a model without trees, and nothing was released in one
        return False
    assert lgb_dp.privacy_of(booster.model_to_string()).epsilon == report.epsilon
    again = lgb_dp.DPBooster(model_str=booster.model_to_string())
    assert again.num_trees() == n_trees
    np.testing.assert_array_equal(again.predict(X), booster.predict(X))
    return True


def continued(booster):
    """Whether one that is still in training goes on to its last round, or says by name why not."""
    try:
        for _ in range(ROUNDS + 1):
            booster.update()
    except lgb.basic.LightGBMError as error:
        return any(words in str(error) for words in ("all are spent", "start it anew", "not in training"))
    return False


@pytest.mark.parametrize("kind", ["newton", "dpboost"])
def test_a_run_goes_on_after_an_interrupt_at_any_line_or_says_why_not(kind):
    """DPBoost that was interrupted while it drew its first ensemble ended in an IndexError."""
    modules = MODULES | {square_loss.__file__, core.__file__, noised_sums.__file__}
    with InterruptedAt(-1, modules) as traced:
        run_with(kind)(whole())
    for line in range(1, traced.count, 45):
        trainer = made(kind, whole())
        with InterruptedAt(line, modules):
            run_with(kind)(whole(), trainer)
        if getattr(trainer, "booster_", None) is not None:
            assert continued(trainer.booster_)
            usable(trainer.booster_)
            assert len(trainer.budget.report().ledger) == 1


def test_dpboost_draws_an_ensemble_whose_first_iteration_was_interrupted(monkeypatch):
    booster = lgb.Booster(QUIET, dataset(X, Y))
    trainer = lgb_dp.DPBoost(1.0, trees_per_ensemble=2)
    trainer(lgb.callback.CallbackEnv(booster, QUIET, 0, 0, 4, None))
    real, drawn = dpboost.draw_tree_of_row, []

    def draw(*args):
        drawn.append(args)
        if len(drawn) in (1, 3):
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(dpboost, "draw_tree_of_row", draw)
    for raises in (True, False, True, False):
        if raises:
            with pytest.raises(KeyboardInterrupt):
                booster.update()
        else:
            booster.update()
    assert [args[1] for args in drawn] == [2, 2, 2, 2]
    assert booster.num_trees() == 2
    assert booster.privacy.epsilon <= 1.0


def test_an_interrupt_while_the_finished_model_is_read_keeps_the_one_in_training(monkeypatch):
    """Its native model was freed before, so that asking for the report ended the process."""
    trainer = lgb_dp.NewtonBoost(1.0, 1e-5)
    real, n_calls = host_booster.lightgbm.Booster.model_from_string, []

    def interrupted(self, text):
        n_calls.append(text)
        if len(n_calls) == 2:
            raise KeyboardInterrupt
        return real(self, text)

    monkeypatch.setattr(lgb.Booster, "model_from_string", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lgb.train(QUIET, dataset(X, Y), ROUNDS, callbacks=[trainer])
    monkeypatch.undo()
    assert usable(trainer.booster_)
    assert trainer.booster_.num_trees() == ROUNDS


def test_folds_in_threads_are_charged_once(monkeypatch):
    data, budget = dataset(X, Y, free_raw_data=False), lgb_dp.Budget(4.0, 1e-4)
    parts = [data.subset(rows) for rows, _ in lgb_dp.folds(3, data).split()]
    at_the_till, failed, charge = threading.Barrier(len(parts)), [], lgb_dp.Budget.charge

    def charge_together(*args, **kwargs):
        at_the_till.wait(30)
        return charge(*args, **kwargs)

    def fit(part):
        try:
            train(part, lgb_dp.NewtonBoost(0.5, 1e-6, budget=budget), num_threads=1)
        except BaseException as error:
            failed.append(error)

    monkeypatch.setattr(lgb_dp.Budget, "charge", charge_together)
    threads = [threading.Thread(target=fit, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(budget.report().ledger) == 1
