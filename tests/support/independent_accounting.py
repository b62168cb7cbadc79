"""A second accountant: lower bounds of δ at an ε, from the distributions of outcomes of worst releases.

Outcomes are put into bins, which is post-processing, and privacy losses are rounded down, so that what is found
is never above the true δ; composition is `dp_accounting`'s.
"""

import math

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import norm

STEP = 1e-3
"""Of privacy losses; all of a composition lose no more than its number of releases times this."""


def _losses(there, without):
    """Of two distributions over the same outcomes, in either direction."""
    logs = [dict(enumerate(np.log(masses).tolist())) for masses in (without, there)]
    return pld.from_two_probability_mass_functions(
        *logs, pessimistic_estimate=False, value_discretization_interval=STEP, symmetric=False
    )


def gaussian(mu, probability=1.0, *, replaced=False):
    """A Gaussian release with a row (on a secret sample) against one without it, or with its opposite."""
    edges = np.linspace(-8.0 - mu, 8.0 + mu, 2001)

    def masses(mean):
        of_all = np.diff(norm.cdf(edges - mean)), np.diff(norm.cdf(edges))
        found = probability * of_all[0] + (1 - probability) * of_all[1]
        return np.maximum(found / found.sum(), 1e-300)

    return _losses(masses(mu), masses(-mu if replaced else 0.0))


def approximate(epsilon, delta, *, replaced=False):
    """The worst (ε, δ)-DP release: randomised response that tells everything with probability δ."""
    if replaced:
        epsilon, delta = 2 * epsilon, (1 + math.exp(epsilon)) * delta
    if delta >= 1:
        return None
    truth = (1 - delta) / (1 + math.exp(-epsilon))
    one = np.maximum([delta, truth, 1 - delta - truth, 1e-300], 1e-300)
    return _losses(one, one[[3, 2, 1, 0]])


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
    total = None
    for release in releases:
        if len(release) == 2:
            part = approximate(*release, replaced=replaced)
            if part is None:
                return 1.0
        else:
            part = gaussian(*release[:2], replaced=replaced).self_compose(release[2])
        total = part if total is None else total.compose(part)
    return 0.0 if total is None else float(total.get_delta_for_epsilon(epsilon))


def of_cost(cost):
    """The releases of a `Cost`."""
    pure = [(cost.epsilon, cost.delta)] if cost.epsilon or cost.delta else []
    whole = [(cost.mu, 1.0, 1)] if cost.mu else []
    return pure + whole + [(part.mu, part.probability, part.count) for part in cost.sampled]
