"""Trees that would not fit memory are refused before anything is released."""

import numpy as np
import pytest

import lgb_dp
from lgb_dp.newton import model_memory
from small_training import train

X, Y = np.zeros((20, 1)), np.arange(20.0) % 2


def test_depth_times_rounds_is_refused_with_the_arithmetic(monkeypatch):
    monkeypatch.setattr(model_memory, "memory_limit", lambda: 8_000_000_000)
    data = lgb_dp.Dataset(X, Y, bounds=(0, 1))
    message = r"max_depth=16 .*1000 rounds × 65536 leaves × 620 bytes = 40\.6 GB, and there are 8\.0"
    budget = lgb_dp.Budget(1.0, 1e-5)
    with pytest.raises(lgb_dp.InvalidArgumentError, match=message):
        train(data, lgb_dp.NewtonBoost(1.0, 1e-5, rounds=1000, budget=budget), n_rounds=1, max_depth=16)
    assert budget.spent.mu == 0


@pytest.mark.parametrize(("depth", "fits"), [(9, True), (10, False)])
def test_the_limit_counts_the_trees_of_all_classes(monkeypatch, depth, fits):
    monkeypatch.setattr(model_memory, "memory_limit", lambda: 512 * 100 * (270 + 3 * 350))
    if fits:
        model_memory.check_model_fits(depth, 100, 3)
    else:
        with pytest.raises(lgb_dp.InvalidArgumentError, match="max_depth=10 does not fit"):
            model_memory.check_model_fits(depth, 100, 3)


def test_a_system_that_does_not_say_refuses_nothing(monkeypatch):
    monkeypatch.setattr(model_memory, "memory_limit", lambda: None)
    model_memory.check_model_fits(16, 10**6, 1)


def test_this_machine_says_how_much_memory_it_has():
    assert model_memory.memory_limit() > 10**8
