"""The parameters of a training run: those of XGBoost that are supported, and those of federated training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

import numpy as np

from xgb_fed.boosting.objectives import OBJECTIVES
from xgb_fed.boosting.sampling import Sampling
from xgb_fed.boosting.split_gain import SplitGain
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError

ALIASES = {
    "eta": "learning_rate",
    "lambda": "reg_lambda",
    "alpha": "reg_alpha",
    "min_split_loss": "gamma",
    "seed": "random_state",
}
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "booster": ("gbtree",),
    "tree_method": ("auto", "hist"),
    "grow_policy": ("depthwise",),
    "sampling_method": ("uniform",),
    "device": ("cpu",),
    "colsample_bylevel": (1,),
    "colsample_bynode": (1,),
    "max_leaves": (0,),
    "num_parallel_tree": (1,),
    "enable_categorical": (False,),
    "monotone_constraints": ((), "()", {}),
    "multi_strategy": ("one_output_per_tree",),
    "missing": (np.nan,),
}
"""Parameters of XGBoost that are accepted at the values that federated training has anyway, and None."""

IGNORED = ("n_jobs", "nthread", "verbosity", "validate_parameters")
"""Parameters of XGBoost without effect on a model."""

TREE_MODES = ("default", "mix", "layered")
"""Which party searches for splits at which level; see `xgb_fed.vertical.tree_modes.TreeMode`."""


@dataclass(frozen=True)
class Settings:
    """Parameters of a federated training run, with XGBoost's names and defaults.

    Only `random_state` differs: by default every run draws other samples, because whoever knows the seed of a
    GOSS sample learns more from it about gradients.
    """

    objective: str = "reg:squarederror"
    num_class: int = 1
    max_depth: int = 6
    learning_rate: float = 0.3
    max_bin: int = 256
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    gamma: float = 0.0
    min_child_weight: float = 1.0
    max_delta_step: float = 0.0
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    base_score: float | None = None
    scale_pos_weight: float = 1.0
    eval_metric: Any = None
    random_state: int | None = None
    tree_mode: str = "default"
    trees_per_party: int = 1
    active_depth: int = 2
    multi_output: bool = False
    goss: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Check every value; errors name the parameter, its value and what is accepted."""
        if self.objective not in OBJECTIVES:
            raise UnsupportedParameterError(f"objective={self.objective!r} must be one of {OBJECTIVES}")
        if self.tree_mode not in TREE_MODES:
            raise UnsupportedParameterError(f"tree_mode={self.tree_mode!r} must be one of {TREE_MODES}")
        softprob = self.objective == "multi:softprob"
        if softprob:
            _whole("num_class", self.num_class, 2, 2**31 - 1)
        if not softprob and (self.num_class != 1 or self.multi_output):
            raise InvalidArgumentError("num_class and multi_output are for objective='multi:softprob' only")
        _whole("max_depth", self.max_depth, 1, 30)
        _whole("max_bin", self.max_bin, 2, 65_535)
        _number("learning_rate", self.learning_rate, above=0.0)
        for name in ("reg_lambda", "reg_alpha", "gamma", "min_child_weight", "max_delta_step"):
            _number(name, getattr(self, name))
        _number("scale_pos_weight", self.scale_pos_weight, above=0.0)
        if self.scale_pos_weight != 1 and self.objective != "binary:logistic":
            raise UnsupportedParameterError("scale_pos_weight is for objective='binary:logistic' only")
        if self.base_score is not None:
            _number("base_score", self.base_score, low=-np.inf)
            if self.objective == "binary:logistic" and not 0 < self.base_score < 1:
                raise InvalidArgumentError(
                    f"base_score={self.base_score} must be in (0, 1) for binary:logistic"
                )
        metrics = self.eval_metric if isinstance(self.eval_metric, (list, tuple)) else [self.eval_metric]
        if not all(metric is None or isinstance(metric, str) for metric in metrics):
            raise UnsupportedParameterError(
                f"eval_metric={self.eval_metric!r} must be the name of an XGBoost metric, or a list of names"
            )
        if self.random_state is not None:
            _whole("random_state", self.random_state, 0, 2**63 - 1)
        _whole("trees_per_party", self.trees_per_party, 1, 2**31 - 1)
        _whole("active_depth", self.active_depth, 1, 30)
        self.sampling  # noqa: B018 - checks the fractions

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Settings:
        """Read XGBoost-style parameters.

        Raises
        ------
        UnsupportedParameterError
            For a parameter, or a value of one, that federated training does not support.
        """
        known = {f.name for f in fields(cls)}
        settings: dict[str, Any] = {}
        for given, value in params.items():
            if value is None:
                continue
            name = ALIASES.get(given, given)
            if name in settings:
                raise InvalidArgumentError(f"{given} is given twice, under different names")
            if name in known:
                # As Python's own numbers: JSON cannot hold NumPy's.
                settings[name] = value.item() if isinstance(value, np.generic) else value
            elif name in NEUTRAL:
                if not _is_neutral(name, value):
                    raise UnsupportedParameterError(
                        f"{given}={value!r} is not supported; {NEUTRAL[name][-1]!r} is accepted"
                    )
            elif name not in IGNORED:
                similar = get_close_matches(given, [*known, *ALIASES, *NEUTRAL, *IGNORED], n=1)
                hint = f"; did you mean {similar[0]}?" if similar else ""
                raise UnsupportedParameterError(
                    f"{given}={value!r} is not supported in federated training{hint}"
                )
        return cls(**settings)

    @property
    def n_classes(self) -> int:
        """Number of margins per row."""
        return self.num_class

    @property
    def sampling(self) -> Sampling:
        """How the rows and columns of a tree are drawn."""
        return Sampling(self.subsample, self.goss, self.colsample_bytree)

    @property
    def split_gain(self) -> SplitGain:
        """The parameters of gains and leaf weights, in XGBoost's precision."""
        return SplitGain(**{f.name: np.float32(getattr(self, f.name)) for f in fields(SplitGain)})

    @property
    def of_xgboost(self) -> dict[str, Any]:
        """The parameters that XGBoost needs to compute metrics."""
        params: dict[str, Any] = {"objective": self.objective}
        if self.num_class > 1:
            params["num_class"] = self.num_class
        if self.eval_metric is not None:
            params["eval_metric"] = self.eval_metric
        if self.scale_pos_weight != 1:
            params["scale_pos_weight"] = self.scale_pos_weight
        return params


def _is_neutral(name: str, value: Any) -> bool:
    """Whether a value of a parameter that cannot be honoured changes nothing."""
    if name == "monotone_constraints" and not isinstance(value, str):
        values = value.values() if isinstance(value, Mapping) else value
        return isinstance(value, (Mapping, list, tuple, np.ndarray)) and all(one == 0 for one in values)
    is_nan = isinstance(value, float) and np.isnan(value)
    return is_nan if name == "missing" else any(value == neutral for neutral in NEUTRAL[name])


def _whole(name: str, value: Any, low: int, high: int) -> None:
    if not (isinstance(value, (int, np.integer)) and low <= value <= high):
        raise InvalidArgumentError(f"{name}={value!r} must be an integer from {low} to {high}")


def _number(name: str, value: Any, low: float = 0.0, above: float | None = None) -> None:
    fine = isinstance(value, (int, float, np.number)) and np.isfinite(value)
    if not (fine and (value > above if above is not None else value >= low)):
        bound = f"above {above}" if above is not None else f"of at least {low}"
        raise InvalidArgumentError(f"{name}={value!r} must be a finite number {bound}")
