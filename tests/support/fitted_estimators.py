"""Estimators that are fitted with one passive party."""

from vertical_training import problem
from xgb_fed import LocalParty, Plain, VerticalXGBClassifier

NEW, NEW_Y = problem(n=150, missing=0.1, seed=1)

X, Y = problem(n=300, missing=0.1)
SMALL = {"n_estimators": 4, "max_depth": 3, "max_bin": 8}


def party(**kwargs):
    return LocalParty(X[:, 3:], "bank", **{"allow_export": True, **kwargs})


def classifier(**kwargs):
    return VerticalXGBClassifier(**{**SMALL, **kwargs}, cipher=Plain())


def stock_model(cls, y=Y, **kwargs):
    """XGBoost's estimator, cut as `QuantileDMatrix` cuts."""
    return cls(**{**SMALL, **kwargs}, n_jobs=1, tree_method="hist").fit(X, y)
