"""The attack curve: how well an attacker can tell from a result whether a unit was among the data.

An attacker who says "it was" wrongly with probability α (the false positive rate) says it rightly with
probability β(α) at most.  A mechanism is (ε, δ)-DP, in both directions, exactly if for every α
β ≤ e^ε α + δ and 1 - α ≤ e^ε (1 - β) + δ
(Wasserman and Zhou, JASA 2010, theorem 2.4; Kairouz, Oh and Viswanath, ICML 2015, theorem 2.1).  A report
implies such a pair for every ε, so that its curve is the lower envelope of straight lines.  Any number of
them is an upper bound of β; for μ-GDP they are the tangents of 1 - Φ(Φ⁻¹(1 - α) - μ) (Dong, Roth and Su,
"Gaussian Differential Privacy", JRSS B 2022, proposition 2.12).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lgb_dp.accounting.cost import Cost
from lgb_dp.accounting.gaussian import composed_mu, gaussian_delta

Curve = NDArray[np.float64]
"""False and true positive rates of the curve's vertices, ascending, shape (n_vertices, 2)."""

_TANGENTS = np.linspace(0.0, 6.0, 201)
"""Where tangents of a Gaussian curve touch it, as ε / μ.

Between two of them, h = 0.03 apart, the curve is overstated by at most the change of its slope times that
of α, over 8: about φ(0) h² μ / 8 < 0.00005 μ.
"""

_MAX_EPSILON = 700.0
"""Above it, e^ε is no float64, and (ε, δ) says no more than that β ≤ 1."""


class Guarantee(Protocol):
    """The parts of a `PrivacyReport` from which the curve follows."""

    @property
    def private(self) -> bool:
        """Whether anything is guaranteed."""

    @property
    def delta(self) -> float:
        """δ of the guarantee."""

    @property
    def cost(self) -> Cost:
        """Cost of all releases."""


def attack_curve(report: Guarantee) -> Curve:
    """The largest true positive rate at every false positive rate, never understated.

    Between the vertices the curve is straight.  If the report is not private, the attacker may be always
    right: the rate is 1 everywhere.

    Parameters
    ----------
    report : PrivacyReport
        Or what else has a `Guarantee`.

    Returns
    -------
    ndarray of float64, shape (n_vertices, 2)
    """
    lines = [(0.0, 1.0)]
    for epsilon, delta in _implied(report) if report.private else ():
        if epsilon <= _MAX_EPSILON:
            lines.append((math.exp(epsilon), delta))
            lines.append((math.exp(-epsilon), -math.expm1(-epsilon) + delta * math.exp(-epsilon)))
    slopes, intercepts = np.array(lines).T
    fpr = np.array([0.0, *_turns(lines), 1.0])
    tpr = (np.outer(fpr, slopes) + intercepts).min(axis=1) * (1 + 1e-15)
    return np.stack([fpr, tpr.clip(0.0, 1.0)], axis=1)


def _implied(report: Guarantee) -> Iterator[tuple[float, float]]:
    """Pairs (ε, δ) that hold, the report's own among them."""
    cost = report.cost
    yield cost.at(report.delta - cost.delta)
    if cost.is_gaussian:
        # A release on a secret sample costs at most what it costs on all rows.
        mu = composed_mu([cost.mu, *(part.mu * math.sqrt(part.count) for part in cost.sampled)])
        for epsilon in (mu * _TANGENTS).tolist():
            yield cost.epsilon + epsilon, cost.delta + gaussian_delta(epsilon, mu)


def _turns(lines: Iterable[tuple[float, float]]) -> list[float]:
    """Where in (0, 1) the lowest of the lines, of (slope, intercept), passes to another one."""
    lowest: list[tuple[float, float, float]] = []  # from where on, slope, intercept
    for slope, intercept in sorted(lines, key=lambda line: (-line[0], line[1])):
        start = -math.inf
        while lowest:
            before, steeper, below = lowest[-1]
            start = math.inf if steeper == slope else (intercept - below) / (steeper - slope)
            if start > before:
                break
            lowest.pop()
            start = -math.inf
        if start < math.inf:
            lowest.append((start, slope, intercept))
    return [start for start, _, _ in lowest if 0.0 < start < 1.0]


def true_positive_rate(curve: Curve, false_positive_rate: float) -> float:
    """The share that an attacker finds at most with this rate of errors among those not in the data."""
    return float(np.interp(false_positive_rate, curve[:, 0], curve[:, 1]))


def chance_of_telling(curve: Curve) -> float:
    """How often an attacker is right at most, asked at even odds whether a unit was among the data."""
    return float((1.0 + (curve[:, 1] - curve[:, 0]).max()) / 2)
