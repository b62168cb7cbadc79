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
    """An objective.

    Parameters
    ----------
    name : str
        LightGBM's.
    make_loss : callable or None
        ``make_loss(scale, gradient_clip, hessian_share, mu)`` gives NewtonBoost's loss, None if it has none.
    aliases : tuple of str
    parameter : (str, Interval) or None
        The objective's own parameter, by LightGBM's name, and the values that it accepts.
    is_regression : bool
        Whether labels are numbers, not classes.
    has_log_link : bool
        Whether models predict exp(raw score).
    lowest_is_positive : bool
        Whether label bounds must be positive, and not only not negative, with a logarithmic link.
    model_line : str
        Objective line of the model file, with the fields of a `LabelScale`; by default the name.
    reach : float
        Largest distance from 0 of scores that other parties' tables cover, in the loss's unit.
    rate_factor : float
        Of the automatic learning rate.
    largest_rate : float
        Bound of the automatic learning rate, times the factors of the round.
    is_log_loss : bool
        Whether the variance of a row's gradient is its hessian, so that chance is known.
    may_distil : bool
        Whether structures may be distilled: for other losses nothing was gained by it.
    is_deep_apart : bool
        Whether leaves of columns apart are worth more levels where noise is small.
    error : callable
        ``error(errors, worst, parameter)``: losses in [0, 1] of errors in units of `worst`, for the search.
    """

    name: str
    make_loss: Callable[..., Any] | None = None
    aliases: tuple[str, ...] = ()
    parameter: tuple[str, Interval] | None = None
    is_regression: bool = True
    has_log_link: bool = False
    lowest_is_positive: bool = False
    model_line: str = ""
    reach: float = 1.0
    rate_factor: float = 1.0
    largest_rate: float = math.inf
    is_log_loss: bool = False
    may_distil: bool = False
    is_deep_apart: bool = False
    error: Callable[[NDArray[np.float64], float, float], NDArray[np.float64]] = squared_error


OBJECTIVES: dict[str, Objective] = {}
"""Every objective of private training, by name; `lgb_dp.losses.registry` has the entries."""
