"""Hyper-parameter search under one privacy budget.

Papernot and Steinke, "Hyperparameter Tuning with Renyi Differential Privacy" (ICLR 2022, arXiv 2110.03620):
run a private trial a *random* number K of times, each with settings drawn at random, and publish nothing but
the best.  With K from the logarithmic distribution (their truncated negative binomial with η = 0) this costs
little more than one trial, however many there are (theorem 2): if a trial is (λ, ρ(λ))-RDP, the search is
(λ, ρ(λ) + min over λ' of ((1 - 1/λ') ρ(λ') + log(1/γ)/λ') + log E[K]/(λ - 1))-RDP.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterSampler
from sklearn.utils.validation import check_is_fitted

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_commons.tables.frames import is_table
from gbdt_commons.tables.numbers import canonical
from gbdt_hosts.lightgbm import resolve_aliases, with_guarantee
from lgb_dp.accounting.budget import Budget, chargeable, checked_budget
from lgb_dp.accounting.cost import Cost, granted, total_cost
from lgb_dp.accounting.gaussian import gaussian_epsilon, geometric_mean, last_safe
from lgb_dp.accounting.report import PrivacyReport, checked_reports, compose
from lgb_dp.accounting.unit import Unit
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.checks import (
    PROPER_SHARE,
    Interval,
    checked_delta,
    checked_epsilon,
    checked_number,
    checked_numbers,
)
from lgb_dp.data.arguments import DECLARE_CATEGORIES
from lgb_dp.data.classes import as_labels, class_numbers, mapped_labels
from lgb_dp.data.groups import GroupWeight, checked_unit, draw_kept_rows, draw_words, rows_of
from lgb_dp.data.tables import as_frame
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.estimators.rows import as_matrix
from lgb_dp.estimators.survival import DPLGBMSurvival
from lgb_dp.losses.objective import OBJECTIVES
from lgb_dp.mechanisms.noise import release_gaussian
from lgb_dp.mechanisms.rng import SecureRandom

SCORE_STEPS = 2**14
"""Integer steps of a row's score between 0 and 1."""

_WORST_LOG_LIKELIHOOD = 4.0
"""Log-likelihoods below minus this count as this, so that a row's score is in [0, 1]."""

_WORST_ERROR = 0.25
"""Errors beyond this share of the label's bounds count as this."""


def row_scores(model: Any, X: Any, y: NDArray[Any], fit_params: Mapping[str, Any]) -> NDArray[np.int64]:
    """Score of every row in steps, each in [0, SCORE_STEPS]: adding a row moves the sum by no more."""
    if not len(y):
        return np.zeros(0, dtype=np.int64)
    # Rows are private: no value of theirs may raise an error.
    how = {"accept_undeclared": as_frame(X).columns} if is_table(X) else {}
    if is_classifier(model):
        code = class_numbers(as_labels(y), model.classes_)
        of_class = model.predict_proba(X, **how)[np.arange(len(y)), np.nan_to_num(code).astype(np.int64)]
        probability = np.where(np.isnan(code), 0.0, of_class)
        loss = -np.log(np.maximum(probability, 1e-300)) / _WORST_LOG_LIKELIHOOD
    else:
        low, high = fit_params["label_bounds"]
        worst = _WORST_ERROR * (high - low)
        error = np.clip((np.clip(y, low, high) - model.predict(X, **how)) / worst, -1.0, 1.0)
        own = float(model.booster_.params.get("alpha", 0.9))
        loss = OBJECTIVES[model.objective_].error(error, worst, own)
    steps = np.floor((1.0 - np.nan_to_num(loss, nan=1.0).clip(0, 1)) * SCORE_STEPS)
    return np.asarray(steps.astype(np.int64))


_NOT_SEARCHED = frozenset({"method", "random_state", "epsilon", "delta", "budget"})
_OF_GROUPS = frozenset({"groups", "rows_per_group", "group_weight"})
_NOT_PASSED_ON = _OF_GROUPS | {
    *("X", "y", "sample_weight", "eval_set", "eval_metric", "public_eval_set", "callbacks", "budget"),
    *("eval_names", "eval_sample_weight", "eval_init_score", "eval_X", "eval_y"),
    *("init_score", "public_init_score", "init_model"),
}
_FITTED = ("best_estimator_", "best_params_", "privacy_")
_WHY: Mapping[str, str] = {
    "cv": "every row is in the training or the test part of all trials, as test_share says",
    "scoring": "trials are compared by a noised sum of bounded row scores",
    "n_iter": "the number of trials is drawn, and must stay secret; pass its mean as mean_trials",
    "n_jobs": "trials run one after the other; give n_jobs to the estimator",
    "refit": "the best trial's model is the result: another fit would need a budget of its own",
    "return_train_score": "scores of the training part would be further releases",
    "error_score": "a trial that fails ends the search, whose budget stays charged",
    "pre_dispatch": "trials run one after the other",
    "categorical_feature": DECLARE_CATEGORIES,
    "verbose": "output of trials would tell their number",
}
"""Parameters of scikit-learn's search that this one has not, and the reasons."""


@dataclass(frozen=True)
class _Trial:
    """An estimator with settings drawn at random, silent in the search; `verbosity` is for after it."""

    model: Any
    params: Mapping[str, Any]
    verbosity: Mapping[str, Any]


@dataclass(frozen=True)
class _SearchRows:
    """The rows of the training or the test part, and the number of each one's person if there are any."""

    rows: NDArray[np.int64]
    person: NDArray[np.int64] | None


def _is_alias(name: str, parameter: str) -> bool:
    """Whether LightGBM, or scikit-learn, calls a parameter by a name."""
    return parameter in resolve_aliases({name: None})


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
        raise InvalidArgumentError(f"epsilon={epsilon:g} is too small for a search of {mean_trials:g} trials")
    return mu


class DPRandomizedSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Random search over an estimator's settings, under one budget for everything.

    Every row (every person, where persons have several rows) is put in the training or the test part, on its
    own, once for the whole search.  A trial draws settings, trains on the one part, and scores on the other
    with noise: the parts are disjoint, so a trial costs what the more expensive of the two does, and both
    spend all of its μ.  The best trial's model is the result; nothing else leaves the search, not even the
    number of trials: `cv_results_` and `best_score_` do not exist, and an `AttributeError` says why.

    Parameters
    ----------
    estimator : DPLGBMClassifier or DPLGBMRegressor
        With ``method="newton"``.  The search sets its `epsilon` and `delta`.  A `random_state` of its own
        voids the guarantee, as that of the search does.
    param_distributions : dict, or list of dicts
        As for scikit-learn's `RandomizedSearchCV`; not of `method`, `random_state`, `epsilon` and `delta`.
    epsilon, delta : float
        Budget of the whole search, under adding or removing one row (one person with `groups`).
    mean_trials : float
        Expected number of trials, at least 2; the number itself is drawn.
    test_share : float
        Probability with which a row, or a person, is in the test part, in (0, 1).
    random_state : int, optional
        For tests: fixes all draws, which voids the guarantee.
    **others : object
        None is accepted: parameters of `RandomizedSearchCV` such as `cv` and `scoring` are refused by name.

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
        **others: Any,
    ) -> None:
        for name, value in others.items():
            raise UnsupportedParameterError(
                f"{name}={value!r} is not supported by DPRandomizedSearchCV"
                f"{': ' + _WHY[name] if name in _WHY else ''}"
            )
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.mean_trials = mean_trials
        self.test_share = test_share
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        rows_per_group: int | None = None,
        group_weight: GroupWeight | None = None,
        paid_for: Sequence[PrivacyReport] = (),
        budget: Budget | None = None,
        **fit_params: Any,
    ) -> DPRandomizedSearchCV:
        """Search.

        A search that is aborted, by an error or by the user, leaves no fitted attribute, neither its own nor
        those of an earlier search.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        y : array-like, shape (n_rows,)
        groups, rows_per_group, group_weight
            The person of each row, how many rows of a person are used, and how they are weighted, as for
            `lgb_dp.Dataset`: the guarantee then covers persons.  The rows are chosen once, for all trials.
        paid_for : sequence of PrivacyReport
            Cost of public-looking knowledge of these rows, such as `lgb_dp.private_bounds`' report;
            charged once, to the search.
        budget : Budget, optional
            Pays for the whole search before any row is read: its (ε, δ), which come from the budget's
            `pure_epsilon` and `approximate_delta`, and what of `paid_for` it has not paid yet.
        **fit_params
            For the estimator's `fit`: ``bounds=…`` and so on.  Row weights, evaluation sets and callbacks,
            which would see every trial, are not accepted.

        Raises
        ------
        InvalidArgumentError
            If an argument is out of range, the estimator's method has no Gaussian accounting, a setting is
            not one that can be searched, or a report of `paid_for` is of another unit than the search.
        ArgumentTypeError
            If `paid_for` holds something else than reports, `budget` is not a Budget, or `groups` are of
            several kinds.
        BudgetExceededError
            If the budget does not suffice.
        """
        for name in _FITTED:
            self.__dict__.pop(name, None)
        paid_for = checked_reports(paid_for)
        unit = checked_unit(groups, rows_per_group, group_weight)
        mean_trials, test_share, limits = self._checked_arguments(paid_for, fit_params, unit)
        if budget is not None:
            limits = granted(limits[0]), granted(limits[1])
        mu = trial_mu(*limits, mean_trials)
        random = SecureRandom(self.random_state)
        n_trials = draw_number_of_trials(logarithmic_gamma(mean_trials), random)
        seeds = [int(word >> np.uint64(32)) for word in random.words(n_trials)]
        trials = [self._trial(seed, gaussian_epsilon(mu, limits[1]), limits[1]) for seed in seeds]
        charged = self._pay(checked_budget(budget), limits, paid_for, unit)
        # All of X and y, since an error in one part only would tell in which part a row is.
        X = as_matrix(X)
        if scipy.sparse.issparse(X):
            X = canonical(X, scipy.sparse.csr_matrix, "X", InvalidArgumentError)
        y, classes = mapped_labels(y, fit_params.get("classes"))
        fit_params |= {} if classes is None else {"classes": classes}
        y = as_labels(y) if is_classifier(self.estimator) else checked_numbers("y", y).reshape(-1)
        n_rows = X.shape[0]
        if len(y) != n_rows:
            raise InvalidArgumentError(f"y has {len(y)} labels; X has {n_rows} rows")
        train, test = divided(groups, n_rows, unit, test_share, random)
        if train.person is not None:
            of_groups = {"rows_per_group": rows_per_group, "group_weight": group_weight}
            fit_params = {**fit_params, "groups": train.person, **of_groups}
        scored = []
        for trial in trials:
            with warnings.catch_warnings(record=True) as caught:  # as many as trials would tell their number
                warnings.simplefilter("always")
                trial.model.fit(rows_of(X, train.rows), y[train.rows], **fit_params)
            with warnings.catch_warnings(), silent_arithmetic():  # whatever a row makes NumPy say
                warnings.simplefilter("ignore")
                scores = row_scores(trial.model, rows_of(X, test.rows), y[test.rows], fit_params)
            if test.person is not None and group_weight == "mean":
                scores = mean_shares(scores, test.person)
            largest = unit.row_costs * SCORE_STEPS  # what one row, or all of a person's rows, can add
            score = float(release_gaussian(scores.sum(keepdims=True), largest / mu, random)[0])
            scored.append((score, trial, caught))
        _, best, said = max(scored, key=itemgetter(0))  # the first of equal ones
        for warning in said:
            warnings.warn(warning.message, stacklevel=2)
        self._settle(best, limits, search_epsilon(mu, limits[1], mean_trials), mu, paid_for, budget, charged)
        return self

    def _checked_arguments(
        self, paid_for: tuple[PrivacyReport, ...], fit_params: Mapping[str, Any], unit: Unit
    ) -> tuple[float, float, tuple[float, float]]:
        """Mean number of trials, share of the test part, and (ε, δ)."""
        is_of_times = isinstance(self.estimator, DPLGBMSurvival)
        if getattr(self.estimator, "method", None) != "newton" or is_of_times:
            raise InvalidArgumentError(
                "estimator must be a DPLGBMClassifier or DPLGBMRegressor with method='newton'"
            )
        mean_trials = checked_number("mean_trials", self.mean_trials, Interval(2, math.inf, "[)"))
        test_share = checked_number("test_share", self.test_share, PROPER_SHARE)
        accepted = inspect.signature(self.estimator.fit).parameters.keys() - _NOT_PASSED_ON
        for name, value in fit_params.items():
            if name not in accepted and value is not None:
                why = f": {_WHY[name]}" if name in _WHY else ""
                raise InvalidArgumentError(f"{name} is not supported by DPRandomizedSearchCV{why}")
        if "label_bounds" in accepted and fit_params.get("label_bounds") is None:
            raise InvalidArgumentError(
                "label_bounds must be given: errors are measured relative to their width"
            )
        for report in paid_for:
            if report.unit != unit:
                raise InvalidArgumentError(
                    f"paid_for holds a report under {report.neighbouring!r}; the search is under "
                    f"{unit.neighbouring!r}"
                )
        distributions = self.param_distributions
        known = self.estimator.get_params(deep=False)
        for settings in [distributions] if isinstance(distributions, Mapping) else distributions:
            for name in settings:
                if name in _NOT_SEARCHED or _is_alias(name, "seed"):
                    raise InvalidArgumentError(
                        f"param_distributions holds {name!r}, which cannot be searched: the guarantee is for "
                        "trials of one method and one budget, with secret noise"
                    )
                if name not in known:
                    raise InvalidArgumentError(
                        f"param_distributions holds {name!r}; settings of the estimator are {sorted(known)}"
                    )
        return mean_trials, test_share, (checked_epsilon(self.epsilon), checked_delta(self.delta))

    def _trial(self, seed: int, epsilon: float, delta: float) -> _Trial:
        """A trial with settings drawn at random, which were checked."""
        (params,) = ParameterSampler(self.param_distributions, 1, random_state=seed)
        model = clone(self.estimator).set_params(**params)
        settings = model.get_params(deep=False)
        verbosity = {name: value for name, value in settings.items() if _is_alias(name, "verbosity")}
        model.set_params(epsilon=epsilon, delta=delta, **dict.fromkeys(verbosity, -1))
        if self.random_state is not None:
            model.set_params(random_state=seed)
        model.check_settings()
        return _Trial(model, params, verbosity)

    @staticmethod
    def _pay(
        budget: Budget | None, granted: tuple[float, float], paid_for: tuple[PrivacyReport, ...], unit: Unit
    ) -> tuple[str, ...]:
        """Charge the budget with all that the search is granted; notes for the report."""
        if budget is None:
            return ()
        unpaid = [report for report in paid_for if report.budget != budget.id]
        cost = total_cost([Cost(*granted), *(report.cost for report in unpaid)])
        delta = max((report.delta - report.cost.delta for report in unpaid), default=granted[1])
        return budget.charge(chargeable(cost, delta), "DPRandomizedSearchCV", unit=unit)

    def _settle(
        self,
        best: _Trial,
        granted: tuple[float, float],
        epsilon: float,
        mu: float,
        paid_for: tuple[PrivacyReport, ...],
        budget: Budget | None,
        charged: tuple[str, ...],
    ) -> None:
        """Put the search's guarantee in the place of the best trial's, in the model file too."""
        trial = best.model.privacy_
        row = {
            "group": 0,
            "release": "best of random trials",
            "mechanism": "private selection",
            "epsilon": epsilon,
            "count": 1,
            "disjoint_sets_of_rows": 1,
        }
        notes = (*trial.notes, f"a single trial costs mu = {mu:.6g}")
        report = replace(
            trial,
            epsilon=epsilon,
            delta=granted[1],
            ledger=(row,),
            notes=notes,
            cost=Cost(epsilon, granted[1]),
            spent=(epsilon, granted[1]),
        )
        if paid_for:
            report = compose(report, *paid_for)
        if budget is not None:
            budget.void(report.reasons)
            report = replace(report, budget=budget.id, notes=(*report.notes, *charged))
        text, found = best.model.booster_.model_to_string(num_iteration=-1), best.model.booster_.evaluation
        told = {} if found is None else {"evaluation": found.to_dict()}
        best.model.booster_ = DPBooster(model_str=with_guarantee(text, {**report.to_dict(), **told}))
        best.model.set_params(**best.verbosity)
        # All at once, so that an interrupt leaves either none of them or all.
        self.__dict__.update(best_estimator_=best.model, best_params_=best.params, privacy_=report)

    @property
    def cv_results_(self) -> Any:
        """Does not exist: an `AttributeError` says why."""
        raise AttributeError(
            "DPRandomizedSearchCV has no cv_results_: trials other than the best are not published, nor is "
            "their number; best_params_, best_estimator_ and privacy_ are what was released"
        )

    @property
    def best_score_(self) -> Any:
        """Does not exist: an `AttributeError` says why."""
        raise AttributeError(
            "DPRandomizedSearchCV has no best_score_: scores choose the best trial and are not published, "
            "noised sums over a private number of rows. Evaluate best_estimator_ on public rows"
        )

    def predict(self, X: Any) -> NDArray[Any]:
        """Prediction of the best estimator.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)

        Returns
        -------
        ndarray, shape (n_rows,)

        Raises
        ------
        NotFittedError
            Before `fit`, and after one that was aborted.
        """
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities of the best classifier.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes)

        Raises
        ------
        NotFittedError
            Before `fit`, and after one that was aborted.
        AttributeError
            If the best estimator is a regressor.
        """
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict_proba(X))


def divided(
    groups: Any, n_rows: int, unit: Unit, test_share: float, random: SecureRandom
) -> tuple[_SearchRows, _SearchRows]:
    """Training and test part: each row, or each person with at most k rows, draws its part on its own."""
    rows, person = np.arange(n_rows), None
    if unit.rows is not None:
        rows, person = draw_kept_rows(groups, n_rows, unit.rows)
    is_test = draw_words(random, len(rows), person) < np.uint64(int(test_share * 2.0**64))
    train, test = (
        _SearchRows(rows[of], None if person is None else person[of]) for of in (~is_test, is_test)
    )
    return train, test


def mean_shares(scores: NDArray[np.int64], person: NDArray[np.int64]) -> NDArray[np.int64]:
    """Scores over the number of their person's rows: ⌊s / k⌋ with s ≤ S, so that k of them sum to at most S.

    A person is in one part with all rows, so that k does not depend on other people.
    """
    return np.asarray(scores // np.bincount(person)[person])
