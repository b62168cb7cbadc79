"""Differentially private gradient boosting inside ``lightgbm.train``."""

import gbdt_hosts.lightgbm  # noqa: F401
from gbdt_commons._version import __version__ as __version__
from gbdt_commons.statements.statement import Statement
from lgb_dp.accounting.budget import Budget
from lgb_dp.accounting.plotting import plot_budget, plot_utility
from lgb_dp.accounting.report import PrivacyReport, compose
from lgb_dp.auditing import AuditReport, audit
from lgb_dp.boosting.booster import DPBooster, privacy_of
from lgb_dp.boosting.folding import fold
from lgb_dp.bounds_check import check_bounds
from lgb_dp.data.dataset import Dataset
from lgb_dp.data.folds import folds
from lgb_dp.data.private_metadata import private_bounds, private_quantile_edges
from lgb_dp.dpboost.baselines import ParallelBoost, SequentialBoost
from lgb_dp.dpboost.trainer import DPBoost
from lgb_dp.errors import (
    AlteredModelError,
    ArgumentTypeError,
    BudgetExceededError,
    BudgetSpentError,
    ClusterError,
    FederatedCheckpointError,
    FewPartiesWarning,
    ForkedProcessError,
    InterruptedTrainingError,
    InvalidArgumentError,
    MissingDependencyError,
    NoGuaranteeError,
    NotPrivateWarning,
    PartiesDifferError,
    PartitionError,
    PrivacyLeakWarning,
    PrivateTrainingError,
    SchedulerLostError,
    UnsupportedParameterError,
    WideBoundsWarning,
    WorkersLostError,
)
from lgb_dp.estimators.models import DPLGBMClassifier, DPLGBMRegressor
from lgb_dp.estimators.search import DPRandomizedSearchCV
from lgb_dp.mboost.forests import RandomForestExponential, RandomForestLaplace
from lgb_dp.mboost.loss import MLoss
from lgb_dp.mboost.trainer import MBoost
from lgb_dp.newton.trainer import NewtonBoost
from lgb_dp.statements import statement

__all__ = [
    "AlteredModelError",
    "ArgumentTypeError",
    "AuditReport",
    "Budget",
    "BudgetExceededError",
    "BudgetSpentError",
    "ClusterError",
    "DPBoost",
    "DPBooster",
    "DPLGBMClassifier",
    "DPLGBMRegressor",
    "DPRandomizedSearchCV",
    "Dataset",
    "FederatedCheckpointError",
    "FewPartiesWarning",
    "ForkedProcessError",
    "InterruptedTrainingError",
    "InvalidArgumentError",
    "MBoost",
    "MLoss",
    "MissingDependencyError",
    "NewtonBoost",
    "NoGuaranteeError",
    "NotPrivateWarning",
    "ParallelBoost",
    "PartiesDifferError",
    "PartitionError",
    "PrivacyLeakWarning",
    "PrivacyReport",
    "PrivateTrainingError",
    "RandomForestExponential",
    "RandomForestLaplace",
    "SchedulerLostError",
    "SequentialBoost",
    "Statement",
    "UnsupportedParameterError",
    "WideBoundsWarning",
    "WorkersLostError",
    "audit",
    "check_bounds",
    "compose",
    "fold",
    "folds",
    "plot_budget",
    "plot_utility",
    "privacy_of",
    "private_bounds",
    "private_quantile_edges",
    "statement",
]
