"""One line in the log for each boosting round: its number, the metrics, the time left."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import xgboost


class RoundLines(xgboost.callback.TrainingCallback):
    """Logs a line after each round.

    Parameters
    ----------
    logger : logging.Logger
    n_rounds : int
        Rounds that were asked for.
    clock : callable
    """

    def __init__(
        self, logger: logging.Logger, n_rounds: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger, self._n_rounds, self._clock = logger, n_rounds, clock
        self._started = 0.0
        self._seconds: deque[float] = deque(maxlen=10)

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Note when the round starts."""
        self._started = self._clock()
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Log the round; the time left is estimated from the last few."""
        metrics = [
            f"{name}-{metric}:{values[-1]:.5f}"
            for name, of_set in evals_log.items()
            for metric, values in of_set.items()
        ]
        self._seconds.append(self._clock() - self._started)
        left = spoken(sum(self._seconds) / len(self._seconds) * (self._n_rounds - epoch - 1))
        shown = "".join(f", {metric}" for metric in metrics)
        self._logger.info("tree %d of %d%s, %s left", epoch + 1, self._n_rounds, shown, left)
        return False


def spoken(seconds: float) -> str:
    """A duration for people: ``"40 s"``, ``"12 min"``, ``"3.5 h"``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
