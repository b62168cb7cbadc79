"""What can be wrong with data, parameters, keys, ciphertexts and messages."""

from __future__ import annotations

import traceback


class CipherError(ValueError):
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


class InvalidDataError(ValueError):
    """A matrix, label or weight that cannot be trained on or predicted for."""


class UnsupportedParameterError(ValueError):
    """A parameter, or a value of one, that federated training does not honour."""


class ProtocolError(RuntimeError):
    """A message that breaks the protocol: malformed, replayed, out of order, or impossible in content."""


class PartyRefused(ProtocolError):
    """A party answered that it will not, or cannot, do what it was asked."""


class ConsentError(PartyRefused):
    """A party does not consent to reveal its part of the model."""


class CheckpointError(ValueError):
    """A checkpoint directory that cannot be read, or is another training's."""


class PartyUnavailable(ConnectionError):
    """A party is dead, silent or out of reach; the text names it."""


class SessionLost(PartyUnavailable):
    """A party answers, but knows nothing of the session: it was restarted."""


class AuthenticationError(ProtocolError):
    """The other side's certificate is not one to talk to, or it does not take ours."""


class LabelLeakWarning(UserWarning):
    """Something was asked for that lets passive parties infer labels."""


class NotEncryptedWarning(UserWarning):
    """Training without encryption was asked for."""


def places_of(error: BaseException) -> str:
    """Kind of an error and where it came by, for logs: without its text, which may quote data."""
    lines = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__} at {lines}"
