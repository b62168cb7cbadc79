"""The common part of estimators whose rows are on workers: NewtonBoost alone, and public bounds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.data.provenance import Provenance
from lgb_dp.errors import NotPrivateWarning, UnsupportedParameterError
from lgb_dp.estimators.base import DPLGBMModel
from lgb_dp.estimators.enclosing_fits import surroundings
from lgb_dp.estimators.evaluation import FitEvaluation

_Local = TypeVar("_Local", bound=DPLGBMModel)


@dataclass(frozen=True)
class FitOnWorkers:
    """The order for a fit: parameters for `lightgbm.train`, and declarations of the Dataset."""

    trainer: PrivateTrainer
    params: dict[str, Any]
    n_rounds: int
    callbacks: Sequence[Callable[..., Any]]
    evaluation: FitEvaluation
    provenance: Provenance
    declarations: dict[str, Any]


class OnWorkers(DPLGBMModel):
    """Base of the estimators whose rows are on workers; `_own` are parameters that no local one has."""

    _own: ClassVar[tuple[str, ...]]

    def _fit_to(self, of_rows: dict[str, Any], n_classes: int, provenance: Provenance) -> FitOnWorkers:
        """Check the settings; `of_rows` are all arguments that users gave beside rows and labels."""
        evaluation = FitEvaluation.taken_from(of_rows)
        budget, callbacks = of_rows.pop("budget"), of_rows.pop("callbacks")
        if self.method != "newton":
            raise UnsupportedParameterError(
                f"method={self.method!r} is not supported on a cluster; 'newton' is"
            )
        if self.auto_bounds is not None:
            raise UnsupportedParameterError(
                f"auto_bounds={self.auto_bounds!r} is not supported on a cluster; pass bounds, which "
                "lgb_dp.private_bounds may have computed on a sample with no other use"
            )
        settings = self._read_settings(budget)
        params = {**settings.params, **self._objective_params(settings.objective, n_classes)}
        if evaluation.metric_names() is not None:
            params["metric"] = evaluation.metric_names()
        around = surroundings(self)
        for text in (*around.leaks, *around.notes):
            warnings.warn(text, NotPrivateWarning, stacklevel=5)
        declared = {"label_overflow": self.label_overflow, "max_bin": settings.max_bin, "spacing": "mixed"}
        return FitOnWorkers(
            settings.trainer,
            params,
            settings.n_rounds,
            callbacks or (),
            evaluation,
            around.joined(provenance),
            {**of_rows, **declared},
        )

    def _as_local(self, kind: type[_Local]) -> _Local:
        """An estimator of one process with the same parameters and fitted attributes."""
        local = kind(**{name: value for name, value in self.get_params().items() if name not in self._own})
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_") and name[0] != "_"}
        local.__dict__.update(fitted)
        return local
