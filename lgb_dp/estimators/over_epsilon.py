"""Utility against ε: an estimator fitted at several ε, each fit paid for unless its rows are public."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from tqdm.auto import tqdm

from lgb_dp.accounting.budget import Budget, checked_budget
from lgb_dp.accounting.plotting import axes_of
from lgb_dp.checks import POSITIVE, checked_choice, checked_flag, checked_integer, checked_number
from lgb_dp.errors import ArgumentTypeError, BudgetExceededError, InvalidArgumentError
from lgb_dp.estimators.base import DPLGBMModel
from lgb_dp.estimators.survival import DPLGBMSurvival
from lgb_dp.evaluation.intervals import Estimate

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
_OF_TARGETS, _OF_SEVERAL = ("RMSE", "MAE", "bias", "R²"), ("accuracy", "log-loss")
_OF_TWO = ("AUC", *_OF_SEVERAL, "Brier score", "positives")
_OF_TIMES = ("concordance", "events")


def utility(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    epsilons: Sequence[float] = EPSILONS,
    n: int = 1,
    budget: Budget | None = None,
    public: bool = False,
    **fit: Any,
) -> dict[float, list[Mapping[str, Estimate | float]]]:
    """Fit an estimator at several ε, and measure how good each model is.

    Each fit on private rows costs its ε.  A budget pays for all of them, or the rows are said to be public:
    without either, no row is read.  A fit measures, within its ε, on a tenth of the rows, which it holds out,
    or on the share of the estimator's `validation_fraction`; with an `eval_set`, on its rows instead.

    Parameters
    ----------
    estimator : DPLGBMClassifier or DPLGBMRegressor
        Copies of it are fitted.
    X, y
        As for its `fit`.
    epsilons, n : sequence of float, and int
        What to fit at, and how often.
    budget : Budget, optional
        Pays for each fit when it starts, from the smallest ε on.  Where it no longer suffices, what it has
        paid for is returned, with a warning.
    public : bool
        Whether no row is private: nothing is charged then.
    **fit : object
        Further arguments of `fit`, such as `bounds`, or public rows as `eval_set` with `eval_metric`.

    Returns
    -------
    dict of float to list of dict
        ε to the figures of each fit by name: estimates as of `evaluation_`, or metrics of the `eval_set`.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError, BudgetExceededError
        Naming the argument that is not accepted, `budget` and `public` if neither or both are given, or what
        is left of a budget that does not suffice for the first fit.
    """
    if not isinstance(estimator, DPLGBMModel):
        raise ArgumentTypeError(f"estimator must be one of lgb_dp, got {type(estimator).__name__}")
    chosen = sorted({checked_number("epsilons", one, POSITIVE) for one in epsilons})
    n = checked_integer("n", n, 1)
    measures = any(fit.get(name) is not None for name in ("eval_set", "eval_X"))
    if checked_flag("public", public) == (checked_budget(budget) is not None):
        raise InvalidArgumentError(
            f"budget={budget!r} and public={public!r}: {n} fits at each of epsilons={chosen} cost their "
            "epsilon, all added up, if a row is private; pass budget=lgb_dp.Budget(...) to pay for them, or "
            "public=True if none is"
        )
    if measures and not (public or checked_flag("public_eval_set", fit.get("public_eval_set", False))):
        raise InvalidArgumentError("public_eval_set must be True with an eval_set: its metrics have no noise")
    fit |= {"public_eval_set": True} if measures else {}
    held_out = {} if measures or estimator.validation_fraction else {"validation_fraction": 0.1}
    found: dict[float, list[Mapping[str, Estimate | float]]] = {}
    for epsilon in tqdm(np.repeat(chosen, n).tolist(), "fits over ε", unit="fit", leave=False, disable=None):
        model = clone(estimator).set_params(epsilon=epsilon, **held_out)
        try:
            model.fit(X, y, budget=budget, **fit)
        except BudgetExceededError as error:
            if not found:
                raise
            warnings.warn(f"utility ends at epsilon={epsilon:g}: {error}", UserWarning, stacklevel=2)
            break
        figures = next(iter(model.best_score_.values())) if measures else model.evaluation_.figures()
        found.setdefault(epsilon, []).append(dict(figures))
    return found


def plot_utility(
    results: Any, X: Any = None, y: Any = None, *, metric: str | None = None, ax: Any = None, **how: Any
) -> Any:
    """Draw how good models are against ε, one line per method.

    Bands are 95% intervals of what was measured on held-out rows, or else one standard deviation over fits.

    Parameters
    ----------
    results : mapping of str to mapping of float to sequence, or estimator
        Method to ε to the metric, or the figures, of each fit; or an estimator that they are measured of by
        `lgb_dp.utility`, with `X`, `y` and `how`: **each fit on private rows costs its ε**.
    metric : str, optional
        Name of a figure; by default the AUC of two classes, the accuracy of more, the RMSE of targets.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgumentError
        If there is nothing to draw, or it has no such metric.
    """
    ax = axes_of() if ax is None else ax  # raises without matplotlib, before anything is fitted
    if not isinstance(results, Mapping):
        if metric is not None and not any(name in how for name in ("eval_set", "eval_X")):
            of_classes = _OF_TWO if len(how.get("classes") or "01") == 2 else _OF_SEVERAL
            of_numbers = _OF_TIMES if isinstance(results, DPLGBMSurvival) else _OF_TARGETS
            checked_choice("metric", metric, of_classes if is_classifier(results) else of_numbers)
        elif metric is not None:
            how, metric = how | {"eval_metric": metric}, None
        results = {type(results).__name__: utility(results, X, y, **how)}
    if not results or not all(results.values()):
        raise InvalidArgumentError(
            "results must hold at least one method, and every method at least one epsilon"
        )
    for name, by_epsilon in results.items():
        epsilons, fits = sorted(by_epsilon), [by_epsilon[one] for one in sorted(by_epsilon)]
        if isinstance(figures := fits[0][0], Mapping):
            first = ("AUC", "accuracy", "RMSE", "concordance")
            usual = next((one for one in first if one in figures), next(iter(figures)))
            metric = checked_choice("metric", metric or usual, tuple(figures))
            fits = [[figures[metric] for figures in one] for one in fits]
        middle, low, high = np.transpose([_band(one) for one in fits])
        (line,) = ax.plot(epsilons, middle, marker="o", markersize=3, label=name)
        ax.fill_between(epsilons, low, high, alpha=0.2, color=line.get_color())
    ax.set(xlabel="ε", ylabel=metric or "AUC", xscale="log")
    ax.set_xticks(ticks := sorted(set().union(*results.values())), [f"{one:g}" for one in ticks])
    ax.minorticks_off()
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    return ax


def _band(fits: Sequence[Estimate | float]) -> NDArray[np.float64]:
    """Mean of several fits, and the ends of its band."""
    ends = [(one.value, one.low, one.high) if isinstance(one, Estimate) else (one,) * 3 for one in fits]
    spread = 0.0 if isinstance(fits[0], Estimate) else np.std(ends)
    return np.asarray(np.mean(ends, axis=0) + spread * np.array([0, -1, 1]))
