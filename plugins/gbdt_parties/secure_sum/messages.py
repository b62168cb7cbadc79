"""Messages between the coordinator and the parties of a run of secure sums, whatever the sums are of."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

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


class OpenRun(Message, kind=201):
    """Coordinator to party: takes up a run, new or known; each way of training has a kind of its own."""

    run: Octets
    """16 bytes, drawn by the coordinator; a secure sum calls it the session."""
    request: Text
    """JSON: the settings that are known before the parties describe themselves."""
    n_known: NumberOrNone
    """Sums of the run that the coordinator has; -1 if it has not begun."""


class Introduced(Message, kind=202):
    """Party to coordinator: its keys for the run, and a description of its columns."""

    introduction: Octets
    """Name, certificates, nonce, public keys, commitment to a seed, key of ML-KEM-768."""
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


class ProposeRoster(Message, kind=203):
    """Coordinator to party: what is to be trained, and all introductions, to be checked and signed."""

    task: Text
    """JSON: the public settings that follow from the descriptions; empty if the request was all of them."""
    roster: Octets
    """Session, digest of the settings, and all parties' introductions; every party sees it."""


class Endorsed(Message, kind=204):
    """Party to coordinator: its certificate's signature of the roster."""

    signature: Octets
    """Of the roster's digest; passed on to every party."""
    ciphertexts: Octets = b""
    """Of sums: a signature by the session's key, and for each party before this one in the roster a
    ciphertext of ML-KEM-768, which that party alone is sent; its digest, every one."""


class ConfirmRoster(Message, kind=205):
    """Coordinator to party: all parties' signatures."""

    signatures: Octets
    """In the roster's order."""
    ciphertexts: Octets = b""
    """Of sums: each party's signature and digests of its ciphertexts, and those that are for this party."""


class Revealed(Message, kind=206):
    """Party to coordinator: the seed to which it committed itself."""

    seed: Octets
    """32 bytes, passed on to every party; nothing secret depends on it."""


class BeginRounds(Message, kind=207):
    """Coordinator to party: all parties' seeds; the first question follows."""

    seeds: Octets
    """In the roster's order; the public stream follows from them."""


class AskSum(Message, kind=208):
    """Coordinator to party: what the last round's sum consists of, and the attempt to answer now."""

    round: Integer
    """The number of sums opened so far."""
    number: Annotated[int, "i", 0, (1 << 63) - 1]
    """Of the attempt, throughout the run, also where a coordinator has lost count."""
    members: Annotated[NDArray[np.int32], "I", 0, MAX_PARTIES]
    """Places in the roster, ascending."""
    opened: Octets
    """All members' signed contributions to the round before (`Opened`), or nothing."""


class Contributed(Message, kind=209):
    """Party to coordinator: its masked vector, signed; nothing if training has ended."""

    content: Octets
    """Head, masked values, signature; it says nothing but together with those of all other members."""


class OpenSum(Message, kind=210):
    """Coordinator to party: the contributions to a round that it missed."""

    opened: Octets
    """All members' signed contributions to one round (`Opened`)."""


class AskModel(Message, kind=211):
    """Coordinator to party: asks for the model when training has ended."""

    whole: Flag
    """1 for the whole model, 0 for its digest alone."""


class FinishedModel(Message, kind=212):
    """Party to coordinator: the result of the run, and the party's signature of this end of it."""

    digests: Octets
    """SHA-256 of each part of the result."""
    transcript: Octets
    """32 bytes that stand for the roster and for all attempts and sums that the party has opened."""
    signature: Octets
    """By the session's key, of roster, transcript and digests; a party signs one end of a run."""
    content: Octets
    """The parts: the model; in exact training JSON of cuts and metrics, too.  Empty if not asked for."""


class EndRun(Message, kind=200):
    """Coordinator to party: who has signed the end; the party keeps the model and forgets the run's keys."""

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
