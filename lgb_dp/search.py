"""Hyper-parameter search under one privacy budget.

Papernot and Steinke, "Hyperparameter Tuning with Renyi Differential Privacy" (ICLR 2022, arXiv 2110.03620):
run a private trial a *random* number K of times, each with settings drawn at random, and publish nothing but
the best.  With K from the logarithmic distribution (their truncated negative binomial with η = 0) this costs
little more than one trial, however many there are (theorem 2): if a trial is (λ, ρ(λ))-RDP, the search is
(λ, ρ(λ) + min over λ' of ((1 - 1/λ') ρ(λ') + log(1/γ)/λ') + log E[K]/(λ - 1))-RDP.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from gbdt_hosts.lightgbm import with_guarantee
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterSampler
from sklearn.utils.validation import check_is_fitted

from lgb_dp.accounting.bisection import geometric_mean, last_safe
from lgb_dp.accounting.gaussian import gaussian_epsilon
from lgb_dp.accounting.ledger import Cost
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.checks import PROPER_SHARE, Interval, checked_delta, checked_epsilon, checked_number
from lgb_dp.data.bins import is_data_frame
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.mechanisms.noise import release_gaussian
from lgb_dp.mechanisms.rng import SecureRandom

SCORE_STEPS = 2**14
"""Integer steps of a row's score between 0 and 1."""

_WORST_LOG_LIKELIHOOD = 4.0
"""Log-likelihoods below minus this count as this, so that a row's score is in [0, 1]."""

_WORST_ERROR = 0.25
"""Errors beyond this share of the label's bounds count as this."""


def logarithmic_gamma(mean: float) -> float:
    """γ of the logarithmic distribution P(K = k) = (1 - γ)^k / (k ln(1/γ)), its mean at most `mean`."""

    def keeps_to_mean(gamma: float) -> bool:
        return (1 / gamma - 1) / math.log(1 / gamma) <= mean  # falls in γ

    return last_safe(keeps_to_mean, 1.0 - 1e-12, 1e-12, middle=geometric_mean)


def draw_number_of_trials(gamma: float, random: SecureRandom) -> int:
    """One K of the logarithmic distribution, by inversion of 64 random bits (exact up to 2⁻⁵⁰)."""
    uniform = (int(random.words(1)[0]) + 0.5) * 2.0**-64
    k, term = 1, (1 - gamma) / math.log(1 / gamma)
    total = term
    while uniform > total and term > 2.0**-70:
        term *= (1 - gamma) * k / (k + 1)
        k += 1
        total += term
    return k


@lru_cache(maxsize=64)
def search_epsilon(mu: float, delta: float, mean_trials: float) -> float:
    """ε at `delta` of a search whose trials are μ-GDP (so (λ, λμ²/2)-RDP), by `dp_accounting`."""
    from dp_accounting import dp_event, rdp

    accountant = rdp.RdpAccountant()
    trial = dp_event.GaussianDpEvent(1.0 / mu)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(trial, mean_trials, 0))
    return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=64)
def trial_mu(epsilon: float, delta: float, mean_trials: float) -> float:
    """Largest μ of a trial such that the search keeps to (ε, δ), rounded down."""
    mu = last_safe(
        lambda mu: search_epsilon(mu, delta, mean_trials) <= epsilon,
        0.0,
        math.sqrt(2 * epsilon) + 1,
        max_steps=40,
    )
    if mu == 0.0:
        raise InvalidArgumentError(
            f"epsilon = {epsilon:g} is too small for a search of {mean_trials:g} trials"
        )
    return mu


class DPRandomizedSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Random search over an estimator's settings, under one budget for everything.

    Every row is put in the training or the test part, on its own, once for the whole search.  A trial draws
    settings, trains on the one part, and scores on the other with noise: the parts are disjoint, so a trial
    costs what the more expensive of the two does, and both spend all of its μ.  The best trial's model is the
    result; nothing else leaves the search, not even the number of trials.

    Parameters
    ----------
    estimator : DPLGBMClassifier or DPLGBMRegressor
        With ``method="newton"``.  The search sets its `epsilon` and `delta`.
    param_distributions : dict, or list of dicts
        As for scikit-learn's `RandomizedSearchCV`.
    epsilon, delta : float
        Budget of the whole search, under adding or removing one row.
    mean_trials : float
        Expected number of trials, at least 2; the number itself is drawn.
    test_share : float
        Probability with which a row is in the test part, in (0, 1).
    random_state : int, optional
        For tests: fixes all draws, which voids the guarantee.

    Attributes
    ----------
    best_estimator_ : estimator
        The best trial's; its `privacy_` is that of the search.
    best_params_ : dict
    privacy_ : PrivacyReport
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        mean_trials: float = 10.0,
        test_share: float = 0.2,
        random_state: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.mean_trials = mean_trials
        self.test_share = test_share
        self.random_state = random_state

    def fit(self, X: Any, y: Any, **fit_params: Any) -> DPRandomizedSearchCV:
        """Search; `fit_params` go to the estimator (``bounds=…`` and so on), row weights excepted.

        Raises
        ------
        InvalidArgumentError
            If an argument is out of range, or the estimator's method has no Gaussian accounting.
        """
        if getattr(self.estimator, "method", None) != "newton":
            raise InvalidArgumentError(
                "estimator must be a DPLGBMClassifier or DPLGBMRegressor with method='newton'"
            )
        mean_trials = checked_number("mean_trials", self.mean_trials, Interval(2, math.inf, "[)"))
        test_share = checked_number("test_share", self.test_share, PROPER_SHARE)
        for name in ("sample_weight", "eval_set"):
            if fit_params.get(name) is not None:
                raise InvalidArgumentError(f"{name} is not supported by DPRandomizedSearchCV")
        budget = checked_epsilon(self.epsilon), checked_delta(self.delta)
        mu = trial_mu(*budget, mean_trials)
        random = SecureRandom(self.random_state)
        y = np.asarray(y).reshape(-1)
        is_test = random.words(len(y)) < np.uint64(int(test_share * 2.0**64))
        train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
        best_score = -math.inf
        for _ in range(draw_number_of_trials(logarithmic_gamma(mean_trials), random)):
            seed = int(random.words(1)[0] >> np.uint64(32))
            (params,) = ParameterSampler(self.param_distributions, 1, random_state=seed)
            model = clone(self.estimator).set_params(**params)
            model.set_params(epsilon=gaussian_epsilon(mu, budget[1]), delta=budget[1])
            if self.random_state is not None:
                model.set_params(random_state=seed)
            model.fit(_rows(X, train), y[train], **fit_params)
            total = _row_scores(model, _rows(X, test), y[test], fit_params).sum(keepdims=True)
            score = float(release_gaussian(total, SCORE_STEPS / mu, random)[0])
            if score > best_score:
                best_score, self.best_estimator_, self.best_params_ = score, model, params
        self._settle(budget, mu)
        return self

    def _settle(self, budget: tuple[float, float], mu: float) -> None:
        """Put the search's guarantee in the place of the best trial's, in the model file too."""
        trial = self.best_estimator_.privacy_
        epsilon = search_epsilon(mu, budget[1], float(self.mean_trials))
        row = {
            "group": 0,
            "release": "best of random trials",
            "mechanism": "private selection",
            "epsilon": epsilon,
            "count": 1,
            "disjoint_sets_of_rows": 1,
        }
        notes = (*trial.notes, f"a single trial costs mu = {mu:.6g}")
        self.privacy_: PrivacyReport = replace(
            trial, epsilon=epsilon, delta=budget[1], ledger=(row,), notes=notes, cost=Cost(epsilon, budget[1])
        )
        text = self.best_estimator_.booster_.model_to_string(num_iteration=-1)
        guarantee = self.privacy_.to_dict()
        self.best_estimator_.booster_ = DPBooster(model_str=with_guarantee(text, guarantee))

    def predict(self, X: Any) -> NDArray[Any]:
        """The best estimator's prediction."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The best classifier's class probabilities."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict_proba(X))


def _rows(X: Any, rows: NDArray[np.int64]) -> Any:
    if is_data_frame(X):
        return X.iloc[rows]
    return np.asarray(X)[rows] if isinstance(X, (list, tuple)) else X[rows]


def _row_scores(model: Any, X: Any, y: NDArray[Any], fit_params: Mapping[str, Any]) -> NDArray[np.int64]:
    """Score of every row in steps, each in [0, SCORE_STEPS]: adding a row moves the sum by no more."""
    if hasattr(model, "predict_proba"):
        probability = model.predict_proba(X)[
            np.arange(len(y)), np.searchsorted(model.classes_, y).clip(max=len(model.classes_) - 1)
        ]
        loss = -np.log(np.maximum(probability, 1e-300)) / _WORST_LOG_LIKELIHOOD
    else:
        low, high = fit_params["label_bounds"]
        loss = np.minimum(np.abs(model.predict(X) - y) / (_WORST_ERROR * (high - low)), 1.0) ** 2
    steps = np.floor((1.0 - np.nan_to_num(loss, nan=1.0).clip(0, 1)) * SCORE_STEPS)
    return np.asarray(steps.astype(np.int64))
