"""One line in the log for each boosting round, and in a file for a page: number, metrics, time left."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import xgboost

from gbdt_commons.files import append_lines, open_to_append
from veilboost.kept_files import ROUNDS_FILE


class RoundLog:
    """Logs a line after each of `n_rounds` rounds, and into a file in the progress's `folder`, begun anew."""

    def __init__(
        self, logger: logging.Logger, n_rounds: int, folder: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger, self._n_rounds, self._folder, self._clock = logger, n_rounds, folder, clock
        self._started = clock()
        self._seconds: deque[float] = deque(maxlen=10)

    def begin(self) -> None:
        """Note that a round starts; without it, a round starts when the one before has ended."""
        self._started = self._clock()

    def __call__(self, number: int, results: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
        """Log a round that has ended; the time left is estimated from the last few."""
        metrics = {
            f"{name}-{metric}": float(values[-1])
            for name, of_set in results.items()
            for metric, values in of_set.items()
        }
        now = self._clock()
        self._seconds.append(now - self._started)
        self._started = now
        left = spoken(sum(self._seconds) / len(self._seconds) * (self._n_rounds - number - 1))
        shown = "".join(f", {name}:{value:.5f}" for name, value in metrics.items())
        self._logger.info("tree %d of %d%s, %s left", number + 1, self._n_rounds, shown, left)
        # In the log's digits: the file tells nothing about rows that the log does not.
        digits = {name: float(f"{value:.5f}") for name, value in metrics.items()}
        line = {"round": number + 1, "of": self._n_rounds, "left": left, "metrics": digits}
        with suppress(OSError):  # a full disk ends no run for the sake of a page
            self._write(json.dumps(line), is_first=number == 0)

    def _write(self, line: str, is_first: bool) -> None:
        descriptor = open_to_append(self._folder / ROUNDS_FILE)
        try:
            if is_first:
                os.ftruncate(descriptor, 0)
            append_lines(descriptor, line + "\n")
        finally:
            os.close(descriptor)


class RoundLines(xgboost.callback.TrainingCallback):
    """XGBoost's callback for the log's lines."""

    def __init__(self, log: RoundLog) -> None:
        self._log = log

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Note when the round starts."""
        self._log.begin()
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Log the round."""
        self._log(epoch, evals_log)
        return False


def spoken(seconds: float) -> str:
    """A duration for people: ``"40 s"``, ``"12 min"``, ``"3.5 h"``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
