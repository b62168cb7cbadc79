"""The knowledge and the automatic settings of a run that follow from its first release."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lgb_dp.losses.level import Level
from lgb_dp.losses.loss import Start
from lgb_dp.losses.objective import OBJECTIVES
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.held_out_rows import HeldOutSteps, can_hold_out
from lgb_dp.newton.separation import Separation
from lgb_dp.newton.settings import automatic_rate, exact_rate, nu_of_rate
from lgb_dp.newton.splits.feature_histograms import FeatureHistograms
from lgb_dp.newton.splits.random import PublicSplits
from lgb_dp.newton.step_size import StepSize
from lgb_dp.newton.steps import Steps


@dataclass(frozen=True)
class Beginning:
    """The knowledge of a training run from its first release on.

    Parameters
    ----------
    start : Start
    prior : ndarray of float64, shape (n_outputs,)
        Added to the start scores; zeros where training continues a model.
    splits : PublicSplits
    steps : Steps
    separation : Separation or None
        Whether releases stand out of noise and chance; None where chance is not known.
    level : Level or None
        The release that ends the run, if it is planned.
    """

    start: Start
    prior: NDArray[np.float64]
    splits: PublicSplits
    steps: Steps
    separation: Separation | None
    level: Level | None


def chosen_steps(
    given_rate: float | None,
    n_rounds: int,
    objective: str,
    weight_steps: int,
    *,
    balanced: float,
    can_see_rows: bool,
    n_rows: float,
    mu: float,
    may_end: bool,
    largest_rate: float,
) -> Steps:
    """The length of steps: of a given learning rate, or of one that follows from released numbers.

    Parameters
    ----------
    given_rate : float or None
    n_rounds : int
    objective : str
    weight_steps : int
    balanced : float
        Released number of rows, as `balanced_rows` counts them.
    can_see_rows : bool
        Whether splits are fitted to the rows themselves, without privacy.
    n_rows, mu : float
        Released number of rows, and μ of the run by the noise that leaf sums have.
    may_end : bool
        As of `StepSize`.
    largest_rate : float
        Bound of the rate.
    """
    rate, size = given_rate, None
    if rate is None and can_see_rows:
        rate = exact_rate(balanced, n_rounds)
    elif rate is None:
        rate = automatic_rate(nu_of_rate(n_rows, mu), n_rounds, objective)
        size = StepSize(n_rounds, objective, weight_steps, may_end=may_end)
    return Steps(rate, size, min(OBJECTIVES[objective].largest_rate, largest_rate))


def held_out_steps(
    histograms: FeatureHistograms, rows_per_leaf: float, std: float, n_rounds: int, random: SecureRandom
) -> HeldOutSteps | None:
    """Bounds of the learning rate by held-out rows, where they are enough to tell and divide well."""
    if not can_hold_out(histograms, rows_per_leaf, std):
        return None
    return HeldOutSteps(n_rounds, int(random.words(1)[0]))


def separation_of(objective: str, n_rounds: int, start: Start, subsample: float) -> Separation | None:
    """The test of whether anything separates, for labels that are classes, each row's on its own."""
    return Separation(n_rounds, start, subsample) if OBJECTIVES[objective].is_log_loss else None
