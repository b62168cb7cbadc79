"""The evaluation of a private model of a number, from released tables of residuals and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lgb_dp.accounting.plotting import axes_of
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.evaluation.intervals import (
    Estimate,
    are_moderate,
    mean_estimate,
    ratio_estimate,
    variance_estimate,
)
from lgb_dp.evaluation.table import EvaluationTable

_BINS_PER_SIDE = 16
LABEL_EDGES = np.arange(1, 16) / 16
"""Between which labels are counted, as shares of the way between their bounds."""

_SHARE_OF_DOUBT = 0.1
"""Of α, for the noise of the one count that decides an interval's width."""


def residual_edges(width: float) -> NDArray[np.float64]:
    """Public edges of residuals up to the width of the label's bounds, finer towards zero.

    The largest residuals have few bins, since the noise of each counts with its square.
    """
    side = width * 2.0 ** (-0.5 * np.arange(1, _BINS_PER_SIDE))
    return np.concatenate([-side, [0.0], side[::-1]])


@dataclass(frozen=True, eq=False)
class RegressionEvaluation(EvaluationTable):
    """Quality of a model of a number, on rows that were held out of its training run.

    Every figure has a 95% interval that covers both the drawing of the rows and the noise.  Persons are
    taken as independent, and rows of one as alike; weights count as shares of the largest one.

    Attributes
    ----------
    edges : ndarray of float64, shape (n_bins - 1,)
        Of residuals, label less prediction, in units of the label.
    counts : ndarray of float64, shape (n_bins,)
        Held-out rows with noise.
    std : float
        Of the noise in a count, in rows.
    labels : ndarray of float64, shape (16,)
        Held-out rows with noise, by label, in bins of equal width between its bounds.
    labels_std : float
        Of the noise in each of them, in rows.
    width : float
        Of the label's bounds: residuals beyond it count as so large.
    alike : int
        How many rows of the largest weight a person may have.
    by, groups : str, dict
        The column whose values divide the rows, if one was given, and the evaluation of each value.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.float64]
    std: float
    labels: NDArray[np.float64]
    labels_std: float
    width: float
    alike: int = 1
    by: str = ""
    groups: Mapping[str, Any] = field(default_factory=dict)

    noised: ClassVar[Mapping[str, str]] = {"counts": "std", "labels": "labels_std"}

    @property
    def rmse(self) -> Estimate:
        """Root of the mean squared residual."""
        mean = self._mean(np.square)
        return _times(self.width, *np.sqrt([mean.value, mean.low, mean.high]))

    @property
    def mae(self) -> Estimate:
        """Mean absolute residual."""
        mean = self._mean(np.abs)
        return _times(self.width, mean.value, mean.low, mean.high)

    @property
    def bias(self) -> Estimate:
        """Mean of the labels less that of the predictions."""
        mean = self._mean(np.positive)
        return _times(self.width, mean.value, mean.low, mean.high)

    @property
    def r2(self) -> Estimate:
        """Share of the labels' variance that the model explains; not below 0 for nothing but its mean."""
        labels, std = self.labels / self.alike, self.labels_std / self.alike
        share = ratio_estimate(self._mean(np.square), variance_estimate(labels, std))
        return Estimate(1 - share.value, 1 - share.high, 1 - share.low)

    def half_width(self, alpha: float) -> float:
        """How far labels are from predictions, except for a share α of new rows; infinite if that is unknown.

        It is the least edge e, going inwards as long as c(e) ≤ 0 shows through the noise: with S(e) the
        weight of residuals beyond ±e, n that of all, and k the most of a person, c(e) = S(e) + k - a n, where
        a = α - β and β = α/10.  Proof: e* is the least edge with c ≤ 0, before noise.  Were a new person
        among the others, S ≤ a n would hold at e*, so that, persons being exchangeable, a share a of new rows
        is beyond e* at most.  And e < e* only where noise hides c > 0 at the edge before e*, which is fixed:
        with probability β.
        """
        n, share = len(self.counts), alpha * (1 - _SHARE_OF_DOUBT)
        quantile, found = float(ndtri(1 - alpha * _SHARE_OF_DOUBT)), np.inf
        for k in range(1, n // 2):
            is_beyond = np.minimum(np.arange(n), np.arange(n)[::-1]) < k
            weights = is_beyond - share
            reach = quantile * self.std * float(np.linalg.norm(weights))
            if float(self.counts @ weights) + self.alike + reach > 0:
                return found
            found = float(-self.edges[k - 1])
        return found

    def figures(self) -> dict[str, Estimate]:
        """All figures by name."""
        figures = {"held-out rows": self.n_rows, "RMSE": self.rmse, "MAE": self.mae, "bias": self.bias}
        return {**figures, "R²": self.r2}

    def plot(self, *, axes: Any = None) -> Any:
        """Draw the shares of rows by their residuals.

        Parameters
        ----------
        axes : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        ax = axes_of() if axes is None else axes
        ends = np.concatenate([[-self.width], self.edges, [self.width]])
        ax.stairs(np.maximum(self.counts, 0) / max(self.counts.sum(), 1.0), ends, fill=True)
        ax.set(xlabel="label less prediction", ylabel="share of rows", title=f"RMSE {self.rmse}")
        return ax

    def table(self) -> dict[str, Any]:
        """The released table, in types that JSON has."""
        return {
            "residuals": self.edges.tolist(),
            "counts": self.counts.tolist(),
            "std": self.std,
            "labels": self.labels.tolist(),
            "labels std": self.labels_std,
            "width": self.width,
            "alike": self.alike,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RegressionEvaluation:
        """Read back what `to_dict` gave, which may have been in a file of somebody else.

        Raises
        ------
        KeyError, TypeError, ValueError, OverflowError
            If something is missing, or is not what `to_dict` gives.
        """
        edges, counts, labels = (
            np.array(values[name], dtype=np.float64) for name in ("residuals", "counts", "labels")
        )
        std, labels_std, width = (float(values[name]) for name in ("std", "labels std", "width"))
        alike, n = int(values["alike"]), 2 * _BINS_PER_SIDE
        is_table = (
            counts.shape == (n,) and edges.shape == (n - 1,) and labels.shape == (len(LABEL_EDGES) + 1,)
        )
        is_moderate = are_moderate(counts, std, alike) and are_moderate(labels, labels_std, alike)
        if not is_table or not 0 < width < np.inf or not is_moderate:
            raise InvalidArgumentError("the evaluation of a model has residuals, counts and a noise")
        if not (np.diff([-width, *edges, width]) >= 0).all():
            raise InvalidArgumentError("the evaluation of a model has residuals, counts and a noise")
        return cls(edges, counts, std, labels, labels_std, width, alike)

    def _mean(self, of_share: Any) -> Estimate:
        """Mean of a function of the residual over the width, by its mean and deviation over each bin."""
        ends = np.concatenate([[-1.0], self.edges / self.width, [1.0]])
        inside = of_share(np.linspace(ends[:-1], ends[1:], 5))
        values, spread = inside.mean(axis=0), inside.std(axis=0)
        counts, std = self.counts / self.alike, self.std / self.alike
        return mean_estimate(counts, values, spread, std, (min(float(values.min()), 0.0), 1.0))


def _times(width: float, *shares: float) -> Estimate:
    """An estimate in units of the label, of shares of the width: those of large units have no squares."""
    return Estimate(*(float(width * share) for share in shares))
