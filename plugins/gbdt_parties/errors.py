"""The errors that occur between organisations."""

from __future__ import annotations

from gbdt_commons.errors import VeilboostError
from gbdt_commons.errors import places_of as places_of


class PartyError(VeilboostError):
    """Base of everything that goes wrong between organisations."""


class PartyArgumentError(PartyError, ValueError):
    """An argument about parties, addresses or certificates has a value that is not accepted."""


class HardwareKeyError(PartyArgumentError):
    """A certificate's key is in hardware, or wrapped, so that it cannot sign the keys of a session here."""


class PartyArgumentTypeError(PartyError, TypeError):
    """An argument about parties is of a type that is not accepted."""


class InvalidDataError(PartyError, ValueError):
    """A matrix, label or weight cannot be used for training or prediction."""


class RowMismatchError(InvalidDataError):
    """Parties have other rows than each other, or the same ones in another order."""


class ProtocolError(PartyError, RuntimeError):
    """A message breaks the protocol: malformed, replayed, out of order, or impossible in content."""


class SumRangeError(ProtocolError):
    """A sum over parties is larger than what honest parties can add up to; the attempt has failed."""


class TransferCheckError(ProtocolError):
    """A check on oblivious transfers failed: the other side deviated, and the session is over."""


class PartyRefusedError(ProtocolError):
    """A party answered that it cannot or will not do what it was asked."""


class ConsentError(PartyRefusedError):
    """A party does not consent to reveal its part of the model."""


class RunLostError(PartyRefusedError):
    """A party does not know a run any more: it has ended there, or the party's state was removed."""


class PartyUnavailableError(PartyError, ConnectionError):
    """A party is down, silent or out of reach; the text names it."""


class SessionLostError(PartyUnavailableError):
    """A party answers, but does not know the session, because it was restarted."""


class AuthenticationError(ProtocolError):
    """A certificate was not accepted: the other side's by this one, or this one's by the other side."""
