"""Differentially private gradient boosting inside ``lightgbm.train``."""

from lgb_dp.baselines import ParallelBoost, SequentialBoost
from lgb_dp.booster import privacy_of
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
from lgb_dp.newton import NewtonBoost

__version__ = "0.1.0"

__all__ = [
    "AlteredModelError",
    "DPBoost",
    "DPLGBMClassifier",
    "DPLGBMRegressor",
    "Dataset",
    "NewtonBoost",
    "NoGuaranteeError",
    "NotPrivateWarning",
    "ParallelBoost",
    "PrivacyLeakWarning",
    "PrivacyReport",
    "SequentialBoost",
    "UnsupportedParameterError",
    "folds",
    "privacy_of",
]
