"""A new loss is one module, one entry and one row of a table."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from columns_apart import bank
from gbdt_kernels.trees import TablePairs
from lgb_dp.checks import Interval
from lgb_dp.losses.loss import STEPS
from lgb_dp.losses.objective import OBJECTIVES, Objective
from lgb_dp.losses.regression import ResidualLoss
from small_training import binary_data, dataset

X, _ = binary_data(900)
TARGET = 2 * X[:, 0] + X[:, 1]
DELTA = 1e-5
TABLE = Path(__file__).parents[3] / "docs" / "newton.md"


@dataclass(frozen=True)
class Cubic(ResidualLoss):
    """A toy: gradients grow with the square of a residual, up to a threshold that is the own parameter."""

    def pairs(self, target, clip):
        residual = np.arange(-STEPS, STEPS + 1) / STEPS
        gradient = np.trunc(np.sign(residual) * residual**2 * STEPS)
        room = np.sqrt(np.maximum(1 - (gradient / STEPS) ** 2, 0)) * (1 - 1e-12)
        hessian = np.floor(np.minimum(np.abs(residual) + 0.1, room) * STEPS)
        table = np.column_stack([gradient, hessian]).astype(np.int16)
        return TablePairs(target, False, table, 1.0 / clip)


def make_cubic(seen, scale, gradient_clip, hessian_share, mu):
    seen.append(scale.of_objective)
    return Cubic(None, min(scale.of_objective["alpha"] / scale.scale, 2.0), 0.0, hessian_share)


@pytest.fixture
def seen(monkeypatch):
    """Losses that were made for the toy, by their own parameter."""
    made = []
    cubic = Objective(
        "cubic",
        partial(make_cubic, made),
        ("l3",),
        ("alpha", Interval(0, 10)),
        model_line="huber",
        rate_factor=0.5,
    )
    monkeypatch.setitem(OBJECTIVES, "cubic", cubic)
    return made


def rows(**settings):
    return dataset(X, TARGET, label_bounds=(-9, 9), max_bin=16, **settings)


def test_an_entry_is_all_that_a_loss_needs(seen):
    found = {}
    params = {"objective": "l3", "alpha": 4.0, "verbosity": -1, "metric": "l1"}
    data = rows()
    held_out = data.create_valid(X[:200], TARGET[:200], public=True)
    callbacks = [lgb_dp.NewtonBoost(20.0, DELTA), lgb.record_evaluation(found)]
    booster = lgb.train(params, data, 60, valid_sets=[held_out], callbacks=callbacks)
    assert seen == [{"alpha": 4.0}]
    assert "\nobjective=huber\n" in booster.model_to_string()
    assert booster.privacy.private
    errors = found["valid_0"]["l1"]
    assert errors[-1] < 0.6 * errors[0]
    native = lgb.Booster(model_str=booster.model_to_string())
    np.testing.assert_array_equal(native.predict(X), booster.predict(X))


def test_parties_and_columns_apart_take_it_as_it_is(seen):
    params = {"objective": "cubic", "alpha": 4.0, "max_depth": 2}
    parties = [
        lgb_dp.federated.Party(
            X[k::3], TARGET[k::3], bounds=(-3, 3), label_bounds=(-9, 9), max_bin=16, name=f"party {k}"
        )
        for k in range(3)
    ]
    across = lgb_dp.federated.train(params, parties, 4, callbacks=[lgb_dp.NewtonBoost(20.0, DELTA)])
    assert across.num_trees() == 4
    other = bank(x=X[:301, 2:] / 3)
    own = lgb_dp.Dataset(X[:301, :2], TARGET[:301], bounds=(-3, 3), label_bounds=(-9, 9))
    apart = lgb_dp.vertical.train(
        params, own, 2, parties=[other], callbacks=[lgb_dp.NewtonBoost(20.0, DELTA)], trees_per_round=2
    )
    assert apart.num_trees() == 2
    assert len(seen) >= 5


def test_trainers_without_such_a_loss_refuse_it(seen):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="objective='cubic'"):
        lgb.train({"objective": "cubic"}, rows(), 2, callbacks=[lgb_dp.DPBoost(1.0)])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="alpha"):
        lgb.train(
            {"objective": "cubic", "alpha": 11.0}, rows(), 2, callbacks=[lgb_dp.NewtonBoost(1.0, DELTA)]
        )


def test_every_loss_of_regression_has_a_row_of_the_table():
    table = [line for line in TABLE.read_text().splitlines() if line.startswith("| `")]
    named = {line.split("`")[1] for line in table}
    assert {name for name, one in OBJECTIVES.items() if one.is_regression} - named == {"regression"}
