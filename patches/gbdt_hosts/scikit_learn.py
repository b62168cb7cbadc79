"""A mixin for estimators whose constructor takes a host library's keywords beside its own parameters.

Scikit-learn finds an estimator's parameters in the constructor's signature, where ``**keywords`` do not
appear.  LightGBM's and XGBoost's estimators solve this in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator


class KeywordParameters:
    """Lets ``get_params``, ``set_params`` and ``clone`` see keywords; stands left of ``BaseEstimator``.

    Values are kept as they are given: `fit` is what judges them, so that a search can set them in any order.
    `BaseEstimator` is asked by name: behind this class there may be the host's estimator, which keeps its
    parameters in another way.
    """

    _keywords: dict[str, Any]

    def _keep_keywords(self, keywords: Mapping[str, Any]) -> None:
        """Store what the constructor was given beyond its own parameters."""
        self._keywords = dict(keywords)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, the host library's keywords included."""
        return {**BaseEstimator.get_params(self, deep), **self._keywords}

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name; names that are not the estimator's own are the host library's.

        Returns
        -------
        self
        """
        own = BaseEstimator.get_params(self, deep=True)
        given = {name: value for name, value in params.items() if name in own or "__" in name}
        BaseEstimator.set_params(self, **given)
        self._keywords.update((name, value) for name, value in params.items() if name not in given)
        return self
