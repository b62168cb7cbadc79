"""Importances of features in a private model, and the floor below which they say nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from gbdt_commons.html_tables import html_paragraph, html_table
from lgb_dp.checks import checked_integer
from lgb_dp.explaining.bootstrap import N_REFITS, Bootstrap, seed_of, stream

NOT_DISTINGUISHABLE = "not distinguishable from noise"
_HEAD = "importances by gain, with the 95% floor of noise:"
_LEVEL = 0.95
_PARTS = 4
"""One in so many features is unknown to the labels of a refit."""

_MIN_FITS = 2 * _PARTS
_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Importances:
    """Importances by gain, in a model's order, and what noise alone gives.

    Attributes
    ----------
    features : tuple of str
    gain : ndarray of float64, shape (n_features,)
        Sum of the gains of a feature's splits, as LightGBM computes it from released leaf values.
    floor : ndarray of float64, shape (n_features,)
        Gain that a feature of no effect stays below with probability 95%.
    """

    features: tuple[str, ...]
    gain: NDArray[np.float64]
    floor: NDArray[np.float64]

    @property
    def stands_out(self) -> NDArray[np.bool_]:
        """Which features have more gain than noise gives."""
        return self.gain > self.floor

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "feature": self.features[f],
                "gain": float(self.gain[f]),
                "95% floor": float(self.floor[f]),
                "": "" if self.stands_out[f] else NOT_DISTINGUISHABLE,
            }
            for f in np.argsort(-self.gain, kind="stable").tolist()
        ]

    def __str__(self) -> str:
        lines = ("  {:<20} {:>10.4g}, floor {:<10.4g} {}".format(*row.values()) for row in self._rows())
        return "\n".join([_HEAD, *map(str.rstrip, lines)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The importances for a notebook."""
        return html_paragraph(_HEAD) + html_table(self._rows())


def importances(model: Any, *, n: int = N_REFITS, random_state: int | None = None) -> Importances:
    """Importances of a private model's features, each with the floor that noise alone reaches.

    They are gains rather than numbers of splits: private structures are drawn at random, so that numbers of
    splits hardly depend on the rows.  For the floor, the run is repeated `n` times on made-up rows, each time
    with labels that are drawn without regard to a quarter of the features, in turn; their gains are noise.
    No private row is read, and no privacy is spent.

    Parameters
    ----------
    model : path, str, lightgbm.Booster or fitted estimator
        As for `lgb_dp.effects`.
    n : int
        Refits, at least 8.
    random_state : int, optional
        Makes the floors reproducible.  It has nothing to do with the noise of the model.

    Returns
    -------
    Importances

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError, NoGuaranteeError, AlteredModelError, UnsupportedParameterError
        As `lgb_dp.effects`.
    """
    n = checked_integer("n", n, _MIN_FITS)
    bootstrap, seed = Bootstrap(model), seed_of(random_state)
    n_features = len(bootstrap.names)
    place = np.argsort(np.argsort(stream(f"{seed} parts").words(n_features)))
    unknown = [np.flatnonzero((place + k) % _PARTS == 0) for k in range(n)]
    gains = [refit.feature_importance("gain") for refit in bootstrap.refits(n, f"{seed} floor", unknown)]
    of_noise: list[list[float]] = [[] for _ in bootstrap.names]
    for gain, places in zip(gains, unknown, strict=True):
        for f in places.tolist():
            of_noise[f].append(float(gain[f]))
    own = np.asarray(bootstrap.booster.feature_importance("gain"), dtype=np.float64)
    return Importances(bootstrap.names, own, floors(of_noise))


def floors(of_noise: list[list[float]]) -> NDArray[np.float64]:
    """The value of each feature that one more draw stays below with probability 95%.

    Logarithms of a feature's gains are taken as normal, with a mean of its own, and the largest of their
    standard deviation is shared: Student's prediction interval. There are at least two draws of one feature.
    """
    logs = [np.log(np.maximum(draws, _TINY)) for draws in of_noise]
    mean, n = np.array([one.mean() for one in logs]), np.array([len(one) for one in logs])
    degrees = int((n - 1).sum())
    std = np.sqrt(sum(float(((one - one.mean()) ** 2).sum()) for one in logs) / degrees)
    return np.asarray(np.exp(mean + t.ppf(_LEVEL, degrees) * std * np.sqrt(1 + 1 / n)))
