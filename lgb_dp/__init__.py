"""Differentially private gradient boosting inside ``lightgbm.train``."""

from typing import TYPE_CHECKING

from gbdt_commons._version import __version__ as __version__
from gbdt_commons.public.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
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
    from lgb_dp.dpboost.trainer import DPBoost, ParallelBoost, SequentialBoost
    from lgb_dp.errors import (
        AlteredModelError,
        ArgumentTypeError,
        BudgetExceededError,
        ClusterError,
        FederatedCheckpointError,
        FewPartiesWarning,
        ForkedProcessError,
        IgnoredParameterWarning,
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
    from lgb_dp.host_errors import BudgetSpentError, InterruptedTrainingError
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
    "IgnoredParameterWarning",
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

_NAMES_OF = {
    "gbdt_commons.statements.statement": ("Statement",),
    "lgb_dp.accounting.budget": ("Budget",),
    "lgb_dp.accounting.plotting": (
        "plot_budget",
        "plot_utility",
    ),
    "lgb_dp.accounting.report": (
        "PrivacyReport",
        "compose",
    ),
    "lgb_dp.auditing": (
        "AuditReport",
        "audit",
    ),
    "lgb_dp.boosting.booster": (
        "DPBooster",
        "privacy_of",
    ),
    "lgb_dp.boosting.folding": ("fold",),
    "lgb_dp.bounds_check": ("check_bounds",),
    "lgb_dp.data.dataset": ("Dataset",),
    "lgb_dp.data.folds": ("folds",),
    "lgb_dp.data.private_metadata": (
        "private_bounds",
        "private_quantile_edges",
    ),
    "lgb_dp.dpboost.trainer": (
        "DPBoost",
        "ParallelBoost",
        "SequentialBoost",
    ),
    "lgb_dp.errors": (
        "AlteredModelError",
        "ArgumentTypeError",
        "BudgetExceededError",
        "ClusterError",
        "FederatedCheckpointError",
        "FewPartiesWarning",
        "ForkedProcessError",
        "IgnoredParameterWarning",
        "InvalidArgumentError",
        "MissingDependencyError",
        "NoGuaranteeError",
        "NotPrivateWarning",
        "PartiesDifferError",
        "PartitionError",
        "PrivacyLeakWarning",
        "PrivateTrainingError",
        "SchedulerLostError",
        "UnsupportedParameterError",
        "WideBoundsWarning",
        "WorkersLostError",
    ),
    "lgb_dp.host_errors": ("BudgetSpentError", "InterruptedTrainingError"),
    "lgb_dp.estimators.models": (
        "DPLGBMClassifier",
        "DPLGBMRegressor",
    ),
    "lgb_dp.estimators.search": ("DPRandomizedSearchCV",),
    "lgb_dp.mboost.forests": (
        "RandomForestExponential",
        "RandomForestLaplace",
    ),
    "lgb_dp.mboost.loss": ("MLoss",),
    "lgb_dp.mboost.trainer": ("MBoost",),
    "lgb_dp.newton.trainer": ("NewtonBoost",),
    "lgb_dp.statements": ("statement",),
}
"""Where each public name is defined, by module."""

__getattr__, __dir__ = _lazy_names(globals(), _NAMES_OF, before="gbdt_hosts.lightgbm.host")
