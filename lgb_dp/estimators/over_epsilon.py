"""Utility against ε: an estimator fitted at several ε, each fit paid for unless its rows are public."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from tqdm.auto import tqdm

from lgb_dp.accounting.budget import Budget, checked_budget
from lgb_dp.accounting.plotting import axes_of
from lgb_dp.checks import POSITIVE, checked_choice, checked_flag, checked_integer, checked_number
from lgb_dp.errors import ArgumentTypeError, BudgetExceededError, InvalidArgumentError
from lgb_dp.estimators.base import DPLGBMModel
from lgb_dp.evaluation.intervals import Estimate

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
_HELD_OUT = 0.1
_OF_TARGETS, _OF_SEVERAL = ("RMSE", "MAE", "bias", "R²"), ("accuracy", "log-loss")
_OF_TWO = ("AUC", *_OF_SEVERAL, "Brier score", "positives")

Figures = Mapping[str, Estimate | float]


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
) -> dict[float, list[Figures]]:
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
    epsilons : sequence of float
    n : int
        Fits at each ε.
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
    ArgumentTypeError, InvalidArgumentError
        Naming the argument that is not accepted, or `budget` and `public` if neither or both are given.
    BudgetExceededError
        If the budget does not suffice for the first fit.
    """
    if not isinstance(estimator, DPLGBMModel):
        raise ArgumentTypeError(f"estimator must be one of lgb_dp, got {type(estimator).__name__}")
    chosen = sorted({checked_number("epsilons", one, POSITIVE) for one in epsilons})
    n, measures = (
        checked_integer("n", n, 1),
        any(fit.get(name) is not None for name in ("eval_set", "eval_X")),
    )
    if checked_flag("public", public) == (checked_budget(budget) is not None):
        raise InvalidArgumentError(
            f"budget={budget!r} and public={public!r}: {n} fits at each of epsilons={chosen} cost their "
            "epsilon, all added up, if a row is private; pass budget=lgb_dp.Budget(...) to pay for them, or "
            "public=True if none is"
        )
    if measures and not (public or checked_flag("public_eval_set", fit.get("public_eval_set", False))):
        raise InvalidArgumentError(
            "public_eval_set must be True with an eval_set: metrics of its rows have no noise"
        )
    fit |= {"public_eval_set": True} if measures else {}
    held_out = {} if measures or estimator.validation_fraction else {"validation_fraction": _HELD_OUT}
    found: dict[float, list[Figures]] = {}
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
    MissingDependencyError
        If matplotlib is not installed; nothing has been fitted then.
    """
    ax = axes_of() if ax is None else ax
    if not isinstance(results, Mapping):
        if metric is not None and not any(name in how for name in ("eval_set", "eval_X")):
            # Before anything is paid for.
            of_classes = _OF_TWO if len(how.get("classes") or "01") == 2 else _OF_SEVERAL
            checked_choice("metric", metric, of_classes if is_classifier(results) else _OF_TARGETS)
        elif metric is not None:
            how, metric = how | {"eval_metric": metric}, None
        results = {type(results).__name__: utility(results, X, y, **how)}
    if not results or not all(results.values()):
        raise InvalidArgumentError(
            "results must hold at least one method, and every method at least one epsilon"
        )
    for name, by_epsilon in results.items():
        epsilons = sorted(by_epsilon)
        fits = [by_epsilon[epsilon] for epsilon in epsilons]
        if isinstance(figures := fits[0][0], Mapping):
            usual = next((one for one in ("AUC", "accuracy", "RMSE") if one in figures), next(iter(figures)))
            metric = checked_choice("metric", metric or usual, tuple(figures))
            fits = [[figures[metric] for figures in one] for one in fits]
        middle, low, high = np.transpose([_band(one) for one in fits])
        (line,) = ax.plot(epsilons, middle, marker="o", markersize=3, label=name)
        ax.fill_between(epsilons, low, high, alpha=0.2, color=line.get_color())
    ax.set(xlabel="ε", ylabel=metric or "AUC", xscale="log")
    ticks = sorted(set().union(*results.values()))
    ax.set_xticks(ticks, [f"{one:g}" for one in ticks])
    ax.minorticks_off()
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    return ax


def _band(fits: Sequence[Estimate | float]) -> tuple[float, ...]:
    """Mean of several fits, and the ends of its band."""
    if ends := [(one.value, one.low, one.high) for one in fits if isinstance(one, Estimate)]:
        return tuple(np.mean(ends, axis=0).tolist())
    values = np.array(fits, dtype=np.float64)
    mean, spread = float(values.mean()), float(values.std())
    return mean, mean - spread, mean + spread
