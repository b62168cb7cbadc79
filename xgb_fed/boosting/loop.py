"""What both training loops share: argument checks, callbacks, progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xgb_fed.errors import UnsupportedParameterError


def check_loop(rounds: Any, stopping: Any, callbacks: Sequence[Any], evals: Sequence[Any]) -> None:
    """Refuse rounds, early stopping or callbacks that the training loops cannot honour, by name."""
    if not (isinstance(rounds, (int, np.integer)) and rounds >= 1):
        raise ValueError(f"num_boost_round={rounds!r} must be an integer of at least 1")
    if stopping is not None and not evals:
        raise ValueError("early_stopping_rounds needs an evaluation set")
    if any(getattr(callback, "save_best", False) for callback in callbacks):
        raise UnsupportedParameterError("EarlyStopping(save_best=True) is not supported; use iteration_range")
