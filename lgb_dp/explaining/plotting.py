"""Pictures of effects with bands, importances with their floor, rows between bounds; they need matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lgb_dp.accounting.plotting import axes_of
from lgb_dp.errors import UnsupportedParameterError
from lgb_dp.explaining.bootstrap import Bootstrap
from lgb_dp.explaining.effects import Effects, Z, chosen_features, effects, labels_of
from lgb_dp.explaining.importances import Importances, importances

_COLUMNS = 4
_BARS, _FEW_BINS, _N_TICKS = 40, 8, 5
_MIN_REACH, _LEAST_REACH = 0.1, 1e-4
"""Width of the middle 80% of the rows, over that of the bounds, below which an axis is stretched, and by
which at most."""


def plot_effects(
    model: Any, features: Sequence[int | str] | None = None, *, axes: Any = None, **how: Any
) -> Any:
    """Draw the effects of features with their 95% bands.

    Parameters
    ----------
    model : Effects, path, str, lightgbm.Booster or fitted estimator
        Effects, or a model that they are computed of, with `features` and `how` as for `lgb_dp.effects`.
    axes : sequence of matplotlib Axes, optional
        One for each feature.

    Returns
    -------
    ndarray of matplotlib Axes, shape (n_features,)
    """
    found = model if isinstance(model, Effects) else effects(model, features, **how)
    axes = np.ravel(axes_of(len(found), _COLUMNS) if axes is None else axes)
    for ax, (name, one) in zip(axes, found.items(), strict=True):
        ax.axhline(0.0, color="0.7", linewidth=1)
        for k, (effect, reach) in enumerate(zip(one.effect.T, Z * one.std.T, strict=True)):
            label = f"class {k}" if one.effect.shape[1] > 1 else None
            if one.labels:
                ax.errorbar(one.labels, effect, reach, fmt="o", markersize=4, label=label)
                continue
            (line,) = ax.plot(one.values, effect, marker=".", label=label)
            ax.fill_between(one.values, effect - reach, effect + reach, alpha=0.25, color=line.get_color())
        ax.set(title=name, ylabel="effect on raw score")
    return axes


def plot_importance(model: Any, *, max_num_features: int | None = None, ax: Any = None, **how: Any) -> Any:
    """Draw the importances of features by gain, with the floor of noise as a line.

    Bars of features that are not distinguishable from noise are grey.

    Parameters
    ----------
    model : Importances, path, str, lightgbm.Booster or fitted estimator
        Importances, or a model that they are computed of, with `how` as for `lgb_dp.importances`.
    max_num_features : int, optional
        Of the largest gains; by default all.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    ax = axes_of() if ax is None else ax
    found = model if isinstance(model, Importances) else importances(model, **how)
    shown = np.argsort(found.gain, kind="stable")[-(max_num_features or len(found.gain)) :]
    place = np.arange(len(shown))
    colors = ["C0" if found.stands_out[f] else "0.75" for f in shown.tolist()]
    ax.barh(place, found.gain[shown], color=colors)
    ends = np.append(place - 0.5, len(shown) - 0.5)
    ax.stairs(
        found.floor[shown],
        ends,
        orientation="horizontal",
        baseline=None,
        color="C3",
        label="95% floor of noise",
    )
    ax.set_yticks(place, [found.features[f] for f in shown.tolist()])
    ax.set(xlabel="gain", title="feature importance")
    ax.legend(frameon=False, loc="lower right")
    return ax


def plot_bounds(model: Any, features: Sequence[int | str] | None = None, *, axes: Any = None) -> Any:
    """Draw where the rows lie between the declared bounds, by the histograms that a run released.

    The two outermost bins of a numeric column are red, with their shares of the rows and the reach of their
    noise: all values beyond the bounds are there.  Dashed lines are the bounds.  An axis is stretched where
    most rows share a small part of it.  All is read from the model's text, and no privacy is spent.

    Parameters
    ----------
    model : path, str, lightgbm.Booster or fitted estimator
        As for `lgb_dp.effects`.
    features : sequence of int or str, optional
        Places or names; by default all, or the 20 with the largest shares in an outermost bin.
    axes : sequence of matplotlib Axes, optional

    Returns
    -------
    ndarray of matplotlib Axes, shape (n_features,)

    Raises
    ------
    UnsupportedParameterError
        If the model has no released histogram of a feature, since noise would have hidden it.
    """
    bootstrap = Bootstrap(model)
    bins, histograms = bootstrap.run.bins, bootstrap.run.histograms
    shares = [one / max(float(one.sum()), 1.0) for one in histograms.counts]
    outer = [max(one[0], one[-2], 0.0) if one.any() else -1.0 for one in shares]
    chosen = chosen_features(bootstrap, features, np.array(outer))
    if missed := [bootstrap.names[f] for f in chosen if outer[f] < 0] if chosen else list(bootstrap.names):
        raise UnsupportedParameterError(
            f"model has no released histogram of {missed[:10]}, as noise would have hidden it; pass features "
            "that have one, or train on more rows or with a larger epsilon"
        )
    axes = np.ravel(axes_of(len(chosen), _COLUMNS) if axes is None else axes)
    for ax, f in zip(axes, chosen, strict=True):
        values, share, is_kind = bins.values[f], shares[f].clip(0.0, 1.0), bool(bins.is_categorical[f])
        reach = Z * histograms.std / max(float(histograms.counts[f].sum()), 1.0)
        told = f"missing{' or not declared' * is_kind} {share[-1]:.1%}"
        if is_kind or len(values) < _FEW_BINS:
            names = [*(f"≤ {value:g}" for value in values), f"> {values[-1]:g}"]
            ax.bar(labels_of(bootstrap, f, values) or names, share[:-1], yerr=reach)
        else:
            _draw_between(ax, values, shares[f][:-1], reach)
            told = f"outermost bins {share[0]:.1%} and {share[-2]:.1%}, {told}"
            for bound in bins.ranges[f] or ():
                ax.axvline(bound, color="0.5", linewidth=1, linestyle="--")
        ax.set(title=bootstrap.names[f], xlabel=f"{told}; ± {reach:.1%}", ylabel="share of the rows")
    return axes


def _draw_between(ax: Any, values: NDArray[np.float64], share: NDArray[np.float64], reach: float) -> None:
    """Shares of the rows as bars, equally wide on the axis, between thresholds; those of both ends beside."""
    below, width = np.cumsum(share[:-1]), np.ptp(values)
    middle = np.ptp(np.interp(np.array([0.1, 0.9]) * share.sum(), np.maximum.accumulate(below), values))
    if middle < _MIN_REACH * width:
        ax.set_xscale("asinh", linear_width=max(middle, _LEAST_REACH * width))
        ax.xaxis.get_major_locator().set_params(numticks=_N_TICKS)
    axis = ax.xaxis.get_transform()
    first, last = axis.transform(values[[0, -1]])
    at = axis.inverted().transform(first + (last - first) * np.arange(-1, _BARS + 2) / _BARS)
    n_bins = np.concatenate([[1], np.diff(np.interp(at[1:-1], values, np.arange(len(values)))), [1]])
    height = np.concatenate([share[:1], np.diff(np.interp(at[1:-1], values, below)), share[-1:]]).clip(0)
    noise, colors = reach * np.sqrt(n_bins), ["C3", *["C0"] * _BARS, "C3"]
    ax.bar(at[:-1], height, np.diff(at), align="edge", color=colors)
    middles = axis.inverted().transform(axis.transform(at[:-1]) + (last - first) / _BARS / 2)
    ax.errorbar(middles, height, [np.minimum(height, noise), noise], fmt="none", color="0.4", linewidth=0.7)
