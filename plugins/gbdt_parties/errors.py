"""What can go wrong between organisations."""

from __future__ import annotations

import traceback

from gbdt_kernels.errors import VeilboostError


class PartyError(VeilboostError):
    """Base of everything that goes wrong between organisations."""


class InvalidDataError(PartyError, ValueError):
    """A matrix, label or weight that cannot be trained on or predicted for."""


class ProtocolError(PartyError, RuntimeError):
    """A message that breaks the protocol: malformed, replayed, out of order, or impossible in content."""


class PartyRefusedError(ProtocolError):
    """A party answered that it will not, or cannot, do what it was asked."""


class ConsentError(PartyRefusedError):
    """A party does not consent to reveal its part of the model."""


class PartyUnavailableError(PartyError, ConnectionError):
    """A party is dead, silent or out of reach; the text names it."""


class SessionLostError(PartyUnavailableError):
    """A party answers, but knows nothing of the session: it was restarted."""


class AuthenticationError(ProtocolError):
    """The other side's certificate is not one to talk to, or it does not take ours."""


def places_of(error: BaseException) -> str:
    """Kind of an error and where it came by, for logs: without its text, which may quote data."""
    lines = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__} at {lines}"
