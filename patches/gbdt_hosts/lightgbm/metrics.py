"""LightGBM's own metrics for scores it did not compute.

A booster of no trees reports every built-in metric exactly, in the result type of the installed version, on
a Dataset whose initial score is the score to judge.  LightGBM copies initial scores when a Dataset is added
to a booster as validation data, so that one small booster serves many evaluations: the Dataset is added again
for each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
from lightgbm.basic import LightGBMError, _safe_call
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing import TypeAlias

    from lightgbm.basic import EvalResult, _LGBM_CustomEvalFunction, _LGBM_LabelType, _LGBM_WeightType

    CustomMetrics: TypeAlias = _LGBM_CustomEvalFunction | list[_LGBM_CustomEvalFunction] | None

_SCORES_PER_THREAD = 2**17
"""Below so many scores, waiting for other threads takes longer than they save."""

_KEPT_SCORES = 2**21
"""A booster keeps the scores of all its evaluations; after so many it is replaced."""

_MAX_EVALUATIONS = 64


_FLOAT64 = 1
"""C_API_DTYPE_FLOAT64 of LightGBM's C interface."""


class Evaluator:
    """The metrics of one data set, computed by LightGBM from raw scores.

    `params` are of the objective (``objective``, ``sigmoid``, ``num_class``) and metrics. The Dataset, which
    is constructed, is given to custom metrics as their data.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        dataset: lightgbm.Dataset,
        label: _LGBM_LabelType,
        weight: _LGBM_WeightType | None,
    ) -> None:
        n_rows, n_outputs = dataset.num_data(), int(params.get("num_class") or 1)
        # LightGBM's number of threads is that of the last call that named one, so all three do.
        quiet = {"verbosity": -1, "num_threads": 1 if n_rows * n_outputs < _SCORES_PER_THREAD else 0}
        self._params = {**params, **quiet}
        self._dataset = dataset
        # Any two rows do: LightGBM wants training data, whose bins others can share.  Classes need both
        # labels; some metrics of numbers refuse 0, and others what is above 1.
        has_classes = str(params.get("objective")).startswith(("binary", "multiclass"))
        two_labels = np.array([0 if has_classes else 1, 1])
        self._train = lightgbm.Dataset(np.zeros((2, 1)), label=two_labels, params=quiet)
        self._rows = lightgbm.Dataset(
            np.zeros((n_rows, 1)), label=label, weight=weight, reference=self._train, params=quiet
        )
        self._max_evaluations = int(np.clip(_KEPT_SCORES // max(1, n_rows * n_outputs), 1, _MAX_EVALUATIONS))
        self._booster: Any = None

    def evaluate(
        self, score: NDArray[np.float64], name: str, feval: CustomMetrics = None
    ) -> list[EvalResult]:
        """Evaluation results of raw scores, shape (n_rows,) or (n_rows, n_classes), and of custom metrics.

        Raises LightGBMError if LightGBM refuses a row, which its own error quotes and this one does not.
        """
        if self._booster is None or len(self._booster.valid_sets) == self._max_evaluations:
            self._booster = lightgbm.Booster(self._params, self._train)
        try:
            return self._evaluate(score, name, feval)
        except LightGBMError:
            pass
        # Outside of the except block, so that no logger finds the other error as the context of this one.
        raise LightGBMError(f"LightGBM's metrics cannot be computed on {name!r}")

    def _evaluate(self, score: NDArray[np.float64], name: str, feval: CustomMetrics) -> list[EvalResult]:
        self._rows.construct()
        _set_init_score(self._rows, score)
        self._booster.add_valid(self._rows, name)
        self._booster.valid_sets[-1] = self._dataset
        results: list[EvalResult] = self._booster._Booster__inner_eval(
            data_name=name, data_idx=len(self._booster.valid_sets), feval=feval
        )
        return results


def _set_init_score(data: lightgbm.Dataset, score: NDArray[np.float64]) -> None:
    """Let a Dataset copy its initial scores, without checks that take longer than a small set's metrics."""
    values = np.ascontiguousarray(score.ravel(order="F"), dtype=np.float64)
    pointer = ctypes.c_void_p(values.ctypes.data)
    _safe_call(
        lightgbm.basic._LIB.LGBM_DatasetSetField(  # type: ignore[attr-defined]
            data._handle, b"init_score", pointer, ctypes.c_int(values.size), ctypes.c_int(_FLOAT64)
        )
    )
