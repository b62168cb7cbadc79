"""The evaluation of a private model of a number, from a released table of residuals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lgb_dp.accounting.plotting import axes_of
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.evaluation.intervals import Estimate, are_moderate, mean_estimate
from lgb_dp.evaluation.table import EvaluationTable

_BINS_PER_SIDE = 16


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
    width : float
        Of the label's bounds: residuals beyond it count as so large.
    alike : int
        How many rows of the largest weight a person may have.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.float64]
    std: float
    width: float
    alike: int = 1

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

    def figures(self) -> dict[str, Estimate]:
        """All figures by name."""
        return {"held-out rows": self.n_rows, "RMSE": self.rmse, "MAE": self.mae, "bias": self.bias}

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

    def to_dict(self) -> dict[str, Any]:
        """The released table, in types that JSON has."""
        return {
            "residuals": self.edges.tolist(),
            "counts": self.counts.tolist(),
            "std": self.std,
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
        edges, counts = (np.array(values[name], dtype=np.float64) for name in ("residuals", "counts"))
        std, width, alike = float(values["std"]), float(values["width"]), int(values["alike"])
        is_table = counts.shape == (2 * _BINS_PER_SIDE,) and edges.shape == (2 * _BINS_PER_SIDE - 1,)
        if not is_table or not 0 < width < np.inf or not are_moderate(counts, std, alike):
            raise InvalidArgumentError("the evaluation of a model has residuals, counts and a noise")
        if not (np.diff([-width, *edges, width]) >= 0).all():
            raise InvalidArgumentError("the evaluation of a model has residuals, counts and a noise")
        return cls(edges, counts, std, width, alike)

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
