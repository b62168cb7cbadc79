"""Effects of features on the scores of a private model, with the bands that its noise leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.html_tables import html_paragraph, html_table
from gbdt_kernels.trees import DenseCodes
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.checks import checked_integer
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.explaining.bootstrap import N_REFITS, Bootstrap, seed_of, stream
from lgb_dp.newton.splits.distilled import values_of_codes

Z = 1.96
"""Standard deviations of noise on either side of an effect that its 95% band reaches."""

_N_ROWS, _N_FOR_GRID = 200, 20_000
_MAX_CHOSEN = 20
_ENDS = 0.02
_LEAST_STEP = 0.01


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of one feature: mean raw score over made-up rows that all have one of its values, centred.

    Attributes
    ----------
    values : ndarray of float64, shape (n_values,)
        Values of the feature, ascending; of categories, their numbers in the model.
    labels : tuple of str
        The same in words, of categories; empty for a numeric feature.
    effect, std : ndarray of float64, shape (n_values, n_outputs)
        In raw scores (log-odds for two classes, the label's unit for the square loss), and the standard
        deviation that noise gives it.
    """

    values: NDArray[np.float64]
    labels: tuple[str, ...]
    effect: NDArray[np.float64]
    std: NDArray[np.float64]


class Effects(dict[str, Effect]):
    """Effects by the names of features, in a model's order."""

    _HEAD = "effects on raw scores, with 95% bands of noise:"

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "feature": name,
                "lowest": f"{one.effect.min():+.3f}",
                "highest": f"{one.effect.max():+.3f}",
                "band": f"± {Z * one.std.max():.3f} at most",
            }
            for name, one in self.items()
        ]

    def __str__(self) -> str:
        lines = ("  {:<20} {} to {}, {}".format(*row.values()) for row in self._rows())
        return "\n".join([self._HEAD, *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The effects for a notebook."""
        return html_paragraph(self._HEAD) + html_table(self._rows())


def effects(
    model: Any,
    features: Sequence[int | str] | None = None,
    *,
    n: int = N_REFITS,
    n_points: int = 12,
    random_state: int | None = None,
) -> Effects:
    """Effects of features on a private model's scores, with bands that say what noise alone does.

    The run is repeated `n` times on made-up rows with noise of its own: columns follow released histograms,
    labels the model's predictions.  No private row is read, and no privacy is spent.

    Parameters
    ----------
    model : path, str, lightgbm.Booster or fitted estimator
        Trained by `NewtonBoost`, rows in one place or on a Dask cluster.
    features : sequence of int or str, optional
        Places or names; by default all, or the 20 of the largest gain.
    n : int
        Refits, at least 2.
    n_points : int
        Values of a numeric feature; a categorical one has at most as many, the most frequent ones.
    random_state : int, optional
        Makes the bands reproducible.  It has nothing to do with the noise of the model.

    Returns
    -------
    Effects

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError, NoGuaranteeError, AlteredModelError
        If an argument is not accepted, or the model is none with a guarantee.
    UnsupportedParameterError
        If the model's run cannot be repeated; the error says why.
    """
    n, n_points = checked_integer("n", n, 2), checked_integer("n_points", n_points, 2)
    bootstrap, seed = Bootstrap(model), seed_of(random_state)
    gain = bootstrap.booster.feature_importance("gain")
    chosen = chosen_features(bootstrap, features, np.where(bootstrap.run.bins.n_bins > 1, gain, -1.0))
    rows, grids = _rows_and_grids(bootstrap, chosen, n_points)
    own = _centred(bootstrap.booster, rows, grids, bootstrap.n_outputs)
    of_refits = [_centred(refit, rows, grids, bootstrap.n_outputs) for refit in bootstrap.refits(n, seed)]
    spreads = [np.std(ones, axis=0, ddof=1) for ones in zip(*of_refits, strict=True)]
    return Effects(
        (bootstrap.names[f], Effect(grid, labels_of(bootstrap, f, grid), effect, std))
        for (f, grid), effect, std in zip(grids.items(), own, spreads, strict=True)
    )


def chosen_features(
    bootstrap: Bootstrap, features: Sequence[int | str] | None, worth: NDArray[np.float64]
) -> list[int]:
    """Places of the given features, or else of the 20 of the largest worth, which is negative for none."""
    names = bootstrap.names
    if features is None:
        best = np.argsort(-worth, kind="stable")[:_MAX_CHOSEN]
        return sorted(best[worth[best] >= 0].tolist())
    places = [names.index(one) if one in names else one for one in features]
    for place, given in zip(places, features, strict=True):
        if not isinstance(place, (int, np.integer)) or not 0 <= place < len(names):
            raise InvalidArgumentError(
                f"features holds {given!r}; accepted are places from 0 to {len(names) - 1}, and names of the "
                "model's features"
            )
    return [int(place) for place in places]


def _rows_and_grids(
    bootstrap: Bootstrap, features: Sequence[int], n_points: int
) -> tuple[NDArray[np.float64], dict[int, NDArray[np.float64]]]:
    """Made-up rows to average over, and values of each feature between which most made-up rows are.

    They are always the same ones, so that effects of one model do not depend on a seed.
    """
    bins = bootstrap.run.bins
    codes = bootstrap.made_up(_N_FOR_GRID, stream("grid")).codes
    grids = {}
    for f in features:
        known = codes[codes[:, f] < bins.n_bins[f], f]
        if bins.is_categorical[f]:
            at = np.sort(np.argsort(-np.bincount(known, minlength=bins.n_bins[f]), kind="stable")[:n_points])
        else:
            at = np.unique(
                np.quantile(known, np.linspace(_ENDS, 1 - _ENDS, n_points), method="nearest").astype(np.int64)
            )
        grid = bins.values[f][np.minimum(at, len(bins.values[f]) - 1)]
        apart = np.diff(grid, prepend=-np.inf) > _LEAST_STEP * np.ptp(grid)
        grids[f] = grid if bins.is_categorical[f] else grid[apart]
    return values_of_codes(DenseCodes(codes[:_N_ROWS]), bins), grids


def _centred(
    booster: DPBooster, rows: NDArray[np.float64], grids: dict[int, NDArray[np.float64]], n_outputs: int
) -> list[NDArray[np.float64]]:
    """Effects by the features of the grids, each of shape (n_values, n_outputs)."""
    found, of_features = [], list(grids.items())
    for first in range(0, len(of_features), _MAX_CHOSEN):  # many rows at once, for speed, but not all
        group = of_features[first : first + _MAX_CHOSEN]
        lengths = [len(grid) for _, grid in group]
        moved = np.tile(rows, (sum(lengths), 1, 1))
        for (f, grid), part in zip(group, np.split(moved, np.cumsum(lengths)[:-1]), strict=True):
            part[:, :, f] = grid[:, None]
        raw = booster.predict(moved.reshape(-1, rows.shape[1]), raw_score=True)
        means = np.reshape(raw, (sum(lengths), len(rows), n_outputs)).mean(axis=1)
        found += [one - one.mean(axis=0) for one in np.split(means, np.cumsum(lengths)[:-1])]
    return found


def labels_of(bootstrap: Bootstrap, feature: int, grid: NDArray[np.float64]) -> tuple[str, ...]:
    """Categories in words."""
    if not bootstrap.run.bins.is_categorical[feature]:
        return ()
    known = bootstrap.run.bins.columns.categories.get(feature)
    return tuple(str(int(value) if known is None else known[int(value)]) for value in grid.tolist())
