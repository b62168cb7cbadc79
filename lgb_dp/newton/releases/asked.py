"""Questions about private rows, which a run asks, and their answers with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lgb_dp.accounting.ledger import Release
from lgb_dp.boosting.training import Asking
from lgb_dp.mechanisms.noise import GaussianReserve, release_gaussian
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.trees import PublicTree

Part = tuple[NDArray[np.int64], float, SecureRandom | GaussianReserve]
"""Sums of the rows that are here, which are private; the planned standard deviation of the noise in each of
them, in steps; and the stream that it is drawn from if all rows are here."""


@dataclass(frozen=True, eq=False)
class Question:
    """A release that was charged, and this process's own answer before noise.

    Parameters
    ----------
    release : Release
    parts : sequence of Part
    trees : sequence of PublicTree
        Whose leaves are summed; none for counts.
    weight_steps : int
        Integer steps of the largest weight.
    n_rows : float or None
        Released number of rows, None before it is known.
    """

    release: Release
    parts: Sequence[Part]
    trees: Sequence[PublicTree]
    weight_steps: int
    n_rows: float | None


@dataclass(frozen=True, eq=False)
class Answer:
    """The sums of all rows with noise.

    Parameters
    ----------
    sums : sequence of ndarray of int64
        As in the question.
    factor : float
        Standard deviation of the noise over what was planned.
    """

    sums: Sequence[NDArray[np.int64]]
    factor: float = 1.0


def answered_here(question: Question) -> Asking[Answer]:
    """Add the noise of a question whose rows are all here, or on workers that are asked for exact sums."""
    yield from ()
    return Answer([release_gaussian(*part) for part in question.parts])
