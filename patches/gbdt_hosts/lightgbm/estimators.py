"""LightGBM's estimators as a kind: what tools ask for by `isinstance`, with nothing of how they train.

`shap.TreeExplainer`, `lightgbm.plot_importance` and others take an estimator that is one of LightGBM's, and
then read its `booster_` and some fitted attributes.  Estimators that train in another way derive from its
classes for that reason only: they do not call their constructors, which set LightGBM's parameters, and have
methods of their own for everything that reads these.
"""

from __future__ import annotations

from typing import Any

import lightgbm

import gbdt_hosts.lightgbm.host  # noqa: F401

# Untyped on purpose: constructor and `fit` have other parameters, which no caller of LightGBM's relies on.
ClassifierKind: Any = lightgbm.LGBMClassifier
RegressorKind: Any = lightgbm.LGBMRegressor


class FittedAttribute:
    """An attribute that a fit sets, and that does not exist before; hides the property of LightGBM's class.

    It has no ``__set__``, so that Python reads the instance's own attribute first.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        raise AttributeError(f"{type(instance).__name__!r} object has no attribute {self._name!r}")
