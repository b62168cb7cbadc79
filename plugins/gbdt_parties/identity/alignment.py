"""Which rows two organisations have in common, without showing each other the rest.

Private set intersection by Diffie–Hellman over an elliptic curve, through ``openmined-psi``, in both
directions:

1. The active party sends its ids blinded; the passive one blinds them again, and sends its own blinded.  The
   active party sees which of its ids are in both.
2. It then answers the same question about the ids in common, and about nothing else: the passive party sees
   which of *its* ids they are.  No id is sent in clear, so that a passive party whose first answer made ids
   match that it does not have learns nothing about them.
3. Both must have found the same rows.  The active party asks for an intersection of one element, the digest
   of the ids that it found: a party that does not know all of them cannot pass, and neither can try out
   digests without the other.  Only now does the digest name the rows in requests.

So both learn the ids in common and the number of the other's, and nothing else; whoever lies about its ids
can try out others, which is why a server limits how often it answers, and records it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gbdt_parties._files import write_atomically
from gbdt_parties.channel import Channel, Party, check_parties
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.memory import MemoryAllowance, Room
from gbdt_parties.messages import Integer, Message, Octets
from gbdt_parties.traffic import Traffic

POINT_BYTES = 33
"""Of a blinded id: a compressed point of the curve P-256."""

BYTES_PER_ID = 512
"""Memory that an id takes at most while it is blinded: 200 bytes were measured, and its message's copies."""

_FLAG = b"\x08\x01"
_REQUESTED = b"\x12\x21"
"""How ``psi.Request`` writes that matches are revealed, and begins each point (field 2, 33 bytes)."""
_ANSWERED = b"\x0a\x21"
"""How ``psi.Response`` and the raw set of ``psi.ServerSetup`` begin each point (field 1, 33 bytes)."""


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
    ids = list(ids)
    if len(set(ids)) != len(ids) or not ids:
        raise InvalidDataError(f"{len(ids)} ids, of which {len(set(ids))} are different")
    common = set(ids)
    channels = [Channel(p, os.urandom(16), traffic or Traffic()) for p in check_parties(parties)]
    for channel in channels:
        question = Question(ids)
        answer = channel.ask(IntersectIds(question.blinded, len(ids)), BlindedIds)
        with _blaming(channel.name):
            common &= {ids[k] for k in question.matches(answer.setup, answer.response)}
    if not common:
        raise InvalidDataError("no row is held by all parties")
    alignment = Alignment(tuple(sorted(common)))
    for channel in channels:
        _tell(channel, alignment)
    return alignment


def _tell(channel: Channel, alignment: Alignment) -> None:
    """Let a party find out which of its rows are aligned; `ProtocolError` if they are not the same."""
    own = channel.ask(AlignRows(len(alignment.ids)), OwnIds)
    digest = Question([alignment.digest.hex()])
    with _blaming(channel.name):
        setup, response = answered(own.blinded, own.n_ids, alignment.ids)
    kept = channel.ask(CommonIds(setup, response, digest.blinded), RowsAligned)
    with _blaming(channel.name):
        if digest.matches(kept.setup, kept.response, 1) != [0]:
            raise ProtocolError("aligned other rows")


@contextmanager
def _blaming(name: str) -> Iterator[None]:
    """Name the party whose blinded ids are wrong."""
    try:
        yield
    except ProtocolError as error:
        raise ProtocolError(f"party {name!r}: {error}") from None


class Question:
    """Ids of which one party asks which the other has, under a key for this one question.

    Parameters
    ----------
    ids : sequence of str
    """

    def __init__(self, ids: Sequence[str]) -> None:
        import private_set_intersection.python as psi

        self._n_ids = len(ids)
        self._client: Any = psi.client.CreateWithNewKey(True)
        self.blinded: bytes = self._client.CreateRequest(list(ids)).SerializeToString()

    def matches(self, setup: bytes, response: bytes, n_others: int | None = None) -> list[int]:
        """Positions of the ids that the other has, ascending.

        Parameters
        ----------
        setup, response : bytes
            As `answered` makes them.
        n_others : int, optional
            Ids of the other's, if their number is known.

        Raises
        ------
        ProtocolError
            If they are not blinded ids, as many as asked about and all different.
        """
        import private_set_intersection.python as psi

        if n_others is None:
            n_others = len(setup) // (len(_ANSWERED) + POINT_BYTES)
        if not _are_points(setup, _raw_head(n_others), _ANSWERED, n_others):
            raise ProtocolError("its own blinded ids are malformed, or some are the same")
        if not _are_points(response, b"", _ANSWERED, self._n_ids):
            raise ProtocolError(f"not {self._n_ids} different blinded ids, as asked about")
        sent, returned = psi.ServerSetup(), psi.Response()
        try:
            sent.ParseFromString(setup)
            returned.ParseFromString(response)
            return sorted(self._client.GetIntersection(sent, returned))
        except Exception:
            # The bindings raise RuntimeError and protobuf's own errors.
            raise ProtocolError("its blinded ids are malformed") from None


def answered(blinded: bytes, n_blinded: int, own: Sequence[str]) -> tuple[bytes, bytes]:
    """Own ids blinded, and the other's blinded again, under a key for this one answer.

    Raises
    ------
    ProtocolError
        If the other's are not as many different blinded ids as announced.
    """
    import private_set_intersection.python as psi

    if not _are_points(blinded, _FLAG, _REQUESTED, n_blinded):
        raise ProtocolError(f"not {n_blinded} different blinded ids, as announced")
    server: Any = psi.server.CreateWithNewKey(True)
    request = psi.Request()
    try:
        request.ParseFromString(blinded)
        response = server.ProcessRequest(request)
    except Exception:
        # As above.
        raise ProtocolError("blinded ids are malformed") from None
    # RAW is exact: no false positives, sorted by its values.
    setup = server.CreateSetupMessage(0.0, n_blinded, list(own), psi.DataStructure.RAW)
    return setup.SerializeToString(), response.SerializeToString()


class Intersector:
    """The passive party's part, for one active party.

    Parameters
    ----------
    ids : sequence of str
    max_ids : int
        That the active party may ask about at once.
    memory : MemoryAllowance, optional
        What the work on its questions is reserved from; without limit by default.
    """

    def __init__(self, ids: Sequence[str], max_ids: int, memory: MemoryAllowance | None = None) -> None:
        self._memory = MemoryAllowance(sys.maxsize) if memory is None else memory
        self._ids = ids
        self._max_ids = max_ids
        self._n_intersected = 0
        self._asked: Question | None = None
        self._n_common = 0

    def blind(self, message: IntersectIds) -> BlindedIds:
        """Blind the other's ids again, and one's own."""
        if not 0 < message.n_ids <= self._max_ids:
            raise ProtocolError(f"this party intersects 1 to {self._max_ids} ids, not {message.n_ids}")
        room = self._reserve(message.n_ids)
        setup, response = answered(message.blinded, message.n_ids, self._ids)
        del room
        self._n_intersected, self._asked = message.n_ids, None
        return BlindedIds(setup, response)

    def ask(self, message: AlignRows) -> OwnIds:
        """Ask which of one's own ids are common; once after an intersection, and no more than were in it."""
        n_intersected, self._n_intersected = self._n_intersected, 0
        if not 0 < message.n_rows <= n_intersected:
            raise ProtocolError("rows were aligned without an intersection, or more than were in it")
        room = self._reserve(0)
        self._asked, self._n_common = Question(self._ids), message.n_rows
        del room
        return OwnIds(self._asked.blinded, len(self._ids))

    def accept(self, message: CommonIds) -> tuple[Alignment, RowsAligned]:
        """The rows in common, and the answer that shows the other whether they are those it found.

        Once even if it is refused: the difference between a refusal and an answer tells whose ids are known.
        """
        asked, self._asked = self._asked, None
        if asked is None:
            raise ProtocolError("rows were aligned without an intersection, or more than were in it")
        room = self._reserve(self._n_common)
        found = asked.matches(message.setup, message.response, self._n_common)
        if len(found) != self._n_common:
            raise ProtocolError("rows were aligned that are not in common")
        alignment = Alignment(tuple(sorted(self._ids[k] for k in found)))
        del room
        return alignment, RowsAligned(*answered(message.digest, 1, [alignment.digest.hex()]))

    def _reserve(self, n_ids: int) -> Room:
        """Reserve memory for blinding so many ids of the other's, and one's own."""
        return self._memory.reserve(BYTES_PER_ID * (n_ids + len(self._ids)), "blinded ids")


def _raw_head(count: int) -> bytes:
    """How ``psi.ServerSetup`` begins a raw set of so many points: field 1, and the length of what follows."""
    length, head = count * (len(_ANSWERED) + POINT_BYTES), bytearray(b"\x0a")
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes(head) + bytes([length])


def _are_points(octets: bytes, head: bytes, field: bytes, count: int) -> bool:
    """Whether octets are a head and so many fields of one point each, all different, and nothing else.

    To be asked before they are parsed: empty fields would become fifty times their size in memory.
    """
    size = len(field) + POINT_BYTES
    if count < 1 or len(octets) != len(head) + count * size or not octets.startswith(head):
        return False
    fields = np.frombuffer(octets, dtype=np.uint8, offset=len(head)).reshape(count, size)
    if not (fields[:, : len(field)] == np.frombuffer(field, dtype=np.uint8)).all():
        return False
    points = np.ascontiguousarray(fields[:, len(field) :]).view(f"V{POINT_BYTES}").reshape(-1)
    return len(np.unique(points)) == count


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
    """Active to passive: how many ids are in common; which ones, the other is to find out."""

    kind: ClassVar[int] = 21
    n_rows: Integer


@dataclass(frozen=True, eq=False)
class OwnIds(Message):
    """Passive to active: its own ids, blinded under a new key."""

    kind: ClassVar[int] = 24
    blinded: Octets
    n_ids: Integer


@dataclass(frozen=True, eq=False)
class CommonIds(Message):
    """Active to passive: the ids in common blinded, the other's blinded once more, and a blinded digest."""

    kind: ClassVar[int] = 25
    setup: Octets
    response: Octets
    digest: Octets
    """Of the ids in common, by which requests will name these rows."""


@dataclass(frozen=True, eq=False)
class RowsAligned(Message):
    """Passive to active: the digest of the rows it found blinded, and the other's blinded once more."""

    kind: ClassVar[int] = 22
    setup: Octets
    response: Octets


REQUESTS = (IntersectIds, AlignRows, CommonIds)
"""Messages of the active party in an alignment, in their order."""
