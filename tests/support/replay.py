"""The privacy loss of a fit of MBoost: what two data sets' releases tell apart, given the same outputs.

One training is run with drawn outputs, the other is made to give the same outputs.  Of every release the
true values are recorded, so that its largest log-ratio of probabilities is computed and not estimated.  A
mechanism is ε-DP if and only if no pair of neighbours and no outputs have a loss above ε.
"""

import warnings

import lightgbm as lgb
import numpy as np
from scipy.special import log_softmax

import lgb_dp
from gbdt_kernels.draws import of_candidates
from lgb_dp.mboost import trainer as mboost


class Outputs:
    """Outputs of the releases of one training, drawn at first and then given again."""

    def __init__(self, rng):
        self.rng = rng
        self.given = []
        self.start()

    def start(self):
        self.true_values = []
        self.next = 0

    def select(self, utilities, random, n_threads=0, repeats=None):
        if repeats is not None:
            utilities = of_candidates(utilities, repeats)
        self.true_values.append(("select", utilities.copy()))
        return self._give(lambda: self.rng.integers(0, utilities.shape[1], len(utilities)))

    def noised(self, training, sums, what, epsilon, sensitivity, group):
        training.ledger.charge(lgb_dp.accounting.ledger.Release(what, "discrete Laplace", epsilon, group, 0))
        self.true_values.append(("noise", sums.astype(np.int64), epsilon / sensitivity))
        spread = self.rng.choice([0, 1, 30, 1000]) * sensitivity
        return self._give(lambda: sums + self.rng.integers(-spread, spread + 1, sums.shape))

    def _give(self, draw):
        if self.next == len(self.given):
            self.given.append(draw())
        self.next += 1
        return self.given[self.next - 1]


def true_values(monkeypatch, outputs, data, trainer, params, n_rounds):
    """What every release of a fit read, and its report."""
    outputs.start()
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", lgb_dp.PrivacyLeakWarning)
        patch.setattr(mboost, "select", outputs.select)
        patch.setattr(
            mboost.MBoostTraining, "noised", lambda self, *args, **kwargs: outputs.noised(self, *args)
        )
        booster = lgb.train({"verbosity": -1, **params}, data, n_rounds, callbacks=[trainer])
    return outputs.true_values, booster.privacy


def loss(ours, theirs):
    """Largest log-ratio of the probabilities of any output of one release, over all its nodes together."""
    if ours[0] == "noise":
        return float(np.abs(ours[1] - theirs[1]).sum() * ours[2])
    change = log_softmax(ours[1], axis=1) - log_softmax(theirs[1], axis=1)
    return float(np.abs(change).max(axis=1).sum())


def privacy_loss(monkeypatch, seed, data_with, data_without, trainer, params, n_rounds):
    """Loss of a whole training, and the ε it reports."""
    outputs = Outputs(np.random.default_rng(seed))
    args = (trainer, params, n_rounds)
    ours, report = true_values(monkeypatch, outputs, data_with, *args)
    theirs, other = true_values(monkeypatch, outputs, data_without, *args)
    assert report.epsilon == other.epsilon
    return sum(loss(a, b) for a, b in zip(ours, theirs, strict=True)), report.epsilon
