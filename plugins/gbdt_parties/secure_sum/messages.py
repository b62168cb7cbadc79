"""Messages between the coordinator and the parties of a run of secure sums, whatever the sums are of."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import Flag, Integer, Message, NumberOrNone, Octets, Text

_PRESENCE = b"veilboost secure sum presence 1\0"
_OPENED = struct.Struct("<QQH")
_LENGTH = struct.Struct("<Q")


MAX_PARTIES = 1000
NEW_RUN = -1
"""In `OpenRun`: the run has not begun."""


@dataclass(frozen=True, eq=False)
class OpenRun(Message):
    """Coordinator to party: takes up a run, new or known; each way of training has a kind of its own."""

    kind: ClassVar[int] = 201
    run: Octets
    """16 bytes, drawn by the coordinator; a secure sum calls it the session."""
    request: Text
    """JSON: the settings that are known before the parties describe themselves."""
    n_known: NumberOrNone
    """Sums of the run that the coordinator has; -1 if it has not begun."""


@dataclass(frozen=True, eq=False)
class Introduced(Message):
    """Party to coordinator: its keys for the run, and a description of its columns."""

    kind: ClassVar[int] = 202
    introduction: Octets
    """Name, certificates, nonce, public keys, commitment to a seed."""
    description: Text
    """JSON.  Exact training: columns, distinct labels if asked for, held-out sets.  Private training:
    digests of columns, types, bounds, labels, weights and unit."""
    n_opened: Integer
    """Sums of the run that the party has opened, at most as many as the coordinator has."""
    proof: Octets = b""
    """Its certificate's signature of the session's number and all of the above; empty with columns apart."""

    def digest(self, session: bytes) -> bytes:
        """32 bytes for the certificate to sign, which stand for what is said in a coordinator's session.

        An introduction alone proves nothing: certificates are no secret, and every party has seen it.
        """
        said = self.introduction, self.description.encode(), str(self.n_opened).encode()
        return hashlib.sha256(_PRESENCE + pack([session, *said])).digest()


@dataclass(frozen=True, eq=False)
class ProposeRoster(Message):
    """Coordinator to party: what is to be trained, and all introductions, to be checked and signed."""

    kind: ClassVar[int] = 203
    task: Text
    """JSON: the public settings that follow from the descriptions; empty if the request was all of them."""
    roster: Octets
    """Session, digest of the settings, and all parties' introductions; every party sees it."""


@dataclass(frozen=True, eq=False)
class Endorsed(Message):
    """Party to coordinator: its certificate's signature of the roster."""

    kind: ClassVar[int] = 204
    signature: Octets
    """Of the roster's digest; passed on to every party."""


@dataclass(frozen=True, eq=False)
class ConfirmRoster(Message):
    """Coordinator to party: all parties' signatures."""

    kind: ClassVar[int] = 205
    signatures: Octets
    """In the roster's order."""


@dataclass(frozen=True, eq=False)
class Revealed(Message):
    """Party to coordinator: the seed to which it committed itself."""

    kind: ClassVar[int] = 206
    seed: Octets
    """32 bytes, passed on to every party; nothing secret depends on it."""


@dataclass(frozen=True, eq=False)
class BeginRounds(Message):
    """Coordinator to party: all parties' seeds; the first question follows."""

    kind: ClassVar[int] = 207
    seeds: Octets
    """In the roster's order; the public stream follows from them."""


@dataclass(frozen=True, eq=False)
class AskSum(Message):
    """Coordinator to party: what the last round's sum consists of, and the attempt to answer now."""

    kind: ClassVar[int] = 208
    round: Integer
    """The number of sums opened so far."""
    number: Annotated[int, "i", 0, (1 << 63) - 1]
    """Of the attempt, throughout the run, also where a coordinator has lost count."""
    members: Annotated[NDArray[np.int32], "I", 0, MAX_PARTIES]
    """Places in the roster, ascending."""
    opened: Octets
    """All members' signed contributions to the round before (`Opened`), or nothing."""


@dataclass(frozen=True, eq=False)
class Contributed(Message):
    """Party to coordinator: its masked vector, signed; nothing if training has ended."""

    kind: ClassVar[int] = 209
    content: Octets
    """Head, masked values, signature; it says nothing but together with those of all other members."""


@dataclass(frozen=True, eq=False)
class OpenSum(Message):
    """Coordinator to party: the contributions to a round that it missed."""

    kind: ClassVar[int] = 210
    opened: Octets
    """All members' signed contributions to one round (`Opened`)."""


@dataclass(frozen=True, eq=False)
class AskModel(Message):
    """Coordinator to party: asks for the model when training has ended."""

    kind: ClassVar[int] = 211
    whole: Flag
    """1 for the whole model, 0 for its digest alone."""


@dataclass(frozen=True, eq=False)
class FinishedModel(Message):
    """Party to coordinator: the result of the run, and the party's signature of this end of it."""

    kind: ClassVar[int] = 212
    digests: Octets
    """SHA-256 of each part of the result."""
    transcript: Octets
    """32 bytes that stand for the roster and for all attempts and sums that the party has opened."""
    signature: Octets
    """By the session's key, of roster, transcript and digests; a party signs one end of a run."""
    content: Octets
    """The parts: the model; in exact training JSON of cuts and metrics, too.  Empty if not asked for."""


@dataclass(frozen=True, eq=False)
class EndRun(Message):
    """Coordinator to party: who has signed the end; the party keeps the model and forgets the run's keys."""

    kind: ClassVar[int] = 200
    signatures: Octets
    """In the roster's order, empty for a party that was lost; more than half of the parties must have signed,
    in exact training all."""


@dataclass(frozen=True)
class Opened:
    """The contributions to one attempt, complete over all members.

    Parameters
    ----------
    round, number : int
    contributions : mapping of place to bytes
    """

    round: int
    number: int
    contributions: Mapping[int, bytes]

    def to_bytes(self) -> bytes:
        """All of it."""
        places = sorted(self.contributions)
        head = _OPENED.pack(self.round, self.number, len(places))
        return head + struct.pack(f"<{len(places)}H", *places) + pack([self.contributions[p] for p in places])

    @classmethod
    def from_bytes(cls, data: bytes) -> Opened:
        """Read what `to_bytes` wrote; raises a ProtocolError if the bytes are anything else."""
        try:
            round_number, number, n = _OPENED.unpack_from(data)
            places = struct.unpack_from(f"<{n}H", data, _OPENED.size)
        except struct.error:
            raise ProtocolError("the contributions to a sum are cut off") from None
        contents = unpack(data[_OPENED.size + 2 * n :])
        if len(contents) != n or len(set(places)) != n:
            raise ProtocolError("the contributions to a sum are not one of each member")
        return cls(round_number, number, dict(zip(places, contents, strict=True)))


def pack(parts: Sequence[bytes]) -> bytes:
    """Several byte strings as one."""
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def unpack(data: bytes) -> list[bytes]:
    """Values that `pack` packed, of every party at most; a ProtocolError if the bytes are anything else."""
    parts, at = list[bytes](), 0
    while at < len(data):
        if len(parts) == MAX_PARTIES + 2:  # a roster has two beside its parties
            raise ProtocolError(f"a list of more than {len(parts)} byte strings")
        if at + _LENGTH.size > len(data):
            raise ProtocolError("a list of byte strings is cut off")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        if at > len(data):
            raise ProtocolError("a list of byte strings is cut off")
        parts.append(data[at - length : at])
    return parts
