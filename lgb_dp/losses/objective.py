"""Facts of an objective: nothing but its entry and its loss asks for its name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lgb_dp.checks import Interval


def squared_error(error: NDArray[np.float64], worst: float, parameter: float) -> NDArray[np.float64]:
    """Of means; it tells which model's mean is the better one with a logarithmic link, too."""
    return np.asarray(error**2)


@dataclass(frozen=True)
class Objective:
    """An objective by LightGBM's name.

    ``make_loss(scale, gradient_clip, hessian_share, mu)`` gives NewtonBoost's loss, if it has one;
    ``error(errors, worst, parameter)``, for the search, gives losses in [0, 1] of errors in units of `worst`.
    """

    name: str
    make_loss: Callable[..., Any] | None = None
    aliases: tuple[str, ...] = ()
    parameter: tuple[str, Interval] | None = None  # its own one, by LightGBM's name, and accepted values
    is_regression: bool = True  # whether labels are numbers, not classes
    has_log_link: bool = False  # whether models predict exp(raw score)
    lowest_is_positive: bool = False  # whether label bounds must be positive, not only not negative
    labels_are_times: bool = False  # whether a label is two times between which an event comes
    has_targets: bool = False  # whether a label is a vector of `num_class` numbers
    unmeasured: str = ""  # what metrics do not know of the labels
    model_line: str = ""  # of the model file, with the fields of a `LabelScale`; by default the name
    reach: float = 1.0  # largest size of scores that other parties' tables cover, in the loss's unit
    rate_factor: float = 1.0  # of the automatic learning rate
    largest_rate: float = math.inf  # bound of that rate, times the factors of the round
    is_log_loss: bool = False  # whether a row's gradient has its hessian as variance: chance is known
    may_distil: bool = False  # whether structures may be distilled: for other losses nothing was gained
    is_deep_apart: bool = False  # whether leaves of columns apart are worth more levels where noise is small
    error: Callable[[NDArray[np.float64], float, float], NDArray[np.float64]] = squared_error

    def text(self, scale: float | str) -> str:
        """The objective as parameters give it: times have a scale in brackets, since LightGBM knows none."""
        return f"{self.name}({scale})" if self.labels_are_times else self.name


NO_RANKING = (
    "private training has no ranking: a row moves the gradients of its query; train the relevance of rows"
)

SEVERAL_TARGETS = "multiregression"
"""Name of the square loss of `num_class` targets at once."""

MAX_TARGETS = 100
"""Noise in each target grows with the root of their number."""

OBJECTIVES: dict[str, Objective] = {}
"""Every objective of private training, by name; `lgb_dp.losses.registry` has the entries."""
