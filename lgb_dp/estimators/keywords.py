"""LightGBM's names of an estimator's settings, and its other parameters that an estimator is given."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from gbdt_hosts.lightgbm import resolve_aliases
from lgb_dp.boosting.params import check_known
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.estimators.habits import WAYS_OUT

_OWN = {
    "num_iterations": "n_estimators",
    "learning_rate": "learning_rate",
    "max_depth": "max_depth",
    "lambda_l2": "reg_lambda",
    "max_bin": "max_bin",
    "num_threads": "n_jobs",
    "seed": "random_state",
    "verbosity": "verbose",
}
"""LightGBM's parameters that the estimators have under scikit-learn's names."""

_WHY = {
    "class_weight": WAYS_OUT["class_weight"],
    "categorical_feature": "pass categories to fit",
    "max_bin_by_feature": "pass a Dataset's max_bin by feature to lightgbm.train",
}


def with_keywords(
    own: Mapping[str, Any],
    defaults: Mapping[str, Any],
    keywords: Mapping[str, Any],
    of_fit: Container[str],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """An estimator's own settings, whatever their names, and LightGBM's other parameters.

    Parameters
    ----------
    own, defaults : mapping
        The estimator's settings and the constructor's defaults, by name.
    keywords : mapping
        Its other arguments.  None means not given, as for LightGBM.
    of_fit : container of str
        Arguments of `fit`, which its constructor does not take.

    Raises
    ------
    InvalidArgumentError
        If one setting is given twice, with different values.
    UnsupportedParameterError
        If a keyword is no parameter of LightGBM, or one that cannot be honoured.
    """
    settings, others, named = dict(own), {}, dict[str, str]()
    for name, value in keywords.items():
        if name in _WHY and value is not None:
            raise UnsupportedParameterError(
                f"{name}={value!r} is not supported by private training: {_WHY[name]}"
            )
        if name in _WHY:
            continue
        if name in of_fit:
            trainers = ", and of trainers such as lgb_dp.NewtonBoost" if name == "budget" else ""
            raise UnsupportedParameterError(f"{name} is an argument of fit{trainers}, not of the constructor")
        check_known(name, value, own)
        (main,) = resolve_aliases({name: value})
        if main not in _OWN:
            others[name] = value
            continue
        setting = _OWN[main]
        other = named.get(setting) or (setting if own[setting] != defaults[setting] else None)
        if value is None:
            continue
        if other is not None and settings[setting] != value:
            raise InvalidArgumentError(
                f"{other}={settings[setting]!r} and {name}={value!r} are the same setting; give one of them"
            )
        settings[setting], named[setting] = value, name
    return settings, others


def chooses_depth(params: Mapping[str, Any]) -> bool:
    """Whether LightGBM's parameters say by num_leaves how deep trees are."""
    return int(resolve_aliases(params).get("num_leaves") or 31) != 31
