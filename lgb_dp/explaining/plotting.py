"""Pictures of effects with their bands, and of importances with their floor; they need matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lgb_dp.accounting.plotting import axes_of
from lgb_dp.explaining.effects import Effects, Z, effects
from lgb_dp.explaining.importances import Importances, importances

_COLUMNS = 4


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
