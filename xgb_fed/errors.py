"""The errors and warnings of federated training."""

from __future__ import annotations

from gbdt_commons.errors import VeilboostError


class FederatedTrainingError(VeilboostError):
    """Base of the errors of `xgb_fed`; between parties there are `PartyError` and those under it."""


class InvalidArgumentError(FederatedTrainingError, ValueError):
    """An argument has a value that is not accepted."""


class ArgumentTypeError(FederatedTrainingError, TypeError):
    """An argument is of a type that is not accepted."""


class UnsupportedParameterError(InvalidArgumentError):
    """A parameter, or a value of one, is not supported by federated training."""


class CheckpointError(FederatedTrainingError, ValueError):
    """A checkpoint directory cannot be read, or belongs to another training run."""


class CipherError(FederatedTrainingError, ValueError):
    """Base of the errors of the ciphers."""


class WeakKeyError(CipherError):
    """The key is shorter than today's minimum, and weak keys were not allowed."""


class PlaintextRangeError(CipherError):
    """A plaintext is negative, or not below the cipher's limit."""


class WrongKeyError(CipherError):
    """The data was encrypted or written with another key or scheme."""


class VersionError(CipherError):
    """The data was written in a format version that this release does not read."""


class CorruptDataError(CipherError):
    """The data is truncated, altered, or not in veilboost's format."""


class InvalidCiphertextError(CipherError):
    """A ciphertext is not a reduced, invertible residue of its modulus."""


class PackingError(CipherError):
    """The plaintext space is too small for the sums that training may need."""


class MissingDependencyError(FederatedTrainingError, ImportError):
    """An optional package that the called function needs is not installed."""


class ClusterError(FederatedTrainingError, RuntimeError):
    """A Dask cluster cannot do its part of a party's work."""


class InsecureClusterError(ClusterError, ValueError):
    """A secret key would have to be sent to a cluster that does not use TLS."""


class WorkersLostError(ClusterError):
    """No worker of the cluster was left, and none came within the timeout."""


class SchedulerLostError(ClusterError):
    """The cluster's scheduler could not be reached within the timeout."""


class PartitionError(ClusterError):
    """A partition could not be computed, or another time gave other rows."""


class LabelLeakWarning(UserWarning):
    """A setting was chosen that lets passive parties infer labels."""


class HeuristicProtectionWarning(UserWarning):
    """Rows and labels are protected by a heuristic only, and others may infer them (SimFL)."""


class FewPartiesWarning(UserWarning):
    """There are so few parties that sums protect them less than it may seem."""


class NotEncryptedWarning(UserWarning):
    """A training run without encryption was asked for."""


class NoPartiesWarning(UserWarning):
    """Training was asked for without other parties; the model is this party's alone."""
