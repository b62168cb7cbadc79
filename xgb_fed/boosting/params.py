"""The parameters of a training run: those of XGBoost that are supported, and those of federated training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from gbdt_commons.quoting import quoted, shown
from gbdt_hosts.xgboost.draws import are_reproduced
from gbdt_hosts.xgboost.margins import objective_config, words_of
from gbdt_hosts.xgboost.versions import draws_come_from_one_stream
from xgb_fed.boosting.categories import DEFAULT_RULES, CategoryRules
from xgb_fed.boosting.constraint_params import (
    Interactions,
    Monotone,
    read_interaction_constraints,
    read_monotone_constraints,
)
from xgb_fed.boosting.objectives import HORIZONTAL, LOGISTIC, OBJECTIVES, SOFTMAX, XGBoostObjective
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
    "sampling_method": ("uniform",),
    "device": ("cpu",),
    "process_type": ("default",),
    "multi_strategy": ("one_output_per_tree",),
    "missing": (np.nan,),
    "lambdarank_unbiased": (False,),
}
"""Parameters of XGBoost that are accepted at the values that federated training has anyway, and None."""

IGNORED = ("n_jobs", "nthread", "verbosity", "validate_parameters", "lambdarank_bias_norm")
"""Parameters of XGBoost without effect on a model."""

OBJECTIVE_PARAMETERS = frozenset(name for names in OBJECTIVES.values() for name in names)
"""Parameters of XGBoost that only some objectives have."""

_POSITIVE_MEANS = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
_POISSON_STEP = 0.7
"""XGBoost's default of `max_delta_step` for ``count:poisson``, in hessians and in leaves."""
GROW_POLICIES = ("depthwise", "lossguide")

PENALTIES = ("reg_lambda", "reg_alpha", "gamma", "min_child_weight")
"""Tree parameters that are in units of gradients and hessians."""

TREE_PARAMETERS = (
    *("max_depth", "learning_rate", "max_bin"),
    *PENALTIES,
    *("max_delta_step", "subsample", "colsample_bytree"),
)
"""Settings that stock XGBoost grows trees by."""

VERTICAL_ONLY = (
    "tree_mode",
    "trees_per_party",
    "active_depth",
    "multi_output",
    "goss",
    "monotone_constraints",
    "interaction_constraints",
    "grow_policy",
    "max_leaves",
    "colsample_bylevel",
    "colsample_bynode",
    "num_parallel_tree",
    "enable_categorical",
    "feature_types",
    "max_cat_to_onehot",
    "max_cat_threshold",
)
"""Parameters that only vertical training honours at other values than their defaults."""

TREE_MODES = ("default", "mix", "layered")
"""Which party searches for splits at which level; see `xgb_fed.vertical.training.task.TreeMode`."""


@dataclass(frozen=True)
class Settings:
    """Parameters of a federated training run, with XGBoost's names and defaults.

    Only `random_state` differs: by default every run draws other samples, because a GOSS sample with a known
    seed reveals more about gradients.
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
    colsample_bylevel: float = 1.0
    colsample_bynode: float = 1.0
    grow_policy: str = "depthwise"
    max_leaves: int = 0
    num_parallel_tree: int = 1
    monotone_constraints: Monotone | None = None
    interaction_constraints: Interactions | None = None
    base_score: float | None = None
    scale_pos_weight: float = 1.0
    eval_metric: Any = None
    random_state: int | None = None
    tree_mode: str = "default"
    trees_per_party: int = 1
    active_depth: int = 2
    multi_output: bool = False
    goss: tuple[float, float] | None = None
    enable_categorical: bool = False
    feature_types: tuple[str, ...] | None = None
    max_cat_to_onehot: int = DEFAULT_RULES.max_cat_to_onehot
    max_cat_threshold: int = DEFAULT_RULES.max_cat_threshold
    objective_parameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every value; errors name the parameter, its value and the values accepted."""
        self.require_objective(tuple(OBJECTIVES))
        self._check_objective_parameters()
        if self.tree_mode not in TREE_MODES:
            raise UnsupportedParameterError(f"tree_mode={shown(self.tree_mode)} must be one of {TREE_MODES}")
        softmax = self.objective in SOFTMAX
        if softmax:
            _whole("num_class", self.num_class, 2, 2**31 - 1)
        if not softmax and (self.num_class != 1 or self.multi_output):
            raise InvalidArgumentError(
                "num_class and multi_output are for objective='multi:softprob' and 'multi:softmax' only"
            )
        _whole("max_depth", self.max_depth, 0, 30)
        _whole("max_leaves", self.max_leaves, 0, 2**31 - 1)
        _whole("num_parallel_tree", self.num_parallel_tree, 1, 2**31 - 1)
        if self.grow_policy not in GROW_POLICIES:
            raise UnsupportedParameterError(
                f"grow_policy={shown(self.grow_policy)} must be one of {GROW_POLICIES}"
            )
        if self.monotone_constraints is not None and self.multi_output:
            raise UnsupportedParameterError(
                f"monotone_constraints={shown(self.monotone_constraints)} is not supported with multi_output"
            )
        _whole("max_bin", self.max_bin, 2, 65_535)
        _number("learning_rate", self.learning_rate, above=0.0)
        for name in ("reg_lambda", "reg_alpha", "gamma", "min_child_weight", "max_delta_step"):
            _number(name, getattr(self, name))
        _number("scale_pos_weight", self.scale_pos_weight, above=0.0)
        if self.scale_pos_weight != 1 and self.objective not in LOGISTIC:
            raise UnsupportedParameterError(
                f"scale_pos_weight is for objective={LOGISTIC[0]!r} and its kin only"
            )
        if self.base_score is not None:
            _number("base_score", self.base_score, low=-np.inf)
            if self.objective in ("binary:logistic", "reg:logistic") and not 0 < self.base_score < 1:
                raise InvalidArgumentError(
                    f"base_score={self.base_score} must be in (0, 1) for {self.objective}"
                )
            if self.objective in _POSITIVE_MEANS and not self.base_score > 0:
                raise InvalidArgumentError(
                    f"base_score={self.base_score} must be above 0 for {self.objective}"
                )
        metrics = self.eval_metric if isinstance(self.eval_metric, (list, tuple)) else [self.eval_metric]
        if not all(metric is None or isinstance(metric, str) for metric in metrics):
            raise UnsupportedParameterError(
                f"eval_metric={shown(self.eval_metric)} must be the name of an XGBoost metric, or a list of "
                "names"
            )
        if self.random_state is not None:
            _whole("random_state", self.random_state, 0, 2**63 - 1)
        _whole("trees_per_party", self.trees_per_party, 1, 2**31 - 1)
        _whole("active_depth", self.active_depth, 1, 30)
        _whole("max_cat_to_onehot", self.max_cat_to_onehot, 1, 2**31 - 1)
        _whole("max_cat_threshold", self.max_cat_threshold, 1, 2**31 - 1)
        if not isinstance(self.enable_categorical, (bool, np.bool_)):
            raise InvalidArgumentError(
                f"enable_categorical={shown(self.enable_categorical)} must be True or False"
            )
        self.sampling  # noqa: B018 - checks the fractions

    def _check_objective_parameters(self) -> None:
        """Let XGBoost check the objective's own parameters."""
        given, own = self.objective_parameters, OBJECTIVES[self.objective]
        if not isinstance(given, Mapping):
            raise InvalidArgumentError(f"objective_parameters={shown(given)} must be a mapping")
        for name in given:
            if name not in own:
                raise UnsupportedParameterError(
                    f"{name}={shown(given[name])} is not a parameter of objective={shown(self.objective)}"
                )
        alphas = given.get("quantile_alpha")
        if "quantile_alpha" in own and (alphas is None or np.size(alphas) != 1):
            raise UnsupportedParameterError(
                f"quantile_alpha={shown(alphas)} must be one number; train one model per quantile"
            )
        if not given:
            return
        try:
            config = objective_config({"objective": self.objective, **given})
        except ValueError as error:
            raise InvalidArgumentError(
                f"{given} for objective={shown(self.objective)}: {words_of(error)}"
            ) from None
        known = {name for part in config.values() if isinstance(part, dict) for name in part}
        for name in given:
            if name not in known:
                raise UnsupportedParameterError(f"{name}={shown(given[name])} is not known to this XGBoost")

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Settings:
        """Read XGBoost's parameters; `UnsupportedParameterError` for those that no party can honour."""
        known = {f.name for f in fields(cls)}
        settings: dict[str, Any] = {}
        for given, value in params.items():
            if value is None:
                continue
            name = ALIASES.get(given, given)
            if name in settings:
                raise InvalidArgumentError(f"{given} is given twice, under different names")
            if name in OBJECTIVE_PARAMETERS:
                value = value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value
                settings.setdefault("objective_parameters", {})[name] = value
            elif name in known:
                settings[name] = _READERS.get(name, _plain)(value)
            elif name in NEUTRAL:
                if not _is_neutral(name, value):
                    raise UnsupportedParameterError(
                        f"{given}={shown(value)} is not supported; {NEUTRAL[name][-1]!r} is accepted"
                    )
            elif name not in IGNORED:
                names = [*known, *ALIASES, *NEUTRAL, *IGNORED, *OBJECTIVE_PARAMETERS]
                similar = get_close_matches(given, names, n=1)
                hint = f"; did you mean {similar[0]}?" if similar else ""
                raise UnsupportedParameterError(
                    f"{quoted(given)}={shown(value)} is not supported in federated training{hint}"
                )
        if settings.get("objective") == "count:poisson":
            settings.setdefault("max_delta_step", _POISSON_STEP)
        return cls(**settings)

    def require_objective(self, accepted: Sequence[str]) -> None:
        """Raise `UnsupportedParameterError` for an objective that is not among the accepted ones."""
        if self.objective not in accepted:
            raise UnsupportedParameterError(
                f"objective={shown(self.objective)} must be one of {', '.join(accepted)}"
            )

    @property
    def loss(self) -> XGBoostObjective:
        """The objective with its parameters."""
        parameters = dict(self.objective_parameters)
        if self.objective == "count:poisson":
            parameters["max_delta_step"] = self.max_delta_step
        return XGBoostObjective(self.objective, self.n_classes, self.scale_pos_weight, parameters)

    @property
    def n_classes(self) -> int:
        """Number of margins per row."""
        return self.num_class

    @property
    def sampling(self) -> Sampling:
        """How the rows and columns of a tree are drawn."""
        columns = self.colsample_bytree, self.colsample_bylevel, self.colsample_bynode
        return Sampling(self.subsample, self.goss, *columns)

    @property
    def seed_of_rows(self) -> int | None:
        """The seed if rows are drawn as the installed XGBoost does; None for the secret stream."""
        samples = self.subsample < 1 or self.sampling.draws_columns
        if self.random_state is None or not samples or self.goss is not None or self.tree_mode != "default":
            return None
        if not self._order_of_columns_is_known and draws_come_from_one_stream():
            return None
        return self.random_state if are_reproduced() else None

    @property
    def seed_of_columns(self) -> int | None:
        """The same for columns."""
        known = self._order_of_columns_is_known and self.sampling.draws_columns
        return self.seed_of_rows if known else None

    @property
    def _order_of_columns_is_known(self) -> bool:
        """Whether a level's nodes are known when their columns are drawn.

        With ``grow_policy="lossguide"``, the order in which XGBoost draws the columns of nodes is known too
        late.
        """
        return self.grow_policy == "depthwise" or self.colsample_bynode == 1

    @property
    def split_gain(self) -> SplitGain:
        """The parameters of gains and leaf weights, in XGBoost's precision."""
        return SplitGain(**{f.name: np.float32(getattr(self, f.name)) for f in fields(SplitGain)})

    @property
    def category_rules(self) -> CategoryRules:
        """How categorical columns are split."""
        return CategoryRules(int(self.max_cat_to_onehot), int(self.max_cat_threshold))

    def check_categories(self, n_columns: int, whose: str) -> None:
        """Check that `n_columns` columns of a party may be categorical.

        Raises `InvalidArgumentError` if they are not enabled, and `UnsupportedParameterError` if trees have
        leaves of several values.
        """
        if n_columns and not (self.enable_categorical or self.feature_types):
            raise InvalidArgumentError(
                f"{n_columns} columns of {whose} are categorical: set enable_categorical=True"
            )
        if n_columns and self.multi_output:
            raise UnsupportedParameterError(
                f"multi_output=True is not supported with categorical columns; {whose} has {n_columns}"
            )

    @property
    def of_xgboost(self) -> dict[str, Any]:
        """The parameters that XGBoost needs to compute metrics."""
        params = self.loss.of_xgboost
        if self.eval_metric is not None:
            params["eval_metric"] = self.eval_metric
        return params


def without_vertical_only(settings: Settings, objectives: Sequence[str] = HORIZONTAL) -> Settings:
    """Settings of a training run that is not vertical, without monotone constraints that constrain nothing.

    Raises `UnsupportedParameterError` for an objective that is not accepted, and with the name of a parameter
    that only vertical training honours.
    """
    if settings.monotone_constraints is not None and not any(s for _, s in settings.monotone_constraints):
        settings = replace(settings, monotone_constraints=None)
    default = Settings()
    for name in VERTICAL_ONLY:
        if getattr(settings, name) != getattr(default, name):
            raise UnsupportedParameterError(
                f"{name}={getattr(settings, name)!r} is for vertical training only"
            )
    if settings.max_depth == 0:
        raise InvalidArgumentError("max_depth=0 is for vertical training only; it must be from 1 to 30")
    settings.require_objective(objectives)
    return settings


def _plain(value: Any) -> Any:
    """As Python's own numbers: JSON cannot hold NumPy's."""
    return value.item() if isinstance(value, np.generic) else value


def _types(value: Any) -> Any:
    """Types of columns as settings keep them; one for all stays as it is."""
    return tuple(value) if isinstance(value, (list, np.ndarray)) else value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "feature_types": _types,
    "monotone_constraints": read_monotone_constraints,
    "interaction_constraints": read_interaction_constraints,
}
"""Of parameters that come in several forms."""


def _is_neutral(name: str, value: Any) -> bool:
    """Whether a value of a parameter that cannot be honoured changes nothing."""
    is_nan = isinstance(value, float) and np.isnan(value)
    return is_nan if name == "missing" else any(value == neutral for neutral in NEUTRAL[name])


_MAX_NUMBER = float(np.finfo(np.float32).max)
"""XGBoost computes with float32."""


def _whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not (isinstance(value, (int, np.integer)) and low <= value <= high):
        raise InvalidArgumentError(f"{name}={shown(value)} must be an integer from {low} to {high}")


def _number(name: str, value: Any, low: float = 0.0, above: float | None = None) -> None:
    fine = isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and np.isfinite(value)
    if not (fine and abs(value) <= _MAX_NUMBER and (value > above if above is not None else value >= low)):
        bound = f"above {above}" if above is not None else f"of at least {low}"
        raise InvalidArgumentError(f"{name}={shown(value)} must be a finite number {bound}, as float32")
