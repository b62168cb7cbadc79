"""Which rows two organisations have in common, without showing each other the rest.

Private set intersection by Diffie–Hellman over an elliptic curve, through ``openmined-psi``: the active party
sends its ids blinded, the passive one blinds them again and sends its own blinded.  The active party sees
which of its ids are in both, and tells the passive one those.  So both learn the ids in common and the
number of the other's, and nothing else; whoever lies about its ids can try out others, which is why a
server limits how often it answers, and records it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gbdt_parties._files import write_atomically
from gbdt_parties.channel import Channel, Party, check_parties
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.messages import Integer, Message, Octets, Text
from gbdt_parties.traffic import Traffic

POINT_BYTES = 33
"""Of a blinded id: a compressed point of the curve P-256."""

_FLAG = b"\x08\x01"
_FIELD = b"\x12\x21"
"""How ``psi.Request`` writes that matches are revealed, and begins each point (field 2, 33 bytes)."""


@dataclass(frozen=True)
class Alignment:
    """Ids in the order in which all parties take their rows: sorted, so that it tells nothing.

    Attributes
    ----------
    ids : tuple of str
    """

    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check what makes the text of it unique."""
        if list(self.ids) != sorted(set(self.ids)) or any(not one or "\n" in one for one in self.ids):
            raise InvalidDataError("aligned ids must be sorted, different, and of one line each")

    @property
    def text(self) -> str:
        """The ids, one per line."""
        return "".join(f"{one}\n" for one in self.ids)

    @property
    def digest(self) -> bytes:
        """32 bytes that name these rows in requests (`RemoteParty` calls them a row set)."""
        return hashlib.sha256(self.text.encode()).digest()

    def positions(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Where the rows are among a party's.

        Raises
        ------
        InvalidDataError
            If the party has not all of them.
        """
        places = {one: k for k, one in enumerate(ids)}
        try:
            return np.array([places[one] for one in self.ids], dtype=np.int64)
        except KeyError:
            raise InvalidDataError("an aligned id is not in the data") from None

    def save(self, path: str | Path) -> None:
        """Write the ids."""
        write_atomically(path, self.text)

    @classmethod
    def load(cls, path: str | Path) -> Alignment:
        """Read what `save` wrote.

        Raises
        ------
        InvalidDataError
            If the file holds no such ids.
        OSError
            If it cannot be read.
        """
        try:
            return cls(tuple(Path(path).read_bytes().decode().split("\n")[:-1]))
        except UnicodeDecodeError:
            # Without the path: this text may go to another party.
            raise InvalidDataError("aligned ids are not text") from None


def align(parties: Sequence[Party], ids: Sequence[str], traffic: Traffic | None = None) -> Alignment:
    """Find the rows that this party and all passive ones have, and tell all of them.

    Parameters
    ----------
    parties : sequence of Party
        Behind servers that hold rows with ids.
    ids : sequence of str
        This party's, all different.
    traffic : Traffic, optional
        Counts the messages.

    Raises
    ------
    InvalidDataError
        If no row is held by all parties.
    ImportError
        Without ``openmined-psi``, the extra ``veilboost[psi]``.
    """
    import private_set_intersection.python as psi

    ids = list(ids)
    if len(set(ids)) != len(ids) or not ids:
        raise InvalidDataError(f"{len(ids)} ids, of which {len(set(ids))} are different")
    common = set(ids)
    channels = [Channel(p, os.urandom(16), traffic or Traffic()) for p in check_parties(parties)]
    for channel in channels:
        client = psi.client.CreateWithNewKey(True)
        blinded = client.CreateRequest(ids)
        answer = channel.ask(IntersectIds(blinded.SerializeToString(), len(ids)), BlindedIds)
        setup, response = psi.ServerSetup(), psi.Response()
        try:
            setup.ParseFromString(answer.setup)
            response.ParseFromString(answer.response)
            found = client.GetIntersection(setup, response)
        except Exception:
            # The bindings raise RuntimeError and protobuf's own errors.
            raise ProtocolError(f"party {channel.name!r}: its blinded ids are malformed") from None
        common &= {ids[k] for k in found}
    if not common:
        raise InvalidDataError("no row is held by all parties")
    alignment = Alignment(tuple(sorted(common)))
    for channel in channels:
        kept = channel.ask(AlignRows(alignment.text), RowsAligned)
        if kept.digest != alignment.digest:
            raise ProtocolError(f"party {channel.name!r} aligned other rows")
    return alignment


class Intersector:
    """The passive party's part, for one active party.

    Parameters
    ----------
    ids : sequence of str
    max_ids : int
        That the active party may ask about at once.
    """

    def __init__(self, ids: Sequence[str], max_ids: int) -> None:
        self._ids = ids
        self._max_ids = max_ids
        self._known = frozenset(ids)
        self._n_characters = sum(map(len, ids)) + len(ids)
        self._n_intersected = 0

    def blind(self, message: IntersectIds) -> BlindedIds:
        """Blind the other's ids again, and one's own, under a key for this one answer."""
        import private_set_intersection.python as psi

        if not 0 < message.n_ids <= self._max_ids:
            raise ProtocolError(f"this party intersects 1 to {self._max_ids} ids, not {message.n_ids}")
        if not _are_points(message.blinded, message.n_ids):
            raise ProtocolError(f"not {message.n_ids} blinded ids, as announced")
        server: Any = psi.server.CreateWithNewKey(True)
        request = psi.Request()
        try:
            request.ParseFromString(message.blinded)
            response = server.ProcessRequest(request)
        except Exception:
            # As above.
            raise ProtocolError("blinded ids are malformed") from None
        # RAW is exact: no false positives, sorted by its values.
        setup = server.CreateSetupMessage(0.0, message.n_ids, list(self._ids), psi.DataStructure.RAW)
        self._n_intersected = message.n_ids
        return BlindedIds(setup.SerializeToString(), response.SerializeToString())

    def accept(self, message: AlignRows) -> Alignment:
        """The rows in common, as the active party says: once after an intersection, and only known ones.

        Once even if it is refused: the difference between a refusal and an answer tells whose ids are known.
        """
        n_intersected, self._n_intersected = self._n_intersected, 0
        # Counted before it is taken apart: a text of line ends alone would become a hundred times its size.
        if not 0 < message.ids.count("\n") <= n_intersected or len(message.ids) > self._n_characters:
            raise ProtocolError("rows were aligned without an intersection, or more than were in it")
        alignment = Alignment(tuple(message.ids.split("\n")[:-1]))
        if alignment.text != message.ids:
            raise ProtocolError("rows were aligned without an intersection, or more than were in it")
        if not self._known.issuperset(alignment.ids):
            raise ProtocolError("rows were aligned that are not in common")
        return alignment


def _are_points(request: bytes, count: int) -> bool:
    """Whether a request holds so many points and nothing else.

    To be asked before it is parsed: one of empty fields would become fifty times its size in memory.
    """
    size = len(_FIELD) + POINT_BYTES
    if len(request) != len(_FLAG) + count * size or not request.startswith(_FLAG):
        return False
    fields = np.frombuffer(request, dtype=np.uint8, offset=len(_FLAG)).reshape(count, size)
    return bool((fields[:, : len(_FIELD)] == np.frombuffer(_FIELD, dtype=np.uint8)).all())


@dataclass(frozen=True, eq=False)
class IntersectIds(Message):
    """Active to passive: ids blinded for private set intersection."""

    kind: ClassVar[int] = 19
    blinded: Octets
    n_ids: Integer


@dataclass(frozen=True, eq=False)
class BlindedIds(Message):
    """Passive to active: its own ids blinded, and the other's blinded once more."""

    kind: ClassVar[int] = 20
    setup: Octets
    response: Octets


@dataclass(frozen=True, eq=False)
class AlignRows(Message):
    """Active to passive: the ids in common, one per line, in the order of the rows from now on."""

    kind: ClassVar[int] = 21
    ids: Text


@dataclass(frozen=True, eq=False)
class RowsAligned(Message):
    """Passive to active: the digest under which requests name these rows."""

    kind: ClassVar[int] = 22
    digest: Octets
