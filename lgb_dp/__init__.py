"""Differentially private gradient boosting inside ``lightgbm.train``."""

from lgb_dp.baselines import ParallelBoost, SequentialBoost
from lgb_dp.booster import privacy_of
from lgb_dp.composition import compose
from lgb_dp.dataset import Dataset
from lgb_dp.dpboost import DPBoost
from lgb_dp.errors import (
    AlteredModelError,
    NoGuaranteeError,
    NotPrivateWarning,
    PrivacyLeakWarning,
    UnsupportedParameterError,
)
from lgb_dp.estimators import DPLGBMClassifier, DPLGBMRegressor
from lgb_dp.folds import folds
from lgb_dp.ledger import PrivacyReport
from lgb_dp.mboost import MBoost
from lgb_dp.metadata import private_bounds, private_quantile_edges
from lgb_dp.mloss import MLoss
from lgb_dp.newton import NewtonBoost
from lgb_dp.plotting import plot_budget, plot_utility
from lgb_dp.random_forest import RandomForestExponential, RandomForestLaplace
from lgb_dp.search import DPRandomizedSearchCV

__version__ = "0.1.0"

__all__ = [
    "AlteredModelError",
    "DPBoost",
    "DPLGBMClassifier",
    "DPLGBMRegressor",
    "DPRandomizedSearchCV",
    "Dataset",
    "MBoost",
    "MLoss",
    "NewtonBoost",
    "NoGuaranteeError",
    "NotPrivateWarning",
    "ParallelBoost",
    "PrivacyLeakWarning",
    "PrivacyReport",
    "RandomForestExponential",
    "RandomForestLaplace",
    "SequentialBoost",
    "UnsupportedParameterError",
    "compose",
    "folds",
    "plot_budget",
    "plot_utility",
    "privacy_of",
    "private_bounds",
    "private_quantile_edges",
]
