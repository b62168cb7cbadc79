"""The M-loss, a family of proper losses between Matsushita's loss and the 0/1 loss.

Nock and Henecka, "Boosted and Differentially Private Ensembles of Decision
Trees", 2020, Definition 6, Theorem 8 and Figure 1.  With u the probability of
the positive class, z = y H(x) a margin, and d = 2(1 - α) half the width of the
flat part of the inverse link:

* partial losses  ℓ₁(u) = α √((1-u)/u) + d ([u < ½] + ½ [u = ½]),  ℓ₋₁(u) = ℓ₁(1 - u)
* Bayes risk      L(u) = 2α √(u(1-u)) + d min(u, 1-u),  L(½) = 1
* canonical link  ψ(u) = -L'(u) = α (2u-1) / √(u(1-u)) + d sign(u - ½)
* inverse link    ψ⁻¹(z) = ½ + ½ z' / √(4α² + z'²),  z' = sign(z) max(|z| - d, 0)
* surrogate       F(z) = sup_u (L(u) - z u), and the weight of an example, -F'(z) = ψ⁻¹(-z)

α = 1 is Matsushita's loss.  As α → 0 the Bayes risk tends to that of the 0/1
loss, the link to 2 sign(u - ½) and the surrogate to max(1 - z/2, 0, -z); F is
then no longer smooth (F'' is up to 1/(4α)), so α = 0 itself is not accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lgb_dp.checks import checked_alpha, checked_numbers, checked_probabilities
from lgb_dp.errors import InvalidArgumentError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MLoss:
    """The M-loss with parameter α, also a custom objective of LightGBM.

    As an objective its gradient is that of F(y H(x)), y = ±1, and its hessian the constant 1/(4α), the
    largest F'': F'' itself is 0 on the flat part.  A leaf value is then 4α E[w y] over the leaf's rows, the
    paper's leveraging coefficient with a = 1 (Section 5), and never increases F, up to a learning rate of 2.

    Parameters
    ----------
    alpha : float
        In (0, 1].

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If `alpha` is not such a number.

    Examples
    --------
    >>> loss = lgb_dp.MLoss(0.5)                                                        # doctest: +SKIP
    >>> booster = lightgbm.train({"objective": loss}, lightgbm.Dataset(X, y), feval=loss.metric)
    ...                                                                                 # doctest: +SKIP
    >>> probability = loss.inverse_link(booster.predict(X))                             # doctest: +SKIP
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", checked_alpha(self.alpha))

    @property
    def flat(self) -> float:
        """Scores of at most this size are all read as probability ½: d = 2(1 - α)."""
        return 2.0 * (1.0 - self.alpha)

    def partial_losses(self, u: ArrayLike) -> tuple[Floats, Floats]:
        """Loss of stating the probability `u`, if the class turns out positive and if negative.

        Parameters
        ----------
        u : array-like of float
            Probabilities of the positive class, in [0, 1].

        Returns
        -------
        positive, negative : ndarray of float64, of the shape of `u`
            inf where the other class was certain.

        Raises
        ------
        InvalidArgumentError
            If `u` is not in [0, 1].
        """
        u = checked_probabilities("u", u)
        return self._positive_loss(u, 1.0 - u), self._positive_loss(1.0 - u, u)

    def _positive_loss(self, u: Floats, rest: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            smooth = np.sqrt(rest) / np.sqrt(u)
        return self.alpha * smooth + self.flat * (0.5 + 0.5 * np.sign(0.5 - u))

    def bayes_risk(self, u: ArrayLike) -> Floats:
        """Smallest expected loss L(u) where the positive class has probability `u`.

        Parameters
        ----------
        u : array-like of float
            Probabilities of the positive class, in [0, 1].

        Returns
        -------
        ndarray of float64, of the same shape
            In [0, 1].

        Raises
        ------
        InvalidArgumentError
            If `u` is not in [0, 1].
        """
        u = checked_probabilities("u", u)
        return 2.0 * self.alpha * np.sqrt(u * (1.0 - u)) + self.flat * np.minimum(u, 1.0 - u)

    def link(self, u: ArrayLike) -> Floats:
        """Score ψ(u) of a probability; ±inf at 1 and 0.

        Parameters
        ----------
        u : array-like of float
            Probabilities of the positive class, in [0, 1].

        Returns
        -------
        ndarray of float64, of the same shape

        Raises
        ------
        InvalidArgumentError
            If `u` is not in [0, 1].
        """
        u = checked_probabilities("u", u)
        with np.errstate(divide="ignore"):
            return self.alpha * (2.0 * u - 1.0) / np.sqrt(u * (1.0 - u)) + self.flat * np.sign(u - 0.5)

    def inverse_link(self, z: ArrayLike) -> Floats:
        """Probability ψ⁻¹(z) of a score.

        The smaller of ψ⁻¹(z) and 1 - ψ⁻¹(z) is computed first, as ``2α² / (r (r + |z'|))`` with
        r = √(4α² + z'²): no cancellation, no overflow.

        Parameters
        ----------
        z : array-like of float
            Raw scores.

        Returns
        -------
        ndarray of float64, of the same shape
            Probabilities of the positive class.
        """
        score: Floats = np.asarray(z, dtype=np.float64)
        beyond = np.maximum(np.abs(score) - self.flat, 0.0)
        r = np.hypot(2.0 * self.alpha, beyond)
        smaller = (2.0 * self.alpha / r) * (self.alpha / (r + beyond))
        return np.asarray(np.where(score > 0, 1.0 - smaller, smaller))

    def weight(self, margin: ArrayLike) -> Floats:
        """Boosting weight ψ⁻¹(-z) ∈ [0, 1] of an example with margin z = y H(x); ½ at 0 (mirror update).

        Parameters
        ----------
        margin : array-like of float
            y H(x), labels as ±1.

        Returns
        -------
        ndarray of float64, of the same shape
        """
        return self.inverse_link(-np.asarray(margin, dtype=np.float64))

    def surrogate(self, margin: ArrayLike) -> Floats:
        """Convex surrogate F(z) of a margin; F(0) = 1.

        Parameters
        ----------
        margin : array-like of float
            y H(x), labels as ±1.

        Returns
        -------
        ndarray of float64, of the same shape
        """
        z = np.asarray(margin, dtype=np.float64)
        beyond = np.maximum(np.abs(z) - self.flat, 0.0)
        r = np.hypot(2.0 * self.alpha, beyond)
        wrong = self.flat + 0.5 * beyond + 0.5 * r
        right = (2.0 * self.alpha / (r + beyond)) * self.alpha
        flat = 1.0 - 0.5 * z
        return np.where(np.abs(z) <= self.flat, flat, np.where(z < 0, wrong, right))

    def curvature(self, margin: ArrayLike) -> Floats:
        """F''(z) = 2α² / (4α² + z'²)^(3/2), at most 1/(4α), and 0 on the flat part.

        Parameters
        ----------
        margin : array-like of float
            y H(x), labels as ±1.

        Returns
        -------
        ndarray of float64, of the same shape
        """
        z = np.asarray(margin, dtype=np.float64)
        r = np.hypot(2.0 * self.alpha, np.maximum(np.abs(z) - self.flat, 0.0))
        return np.where(np.abs(z) < self.flat, 0.0, 2.0 * (self.alpha / r) ** 2 / r)

    # Calls of LightGBM.

    def __call__(self, predicted: Any, data: Any) -> tuple[Floats, Floats]:
        """Gradient and hessian, for ``lightgbm.train`` or for its scikit-learn estimators.

        Parameters
        ----------
        predicted : ndarray of float64, shape (n_rows,)
            Raw scores; from the estimators, the labels.
        data : lightgbm.Dataset
            With labels 0 and 1; from the estimators, the raw scores, and row weights are theirs.

        Raises
        ------
        InvalidArgumentError
            If labels are not 0 and 1, or there is more than one score per row.
        """
        score, sign, weight = _scores_and_signs(predicted, data)
        return -weight * sign * self.weight(sign * score), weight / (4.0 * self.alpha)

    def metric(self, predicted: Any, data: Any) -> tuple[str, float, bool]:
        """Mean of F(y H(x)) over the rows, by weight: a `feval` for ``lightgbm.train``.

        Parameters
        ----------
        predicted, data
            As of `__call__`.

        Returns
        -------
        name, value, is_higher_better : str, float, False
        """
        score, sign, weight = _scores_and_signs(predicted, data)
        return "m_loss", float(np.average(self.surrogate(sign * score), weights=weight)), False


def _scores_and_signs(predicted: Any, data: Any) -> tuple[Floats, Floats, Floats]:
    """Raw scores, labels as ±1 and weights, from either of LightGBM's two calling conventions."""
    if isinstance(data, lightgbm.Dataset):
        score, label, weight = predicted, data.get_label(), data.get_weight()
    else:
        score, label, weight = data, predicted, None
    score, label = checked_numbers("scores", score), checked_numbers("labels", label)
    if score.shape != label.shape:
        raise InvalidArgumentError(
            f"the M-loss is binary: {label.size} labels need as many scores, got {score.size}"
        )
    if not ((label == 0) | (label == 1)).all():
        raise InvalidArgumentError("labels of the M-loss must be 0 or 1")
    ones = np.ones(len(label))
    return score, 2.0 * label - 1.0, ones if weight is None else np.asarray(weight, dtype=np.float64)
