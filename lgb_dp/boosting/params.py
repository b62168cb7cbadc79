"""LightGBM's parameters as private training reads them: some are honoured, all others are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np

from gbdt_commons.quoting import quoted, shown
from gbdt_hosts.lightgbm import default_parameters, main_names, resolve_aliases
from lgb_dp.checks import (
    AUTO,
    POSITIVE,
    Interval,
    checked_integer,
    checked_lambda,
    checked_learning_rate,
    checked_number,
)
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.losses.objective import MAX_TARGETS, NO_RANKING, OBJECTIVES, SEVERAL_TARGETS

DEFAULT_DEPTH = 6
"""Depth of the paper's experiments, taken when neither max_depth nor num_leaves is given."""

MAX_DEPTH = 16
_HONOURED = {
    "objective",
    "num_class",
    "num_iterations",
    "learning_rate",
    "max_depth",
    "num_leaves",
    "lambda_l2",
    "monotone_constraints",
    "num_threads",
    "verbosity",
    "metric",
    "early_stopping_round",
    "early_stopping_min_delta",
    "first_metric_only",
}
_WHOLE = {
    "num_class": (1, 1, 2**16),
    "max_depth": (-1, -1, MAX_DEPTH),
    "num_leaves": (31, 2, 2**MAX_DEPTH),
    "num_threads": (0, -(2**16), 2**16),
    "verbosity": (1, -(2**31), 2**31 - 1),
}
"""Parameters that are integers: LightGBM's default, and the least and largest value that is computed with."""

_WITHOUT_EFFECT_ON_THE_MODEL = {
    "force_col_wise",
    "force_row_wise",
    "histogram_pool_size",
    "is_enable_sparse",
    "enable_bundle",
    "is_provide_training_metric",
    "metric_freq",
    "multi_error_top_k",
    "auc_mu_weights",
}
_WHY = {
    "boosting": "trees are grown by the private trainer; choose it by the callback or by method",
    "data_sample_strategy": "rows are drawn by the private trainer",
    "tree_learner": "trees are grown by the private trainer, in one process",
    "device_type": "trees are grown on the CPU",
    "linear_tree": "a leaf's linear model would need releases of its own",
    "lambda_l1": "leaf values come from noisy sums; use lambda_l2",
    "feature_fraction": "splits are drawn by the private trainer",
    "feature_fraction_bynode": "splits are drawn by the private trainer",
    "extra_trees": "splits are drawn by the private trainer",
    "max_delta_step": "leaf values are bounded by the trainer already",
    "path_smooth": "it would need private counts of inner nodes",
    "refit_decay_rate": "refitting would need releases of its own",
    "bin_construct_sample_cnt": "bins are public: no rows are sampled for them",
    "min_data_in_bin": "bins are public: no rows are counted in them",
    "interaction_constraints": "splits are drawn without regard to earlier features of a path",
    "save_binary": "a Dataset holds rows; keep the original file",
    "boost_from_average": "the average label is private; the first tree starts from the public centre",
    "init_score": "pass it to lgb_dp.Dataset",
    "monotone_constraints_method": "leaf values are bounded as by 'basic'",
    "monotone_penalty": "splits are drawn without regard to constraints",
    "min_data_in_leaf": "a test on a leaf's private count would leak; trees are complete",
    "min_sum_hessian_in_leaf": "a test on a leaf's private count would leak; trees are complete",
    "min_gain_to_split": "a test on a private gain would leak; trees are complete",
    "bagging_fraction": "rows are drawn by the private trainer",
    "bagging_freq": "rows are drawn by the private trainer",
    "seed": "noise comes from the operating system; pass random_state to the callback for tests",
    "deterministic": "noise comes from the operating system; pass random_state to the callback for tests",
    "max_bin": "pass max_bin to lgb_dp.Dataset",
    "categorical_feature": "pass categories to lgb_dp.Dataset",
    "is_unbalance": "class counts are private; pass weight with a weight_bound",
    "scale_pos_weight": "pass weight with a weight_bound",
    "alpha": "it is a parameter of the objectives 'huber' and 'quantile'",
    "tweedie_variance_power": "it is a parameter of the objective 'tweedie'",
    "poisson_max_delta_step": "leaf values are bounded by the trainer already",
}
OF_ALL_TRAINERS = ("binary", "regression", "multiclass", "multiclassova")
"""Objectives that every trainer has, or says that it has not."""


@dataclass(frozen=True)
class TrainingParameters:
    """LightGBM's parameters that private training uses."""

    objective: str  # LightGBM's own name
    n_outputs: int  # trees per iteration
    learning_rate: float
    depth: int  # levels of splits of every tree
    lambda_l2: float  # λ, in units of row weight
    n_threads: int  # 0 means all available processors
    verbosity: int
    metric: Mapping[str, Any]  # parameters for LightGBM's metrics
    given: frozenset[str]  # parameters that the user gave, by LightGBM's own names
    monotone: tuple[int, ...] = ()  # 1, -1 or 0 for each feature; empty if all are 0
    of_objective: Mapping[str, float] = field(default_factory=dict)  # its own parameter, if it has one


def training_parameters(params: Mapping[str, Any], max_bin: Any) -> TrainingParameters:
    """Read LightGBM's parameters, aliases included; they may repeat `max_bin`, the Dataset's.

    `UnsupportedParameterError` if a parameter that private training cannot honour differs from LightGBM's
    default; `InvalidArgumentError` if a value is out of range, or a text that LightGBM would read as several
    parameters.
    """
    given = resolve_aliases(params)
    defaults = default_parameters()
    objective, inner = read_objective(given.get("objective") or "regression")
    own, accepted = OBJECTIVES[objective].parameter or ("", POSITIVE)
    for name, value in given.items():
        if value is None or (name == "max_bin" and value == max_bin):
            continue
        if name in _HONOURED | _WITHOUT_EFFECT_ON_THE_MODEL or (name == own and inner is None):
            _check_value(name, value)
            continue
        check_known(name, value)
        if name not in defaults or _as_text(value) != _as_text(defaults[name]):
            why = f": {_WHY[name]}" if name in _WHY else ""
            spelled = name if name in params else f"{_alias_in(params, name)} ({name})"
            raise UnsupportedParameterError(
                f"{spelled}={shown(value)} is not supported by private training{why}; "
                f"accepted is LightGBM's default, {defaults.get(name, 'none')!r}"
            )

    num_class = _whole(given, "num_class")
    several = OBJECTIVES[objective].has_targets
    if (several or objective.startswith("multiclass")) != (num_class > 1):
        raise InvalidArgumentError(
            f"num_class={num_class} does not fit objective={shown(objective)}; "
            f"only the multi-class objectives and {SEVERAL_TARGETS!r} have num_class > 1"
        )
    if several and num_class > MAX_TARGETS:
        raise InvalidArgumentError(f"num_class={num_class}, columns of y, must be at most {MAX_TARGETS}")
    metric_names = ("metric", "multi_error_top_k", "auc_mu_weights")
    return TrainingParameters(
        objective=objective,
        n_outputs=num_class,
        learning_rate=checked_learning_rate(given.get("learning_rate", 0.1)),
        depth=_depth(given),
        lambda_l2=checked_lambda(given.get("lambda_l2", 0.0)),
        n_threads=max(0, _whole(given, "num_threads")),
        verbosity=_whole(given, "verbosity"),
        metric={name: given[name] for name in metric_names if given.get(name) is not None},
        given=_given(given),
        monotone=_monotone(given.get("monotone_constraints")),
        of_objective=_of_objective(own, given.get(own) if inner is None else inner, accepted) if own else {},
    )


def ignored_defaults(params: Mapping[str, Any]) -> list[str]:
    """Sentences about parameters given with LightGBM's default, which private trees do not keep to."""
    given = resolve_aliases(params)
    texts = []
    if given.get("num_leaves") is not None and _whole(given, "num_leaves") == 31:
        texts.append(
            f"{_alias_in(params, 'num_leaves')}=31, LightGBM's default, has no effect: private trees are "
            "complete, and have 2**max_depth leaves; give max_depth or a power of two"
        )
    for name in ("min_data_in_leaf", "min_sum_hessian_in_leaf"):
        if given.get(name) is not None:
            texts.append(
                f"{_alias_in(params, name)}={given[name]!r}, LightGBM's default, has no effect: {_WHY[name]}"
            )
    return texts


def refuse_early_stopping(params: Mapping[str, Any], where: str) -> None:
    """Raise an error if LightGBM's parameters ask for early stopping, by whatever name."""
    if resolve_aliases(params).get("early_stopping_round"):
        raise UnsupportedParameterError(
            f"early_stopping_round is not supported {where}: metrics of held-out rows would be releases of "
            "their own; leave it out"
        )


def _check_value(name: str, value: Any) -> None:
    """Check that a value is one value to LightGBM, which is given all parameters as one line of text.

    Behind a space a text could set parameters that are refused, at every party of a run.
    `InvalidArgumentError` if it is not, `UnsupportedParameterError` if it is of another type.
    """
    if value is None:  # LightGBM leaves the parameter out
        return
    for one in value if isinstance(value, (list, tuple, set, np.ndarray)) else [value]:
        if not isinstance(one, (str, int, float, np.number, np.bool_)):
            raise UnsupportedParameterError(f"{name}={shown(value)} must hold numbers and texts alone")
        text = one if isinstance(one, str) else ""
        if not text.isprintable() or any(character.isspace() or character in "=#" for character in text):
            raise InvalidArgumentError(
                f"{name}={shown(value)} must be printable and have no spaces, '=' or '#', after which "
                "LightGBM would read other parameters"
            )


def _whole(given: Mapping[str, Any], name: str) -> int:
    """A parameter of `_WHOLE`, also as a text, checked before anything is computed with it."""
    default, low, high = _WHOLE[name]
    value = given.get(name)
    try:
        number = default if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(f"{name}={shown(value)} must be an integer") from None
    return checked_integer(name, number, low, high)


def _of_objective(name: str, value: Any, accepted: Interval) -> dict[str, float]:
    """The objective's own parameter, LightGBM's default if it is not given."""
    return {
        name: checked_number(name, float(default_parameters()[name]) if value is None else value, accepted)
    }


def checked_objective(objective: Any) -> str:
    """LightGBM's own name of an objective, if private training has it."""
    return read_objective(objective)[0]


def read_objective(objective: Any) -> tuple[str, float | None]:
    """Name of an objective that private training has, and its own number, where brackets hold it."""
    name, bracket, inner = objective.partition("(") if isinstance(objective, str) else ("", "", "")
    for one in OBJECTIVES.values():
        if name in (one.name, *one.aliases) and bool(bracket) == one.labels_are_times:
            return one.name, _number_in(inner) if bracket else None
    others = [name for name in OBJECTIVES if name not in OF_ALL_TRAINERS]
    is_ranking = name.startswith(("lambdarank", "rank_xendcg", "xendcg", "xe_ndcg"))
    raise UnsupportedParameterError(
        f"objective={shown(objective)} is not supported by private training; accepted are "
        f"{', '.join(map(repr, OF_ALL_TRAINERS))}, and by NewtonBoost {', '.join(map(repr, others))}"
        + is_ranking
        * f"; {NO_RANKING}"
    )


def _number_in(brackets: str) -> float:
    """The scale in the text of `lgb_dp.AFT`, 0 for "auto"."""
    try:
        return 0.0 if brackets == f"{AUTO})" else float(brackets.removesuffix(")"))
    except ValueError:
        raise InvalidArgumentError(f"objective must be made by lgb_dp.AFT, got ({shown(brackets)}") from None


def check_known(name: str, value: Any, others: Iterable[str] = ()) -> None:
    """Raise an UnsupportedParameterError that suggests a name if neither LightGBM nor `others` has it."""
    known = main_names()
    if name in known or name in others:
        return
    similar = get_close_matches(name, [*known, *others], n=1)
    hint = f"; did you mean {similar[0]}?" if similar else ""
    raise UnsupportedParameterError(
        f"{quoted(name)}={shown(value)} is not supported: the parameter is unknown{hint}"
    )


def _monotone(constraints: Any) -> tuple[int, ...]:
    """Constraints as LightGBM takes them: a sequence, or numbers separated by commas."""
    if constraints is None:
        return ()
    values = constraints.split(",") if isinstance(constraints, str) else constraints
    try:
        signs = tuple(float(value) for value in values if str(value).strip())
    except (TypeError, ValueError):
        signs = (np.nan,)
    if not set(signs) <= {-1.0, 0.0, 1.0}:
        raise InvalidArgumentError(
            f"monotone_constraints must be 1, -1 or 0 for each feature, got {shown(constraints)}"
        )
    return tuple(int(sign) for sign in signs) if any(signs) else ()


def _given(parameters: Mapping[str, Any]) -> frozenset[str]:
    """Parameters that were set; depth is also given by num_leaves other than the default."""
    names = {name for name, value in parameters.items() if value is not None}
    if _whole(parameters, "max_depth") <= 0:
        names.discard("max_depth")
    if _whole(parameters, "num_leaves") != 31:
        names.add("max_depth")
    return frozenset(names)


def _alias_in(params: Mapping[str, Any], name: str) -> str:
    """The alias under which the user gave a parameter."""
    return next(alias for alias in params if resolve_aliases({alias: None}) == {name: None})


def _depth(given: Mapping[str, Any]) -> int:
    """Depth of the complete trees that max_depth and num_leaves describe."""
    depth, num_leaves = _whole(given, "max_depth"), _whole(given, "num_leaves")
    if depth <= 0:
        depth = DEFAULT_DEPTH if num_leaves == 31 else num_leaves.bit_length() - 1
    if num_leaves not in (31, 2**depth):
        raise UnsupportedParameterError(
            f"num_leaves={num_leaves} is not supported by private training with max_depth={depth}: trees are "
            f"complete and have {2**depth} leaves; accepted are {2**depth} and LightGBM's default, 31"
        )
    return depth


def _as_text(value: Any) -> str:
    """A value as LightGBM's model file writes it, numbers comparable."""
    if isinstance(value, (list, tuple, set, np.ndarray)):
        return ",".join(_as_text(v) for v in value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        value = value.lower() == "true"
    try:
        return repr(float(value))
    except (TypeError, ValueError):
        return str(value)
