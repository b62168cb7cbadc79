"""The objectives of vertical training, each with labels made from those of two real data sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost

from benchmarks.vertical import vertical_data
from benchmarks.vertical.vertical_data import VerticalProblem
from xgb_fed.boosting.objectives import OBJECTIVES

DATA = ("abalone", "winequality_white")
CUSTOM = "custom"
NAMES = (*OBJECTIVES, CUSTOM)
ROWS_PER_QUERY = 20
PARAMETERS: dict[str, dict[str, Any]] = {
    "reg:pseudohubererror": {"huber_slope": 2.0},
    "reg:quantileerror": {"quantile_alpha": 0.8},
    "reg:tweedie": {"tweedie_variance_power": 1.3},
    "multi:softprob": {"num_class": 3},
    "multi:softmax": {"num_class": 3},
    "survival:aft": {"aft_loss_distribution": "logistic", "aft_loss_distribution_scale": 1.2},
    "rank:map": {"lambdarank_pair_method": "mean"},
    CUSTOM: {"objective": "reg:squarederror", "base_score": 0.0},
}


@dataclass(frozen=True)
class ObjectiveProblem:
    """Rows for one objective.

    Parameters
    ----------
    name : str
    problem : VerticalProblem
        The columns, and whose they are.
    info : dict
        What XGBoost is told of the rows, by its names.
    """

    name: str
    problem: VerticalProblem
    info: dict[str, Any]

    @property
    def params(self) -> dict[str, Any]:
        common = {"objective": self.name, "max_depth": 5, "max_bin": 32, "nthread": 1}
        return {**common, **PARAMETERS.get(self.name, {})}

    @property
    def obj(self) -> Any:
        return logarithmic_cosh if self.name == CUSTOM else None

    def pooled(self, rounds: int) -> xgboost.Booster:
        """XGBoost itself, with cuts as parties make them: of rows that weigh the same."""
        data = xgboost.QuantileDMatrix(self.problem.X, max_bin=32)
        data.set_info(**self.info)
        booster = xgboost.Booster(self.params, cache=[data])
        for number in range(rounds):
            booster.update(data, number, self.obj)
        return booster


def logarithmic_cosh(margin: Any, data: xgboost.DMatrix) -> tuple[Any, Any]:
    """Gradients and hessians of log cosh(margin − label), as a user would write it."""
    tangent = np.tanh(margin - data.get_label())
    return tangent, 1 - tangent**2 + np.float32(1e-3)


def objective_problem(name: str, data: str) -> ObjectiveProblem:
    """Rows of one data set, with labels that suit an objective."""
    problem: VerticalProblem = getattr(vertical_data, data)()
    y, n = np.asarray(problem.y, dtype=np.float32), len(problem.y)
    if y.min() <= 0:  # of data that stand in for the file
        y = y - y.min() + 1
    rng = np.random.default_rng(0)
    censored = rng.random(n) < 0.3
    third, median, two_thirds = np.quantile(y, [1 / 3, 1 / 2, 2 / 3])
    kind = name.split(":")[0]
    label: Any = y
    if name == "reg:logistic":
        label = (y - y.min()) / (y.max() - y.min())
    elif name == "reg:tweedie":
        label = np.maximum(y - median, 0)
    elif name == "survival:cox":
        label = np.where(censored, -y, y)
    elif kind == "binary" or name == "rank:map":
        label = y > median
    elif kind in ("multi", "rank"):
        label = np.digitize(y, [third, two_thirds + 1e-6])
    info: dict[str, Any] = {"label": np.asarray(label, dtype=np.float32)}
    if name == "survival:aft":
        info["label_lower_bound"] = y
        info["label_upper_bound"] = np.where(censored, np.inf, y * 1.1).astype(np.float32)
    if kind == "rank":
        info["qid"] = np.arange(n) // ROWS_PER_QUERY
    return ObjectiveProblem(name, problem, info)
