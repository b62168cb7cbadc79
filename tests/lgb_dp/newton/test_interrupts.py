"""Interrupts, rollbacks and forks leave the scores what the trees say and share no noise."""

import os
import signal

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from gbdt_hosts import lightgbm as host
from growers import grower_of, kept_scores
from lgb_dp.newton import core
from newton_training import QUIET, X, Y, live_booster, training_scores


def test_rolling_back_takes_the_scores_back():
    booster = live_booster(4)
    booster.update()
    one = training_scores(booster)
    booster.update()
    booster.rollback_one_iter()
    np.testing.assert_allclose(training_scores(booster), one, atol=1e-12)
    assert booster.privacy.ledger[-1]["count"] == 2  # what it cost stays spent


FEW_AND_MANY_BINS = np.column_stack([X[:, 0], X[:, 1] > 0, np.arange(len(X)) % 6])


def few_and_many_bins():
    """Trees of one feature have other sizes than the trees that follow."""
    return lgb_dp.Dataset(FEW_AND_MANY_BINS, Y, bounds={0: (-3, 3)}, categories={1: range(2), 2: range(6)})


@pytest.mark.parametrize("structure", ["auto", "cyclic"])
def test_trees_of_several_sizes_can_be_taken_back_and_evaluated_late(structure):
    booster = live_booster(100, few_and_many_bins(), {**QUIET, "max_depth": 3}, structure=structure)
    for _ in range(5):
        booster.update()
    booster.rollback_one_iter()
    for _ in range(9):
        booster.update()
    grown = [len(trees[0].feature) for trees in grower_of(booster).trees]
    assert len(set(grown)) > 1
    assert max(grown) <= 7
    with pytest.warns(lgb_dp.NotPrivateWarning):
        booster.eval_train()
    raw = booster.predict(FEW_AND_MANY_BINS, raw_score=True)
    np.testing.assert_allclose(training_scores(booster)[:, 0], raw, atol=1e-9)


@pytest.mark.parametrize("after", [1, 4])
@pytest.mark.parametrize("where", ["adding up", "learning", "making the tree"])
def test_an_interrupt_in_a_round_leaves_no_trace_in_the_scores(monkeypatch, after, where):
    class Interrupted:
        def add_up(self, *_, **__):
            raise KeyboardInterrupt

    booster = live_booster(100, few_and_many_bins())
    grower = grower_of(booster)
    for _ in range(after):
        booster.update()
    with monkeypatch.context() as patch:
        if where == "adding up":
            patch.setattr(grower.releases.rows, "pairs", Interrupted())
        elif where == "learning":
            patch.setattr(grower.beginning.splits, "learn", Interrupted().add_up)
        else:
            patch.setattr(core, "PrivateTree", Interrupted().add_up)
        with pytest.raises(KeyboardInterrupt):
            booster.update()
    assert booster.privacy.ledger[-1]["count"] == after + 1  # charged before the data is read
    for _ in range(2):
        booster.update()
        raw = booster.predict(FEW_AND_MANY_BINS, raw_score=True)
        np.testing.assert_allclose(training_scores(booster)[:, 0], raw, atol=1e-9)


def test_an_interrupt_while_the_model_is_loaded_or_taken_back_leaves_no_trace(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    booster = live_booster(100, few_and_many_bins())
    for _ in range(5):
        booster.update()
    booster.predict(FEW_AND_MANY_BINS[:1])
    booster.update()
    with monkeypatch.context() as patch:
        patch.setattr(host.booster, "model_text", interrupted)
        with pytest.raises(KeyboardInterrupt):
            booster.num_trees()
    assert booster.num_trees() == 6
    with pytest.warns(lgb_dp.NotPrivateWarning):
        booster.eval_train()
    scores = grower_of(booster).scores
    with monkeypatch.context() as patch:
        patch.setattr(scores, "forget", interrupted)
        with pytest.raises(KeyboardInterrupt):
            booster.rollback_one_iter()
    booster.rollback_one_iter()
    add, written = scores.write, []
    with monkeypatch.context() as patch:  # scores were written, their number of trees was not
        patch.setattr(scores, "write", lambda rows, new, n: written.append(1) or add(rows, new, -1))
        booster.update()
        booster.eval_train()
    assert written
    booster.update()
    assert booster.num_trees() == 7
    raw = booster.predict(FEW_AND_MANY_BINS, raw_score=True)
    np.testing.assert_allclose(kept_scores(booster, booster.train_set)[:, 0], raw, atol=1e-9)
    np.testing.assert_allclose(training_scores(booster)[:, 0], raw, atol=1e-9)


def test_an_interrupt_in_the_first_release_ends_the_training(monkeypatch):
    booster = live_booster(10)
    with monkeypatch.context() as patch:
        patch.setattr(core, "automatic_rate", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            booster.update()
    with pytest.raises(lgb.basic.LightGBMError, match="start it anew"):
        booster.update()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("structure", ["auto", "random"])
def test_a_forked_child_gets_none_of_the_noise_that_was_drawn_ahead(structure):
    booster = live_booster(100, structure=structure)
    booster.update()
    reserve, _ = grower_of(booster).releases.reserves
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        refused = 0
        for attempt in (booster.update, lambda: reserve.hand_out(reserve.scale, 1)):
            try:
                attempt()
            except RuntimeError:
                refused += 1
        os._exit(0 if refused == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    booster.update()
