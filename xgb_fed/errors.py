"""What can be wrong with data, parameters, keys, ciphertexts and messages."""

from __future__ import annotations

from gbdt_kernels.errors import VeilboostError


class FederatedTrainingError(VeilboostError):
    """Base of what federated training refuses, beside `gbdt_parties.errors.PartyError`."""


class CipherError(FederatedTrainingError, ValueError):
    """Any refusal of the ciphers."""


class WeakKeyError(CipherError):
    """The key is shorter than today's minimum, and nobody said that this is all right."""


class PlaintextRangeError(CipherError):
    """A plaintext is negative or not below the cipher's limit."""


class WrongKeyError(CipherError):
    """The data belongs to another key or scheme."""


class VersionError(CipherError):
    """The data was written in a format version that this release does not read."""


class CorruptDataError(CipherError):
    """The data is truncated, altered, or not ours at all."""


class InvalidCiphertextError(CipherError):
    """A ciphertext is not a reduced, invertible residue of its modulus."""


class PackingError(CipherError):
    """The plaintext space is too small for the sums that training may need."""


class UnsupportedParameterError(FederatedTrainingError, ValueError):
    """A parameter, or a value of one, that federated training does not honour."""


class CheckpointError(FederatedTrainingError, ValueError):
    """A checkpoint directory that cannot be read, or is another training's."""


class LabelLeakWarning(UserWarning):
    """Something was asked for that lets passive parties infer labels."""


class NotEncryptedWarning(UserWarning):
    """Training without encryption was asked for."""
