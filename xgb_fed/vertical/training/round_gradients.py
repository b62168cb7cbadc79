"""Gradients and hessians of the rows that are trained on, round by round."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_hosts.xgboost.gradients import CustomObjective, custom_gradients
from gbdt_hosts.xgboost.margins import words_of
from gbdt_hosts.xgboost.targets import Targets
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.objectives import Gradients, XGBoostObjective
from xgb_fed.vertical.growing.gradients import apart_from_zero, without_floor


def has_floor(objective: XGBoostObjective, obj: CustomObjective | None) -> bool:
    """Whether rows may have tiny hessians; for a user's own objective this is unknown."""
    return objective.has_floor or obj is not None


class _FirstGradients(NamedTuple):
    """Gradients at the margins before the first tree."""

    margin: NDArray[np.float32]
    g: NDArray[np.float32]
    h: NDArray[np.float32]


class RoundGradients:
    """Gradients of XGBoost's objective, or of the user's own, `obj`, as XGBoost's argument of this name.

    Those that are no closed form are computed once before training, so that faults of labels show before the
    parties are asked for anything: at `first`, the margins before the first tree.  `digest` is that of the
    gradients there of a user's own objective, by which it is known again.  The seed is that of the pairs that
    are drawn for ranking.  Raises the errors of `at`.
    """

    def __init__(
        self,
        objective: XGBoostObjective,
        targets: Targets,
        first: NDArray[np.float32],
        seed: int,
        obj: CustomObjective | None = None,
    ) -> None:
        self._objective, self._is_own = objective, obj is not None
        self._has_floor = has_floor(objective, obj)
        self._compute = objective.gradients_of(targets, seed) if obj is None else _own(obj, targets)
        self._tried: _FirstGradients | None = None
        self.digest: str | None = None
        if obj is not None:
            self._tried = _FirstGradients(first, *self.at(first, 0))
            self.digest = digest_of(self._tried.g, self._tried.h)
        elif not objective.is_closed_form:
            self.at(first, 0)

    @property
    def n_draws(self) -> int:
        """Random numbers of XGBoost's stream that the gradients of a round take."""
        return 0 if self._is_own else self._objective.n_draws

    def at(self, margin: NDArray[np.float32], draw: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gradients and hessians of a round, shape (n_rows, n_classes).

        Draws depend on `draw`: how many random numbers were taken before the round if its gradients take any
        (`n_draws`), else the number of the round.

        Raises `InvalidDataError` if XGBoost refuses the labels, numbers are not finite, hessians are
        negative, or margins are where a hessian exceeds all others together beyond rounding.
        """
        if not self._is_own and self._objective.name == "reg:squaredlogerror" and (margin <= -1).any():
            raise InvalidDataError(
                "reg:squaredlogerror: a margin is -1 or less, where XGBoost's hessians are up to 10^12 and "
                "its sums mere rounding; a lower learning_rate or max_delta_step keeps margins above"
            )
        tried, self._tried = self._tried, None
        if tried is not None and np.array_equal(margin, tried.margin):
            # A function may count its calls: XGBoost calls it once per round.
            return tried.g, tried.h
        source = "obj" if self._is_own else "labels or weights"
        try:
            g, h = self._compute(margin, draw)
        except ValueError as error:
            what = "obj" if self._is_own else self._objective.name
            raise InvalidDataError(f"label of active_data, {what}: {words_of(error)}") from error
        if not (np.isfinite(g).all() and np.isfinite(h).all()):
            raise InvalidDataError(f"{source} give gradients that are infinite in float32")
        if (h < 0).any():
            # XGBoost's own subtraction for survival:cox leaves some where margins are far apart.
            raise InvalidDataError(
                f"{source} give negative hessians for {self._objective.name}, which are not supported; a "
                "lower learning_rate or max_delta_step keeps margins closer together"
            )
        if not self._is_own and self._objective.name == "survival:cox":
            h = apart_from_zero(h)
        return g, (without_floor(g, h) if self._has_floor else h)


def _own(obj: CustomObjective, targets: Targets) -> Gradients:
    data = targets.matrix()
    return lambda margin, _: custom_gradients(obj, data, margin)
