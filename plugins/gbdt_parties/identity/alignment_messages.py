"""Messages of an alignment, in their order; `intersector` says what is done with them.

Points are those of `curve_group`, 32 bytes each.  Lists of them are sent in chunks of `IDS_PER_MESSAGE`, of
which only the last may be shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gbdt_parties.messages import Bits, Integer, Message, Octets

IDS_PER_MESSAGE = 8192
"""Points in a message, 256 KiB: what a party does for one takes a second or two, and can be shown."""

MAX_IDS = 50_000_000
"""Ids of one party in an alignment; their points take 1.6 GB."""

DIGEST_BYTES = 32
"""Of a nonce, a digest or a commitment."""


@dataclass(frozen=True, eq=False)
class OpenAlignment(Message):
    """Active to passive: begin an alignment; an earlier one that is not finished is given up."""

    kind: ClassVar[int] = 61
    nonce: Octets
    """32 random bytes, which make this run of the protocol a new one."""
    certificate: Octets
    """SHA-256 of the certificate that the active party shows; zeros without TLS."""
    addressed: Octets
    """SHA-256 of the name by which the active party knows the passive one."""
    n_ids: Integer
    """Ids that it has; the passive party sees their number."""


@dataclass(frozen=True, eq=False)
class AlignmentOpened(Message):
    """Passive to active: the alignment has begun."""

    kind: ClassVar[int] = 62
    nonce: Octets
    """32 random bytes of the passive party's."""
    name: Octets
    """SHA-256 of the name by which the passive party knows itself."""
    n_ids: Integer
    """Ids that it has; the active party sees their number."""


@dataclass(frozen=True, eq=False)
class MaskIds(Message):
    """Active to passive: mask some more of your own ids; repeated until all are masked."""

    kind: ClassVar[int] = 63


@dataclass(frozen=True, eq=False)
class IdsMasked(Message):
    """Passive to active: how far it is."""

    kind: ClassVar[int] = 64
    n_masked: Integer
    """Own ids that are masked so far."""


@dataclass(frozen=True, eq=False)
class CommitIds(Message):
    """Active to passive: a commitment to its masked ids, before it sees any of the other's."""

    kind: ClassVar[int] = 65
    commitment: Octets
    """SHA-256 of the run, the role and the sorted masked ids; it tells nothing about them."""


@dataclass(frozen=True, eq=False)
class IdsCommitted(Message):
    """Passive to active: the commitment to its own."""

    kind: ClassVar[int] = 66
    commitment: Octets
    """As the active party's."""


@dataclass(frozen=True, eq=False)
class TellIds(Message):
    """Active to passive: the next of its masked ids, in ascending order; answered by `Done`."""

    kind: ClassVar[int] = 67
    points: Octets
    """Points under a key that only the active party has; without it they are random ones."""


@dataclass(frozen=True, eq=False)
class AnswerIds(Message):
    """Active to passive: mask the next of the points that were told once more, and tell one's own."""

    kind: ClassVar[int] = 68


@dataclass(frozen=True, eq=False)
class IdsAnswered(Message):
    """Passive to active: the next of both lists, each point once in the whole alignment."""

    kind: ClassVar[int] = 69
    points: Octets
    """The passive party's own masked ids, in ascending order."""
    answers: Octets
    """The active party's masked ids under the passive party's key too, in the order in which they came."""


@dataclass(frozen=True, eq=False)
class AlignRows(Message):
    """Active to passive: which of the passive party's ids are in common with all parties."""

    kind: ClassVar[int] = 70
    common: Bits
    """A flag for each of its masked ids, in the order in which they were told."""
    digest: Octets
    """The digest of the ids in common, hashed to a point and masked under a key for this one question."""


@dataclass(frozen=True, eq=False)
class RowsFound(Message):
    """Passive to active: it knows which rows are meant, and keeps none of them yet."""

    kind: ClassVar[int] = 72
    digest: Octets
    """The digest of the ids that the passive party found, masked under a key for this one answer."""


@dataclass(frozen=True, eq=False)
class ProveRows(Message):
    """Active to passive: proof that it knows all ids of the rows that it called common."""

    kind: ClassVar[int] = 73
    proof: Octets
    """SHA-256 of the run, the role, both commitments, both masked digests and the digest under both keys."""


@dataclass(frozen=True, eq=False)
class RowsAligned(Message):
    """Passive to active: the proof was right, and it has kept these rows."""

    kind: ClassVar[int] = 74
    proof: Octets
    """As the active party's, in the passive one's role."""


@dataclass(frozen=True, eq=False)
class AskForm(Message):
    """Active to passive: no row is held by all parties; how are most of your ids written?"""

    kind: ClassVar[int] = 71


@dataclass(frozen=True, eq=False)
class FormTold(Message):
    """Passive to active: how most of its ids are written, for an error that tells what to mend."""

    kind: ClassVar[int] = 75
    form: Integer
    """Its place among the forms of `row_ids`, such as integers, dates or UUIDs in upper case."""


REQUESTS = (OpenAlignment, MaskIds, CommitIds, TellIds, AnswerIds, AskForm, AlignRows, ProveRows)
"""Messages of the active party in an alignment, in their order."""
