"""The evaluation of a private model of a number, from released tables of residuals and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lgb_dp.accounting.plotting import axes_of
from lgb_dp.evaluation.intervals import Estimate, mean_estimate, ratio_estimate, variance_estimate
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

    Intervals are those of `EvaluationTable`.

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
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.float64]
    std: float
    labels: NDArray[np.float64]
    labels_std: float
    width: float

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
        """Draw the shares of rows by their residuals; on `axes`, or new ones."""
        ax = axes_of() if axes is None else axes
        ends = np.concatenate([[-self.width], self.edges, [self.width]])
        ax.stairs(np.maximum(self.counts, 0) / max(self.counts.sum(), 1.0), ends, fill=True)
        ax.set(xlabel="label less prediction", ylabel="share of rows", title=f"RMSE {self.rmse}")
        return ax

    def is_table(self) -> bool:
        """Whether tables and edges have the shapes and the order that they must have."""
        n, ends = 2 * _BINS_PER_SIDE, [-self.width, *self.edges, self.width]
        is_shaped = self.counts.shape == (n,) and self.labels.shape == (len(LABEL_EDGES) + 1,)
        is_ascending = len(ends) == n + 1 and bool((np.diff(ends) >= 0).all())
        return is_shaped and is_ascending and 0 < self.width < np.inf

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
