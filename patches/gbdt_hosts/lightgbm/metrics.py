"""LightGBM's own metrics for scores it did not compute.

A throw-away Dataset whose initial score is the score to judge makes a booster
of no trees report every built-in metric exactly, in the result type of the
installed version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing import TypeAlias

    from lightgbm.basic import EvalResult, _LGBM_CustomEvalFunction, _LGBM_LabelType, _LGBM_WeightType

    CustomMetrics: TypeAlias = _LGBM_CustomEvalFunction | list[_LGBM_CustomEvalFunction] | None


def evaluate(
    params: Mapping[str, Any],
    dataset: lightgbm.Dataset,
    label: _LGBM_LabelType,
    weight: _LGBM_WeightType | None,
    score: NDArray[np.float64],
    name: str,
    feval: CustomMetrics = None,
) -> list[EvalResult]:
    """Evaluation results of raw scores.

    Parameters
    ----------
    params : mapping
        Parameters of the objective (``objective``, ``sigmoid``, ``num_class``) and metrics.
    dataset : lightgbm.Dataset
        Given to `feval` as its data; constructed, with as many rows as `score`.
    label, weight : array-like, shape (n_rows,)
        `weight` may be None.
    score : ndarray of float64, shape (n_rows,) or (n_rows, n_classes)
        Raw scores.
    name : str
        Name of the data in the results.
    feval : callable or list of callables, optional
        Custom metrics, called as LightGBM calls them.
    """
    data = lightgbm.Dataset(
        np.zeros((len(score), 1)),
        label=label,
        weight=weight,
        init_score=score.ravel(order="F"),
        params={"verbosity": -1},
    )
    booster = lightgbm.Booster({**params, "verbosity": -1}, data)
    booster.set_train_data_name(name)
    booster.train_set = dataset
    return booster.eval_train(feval)
