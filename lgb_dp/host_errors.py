"""Errors that also derive from LightGBM's own, which callers of its boosters expect."""

from lightgbm.basic import LightGBMError

from lgb_dp.errors import PrivateTrainingError


class BudgetSpentError(PrivateTrainingError, LightGBMError):
    """More iterations were asked of a booster than its budget was planned for."""


class InterruptedTrainingError(PrivateTrainingError, LightGBMError):
    """A training run was interrupted at a point from which it cannot continue."""
