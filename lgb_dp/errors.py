"""Every error and warning that private training raises on purpose.

All errors derive from `PrivateTrainingError`.  Most also derive from the built-in error that callers of
LightGBM and scikit-learn expect in the same situation; those that derive from LightGBM's own are in
`lgb_dp.host_errors`, since a party's ledger is read without LightGBM.
"""

from gbdt_commons.errors import VeilboostError


class PrivacyLeakWarning(UserWarning):
    """Something that must be public was read from private data, which voids the guarantee."""


class NotPrivateWarning(UserWarning):
    """Something that the user asked for is not covered by the guarantee."""


class IgnoredParameterWarning(UserWarning):
    """A parameter of LightGBM was given with its default, which private trees do not keep to."""


class WideBoundsWarning(UserWarning):
    """Warning that bounds are so wide, by the releases, that nearly all rows fall into few bins."""


class FewPartiesWarning(UserWarning):
    """So few parties take part that what one of them learns is less protected than what outsiders learn."""


class PrivateTrainingError(VeilboostError):
    """Base of all errors of `lgb_dp`."""


class InvalidArgumentError(PrivateTrainingError, ValueError):
    """An argument has a value that is not accepted; the message names both, and the values accepted."""


class ArgumentTypeError(PrivateTrainingError, TypeError):
    """An argument is of a type that is not accepted; the message names both, and the values accepted."""


class UnsupportedParameterError(PrivateTrainingError, ValueError):
    """A LightGBM parameter was set to something that private training cannot honour."""


class NoGuaranteeError(PrivateTrainingError, ValueError):
    """A model carries no privacy guarantee."""


class AlteredModelError(PrivateTrainingError, ValueError):
    """A model's trees are not those that its privacy guarantee describes."""


class BudgetExceededError(PrivateTrainingError, ValueError):
    """A result would cost more than is left of the `Budget` that pays for it."""


class ForkedProcessError(PrivateTrainingError, RuntimeError):
    """A training run was continued in a forked process, which would draw the same noise as its parent."""


class MissingDependencyError(PrivateTrainingError, ImportError):
    """An optional package that the called function needs is not installed."""


class ClusterError(PrivateTrainingError, RuntimeError):
    """Training on a cluster cannot go on; the trainer's `booster_` holds the model so far and its report."""


class WorkersLostError(ClusterError):
    """No worker of the cluster was left, and none came within the timeout."""


class SchedulerLostError(ClusterError):
    """The cluster's scheduler could not be reached within the timeout."""


class PartitionError(ClusterError):
    """A partition could not be computed, or another time gave other rows."""


class PartiesDifferError(InvalidArgumentError):
    """Parties that are to train together declare different columns, types, bounds or labels."""


class FederatedCheckpointError(PrivateTrainingError, ValueError):
    """A coordinator's checkpoint is of another training run, in use, or damaged."""
