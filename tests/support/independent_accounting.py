"""A second accountant: lower bounds of δ at an ε, from the distributions of outcomes of worst releases.

Outcomes are put into bins, which is post-processing, privacy losses are rounded down, and those out of range
are left out, so that what is found is never above the true δ.
"""

import math

import numpy as np
from scipy.signal import fftconvolve
from scipy.stats import norm

STEP = 2.0**-11
"""Of privacy losses."""
ROUNDING = 1e-13
"""Of the sums, in probability."""


def gaussian(mu, probability=1.0, *, replaced=False):
    """Outcomes of a Gaussian release with a row (on a secret sample), and without it or with its opposite."""
    edges = np.linspace(-8.0 - mu, 8.0 + mu, 20_001)

    def masses(mean):
        return probability * _normal(edges - mean) + (1 - probability) * _normal(edges)

    return masses(mu), masses(-mu if replaced else 0.0)


def _normal(edges):
    """Probabilities between edges, without cancellation in either tail."""
    below, above = norm.cdf(edges), norm.sf(edges)
    return np.maximum(np.where(edges[1:] <= 0, np.diff(below), -np.diff(above)), 1e-300)


def approximate(epsilon, delta, *, replaced=False):
    """Outcomes of the worst (ε, δ)-DP release: randomised response that tells all with probability δ."""
    if replaced:
        epsilon, delta = 2 * epsilon, min(1.0, (1 + math.exp(epsilon)) * delta)
    truth = (1 - delta) / (1 + math.exp(-epsilon))
    one = np.array([delta, truth, 1 - delta - truth, 0.0])
    return one, one[[3, 2, 1, 0]]


def _losses(one, other):
    """Probability of every loss: from which step on, of each step, and of an infinite one."""
    finite = (one > 0) & (other > 0)
    steps = np.floor(np.log(one[finite] / other[finite]) / STEP).astype(np.int64)
    low = int(steps.min())
    return low, np.bincount(steps - low, one[finite]), float(one[other == 0].sum())


def lower_delta(epsilon, releases, *, replaced=False):
    """δ at ε of releases together, from below.

    Parameters
    ----------
    epsilon : float
    releases : sequence of tuple
        (mu, probability, count) of Gaussian ones, (ε, δ) of others.
    replaced : bool
        Whether a row is replaced, or else added or removed.
    """
    found = 0.0
    for turn in (1, -1):
        low, masses, infinite = 0, np.ones(1), 0.0
        for release in releases:
            kind, count = (approximate, 1) if len(release) == 2 else (gaussian, release[2])
            part = _losses(*kind(*release[:2], replaced=replaced)[::turn])
            for _ in range(count):
                low, masses = low + part[0], fftconvolve(masses, part[1])
                infinite += part[2] - infinite * part[2]
        loss = (low + np.arange(len(masses))) * STEP
        gain = np.where(loss > epsilon, -np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0)
        found = max(found, float(masses @ gain) + infinite)
    return max(0.0, found - ROUNDING)


def of_cost(cost):
    """The releases of a `Cost`."""
    pure = [(cost.epsilon, cost.delta)] if cost.epsilon or cost.delta else []
    whole = [(cost.mu, 1.0, 1)] if cost.mu else []
    return pure + whole + [(part.mu, part.probability, part.count) for part in cost.sampled]
