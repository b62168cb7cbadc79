"""Messages of an alignment, in their order; `intersector` says what is done with them.

Points are those of `curve_group`, 32 bytes each.  Lists of them are sent in chunks of `IDS_PER_MESSAGE`, of
which only the last may be shorter.
"""

from __future__ import annotations

from gbdt_parties.messages import Bits, Integer, Message, Octets

IDS_PER_MESSAGE = 8192
"""Points in a message, 256 KiB: what a party does for one takes a second or two, and can be shown."""

MAX_IDS = 50_000_000
"""Ids of one party in an alignment; their points take 1.6 GB."""

DIGEST_BYTES = 32
"""Of a nonce, a digest or a commitment."""


class OpenAlignment(Message, kind=61):
    """Active to passive: begin an alignment; an earlier one that is not finished is given up."""

    nonce: Octets
    """32 random bytes, which make this run of the protocol a new one."""
    certificate: Octets
    """SHA-256 of the certificate that the active party shows; zeros without TLS."""
    addressed: Octets
    """SHA-256 of the name by which the active party knows the passive one."""
    n_ids: Integer
    """Ids that it has; the passive party sees their number."""


class AlignmentOpened(Message, kind=62):
    """Passive to active: the alignment has begun."""

    nonce: Octets
    """32 random bytes of the passive party's."""
    name: Octets
    """SHA-256 of the name by which the passive party knows itself."""
    n_ids: Integer
    """Ids that it has; the active party sees their number."""


class MaskIds(Message, kind=63):
    """Active to passive: mask some more of your own ids; repeated until all are masked."""


class IdsMasked(Message, kind=64):
    """Passive to active: how far it is."""

    n_masked: Integer
    """Own ids that are masked so far."""


class CommitIds(Message, kind=65):
    """Active to passive: a commitment to its masked ids, before it sees any of the other's."""

    commitment: Octets
    """SHA-256 of the run, the role and the sorted masked ids; it tells nothing about them."""


class IdsCommitted(Message, kind=66):
    """Passive to active: the commitment to its own."""

    commitment: Octets
    """As the active party's."""


class TellIds(Message, kind=67):
    """Active to passive: the next of its masked ids, in ascending order; answered by `Done`."""

    points: Octets
    """Points under a key that only the active party has; without it they are random ones."""


class AnswerIds(Message, kind=68):
    """Active to passive: mask the next of the points that were told once more, and tell one's own."""


class IdsAnswered(Message, kind=69):
    """Passive to active: the next of both lists, each point once in the whole alignment."""

    points: Octets
    """The passive party's own masked ids, in ascending order."""
    answers: Octets
    """The active party's masked ids under the passive party's key too, in the order in which they came."""


class AlignRows(Message, kind=70):
    """Active to passive: which of the passive party's ids are in common with all parties."""

    common: Bits
    """A flag for each of its masked ids, in the order in which they were told."""
    digest: Octets
    """The digest of the ids in common, hashed to a point and masked under a key for this one question."""


class RowsFound(Message, kind=72):
    """Passive to active: it knows which rows are meant, and keeps none of them yet."""

    digest: Octets
    """The digest of the ids that the passive party found, masked under a key for this one answer."""


class ProveRows(Message, kind=73):
    """Active to passive: proof that it knows all ids of the rows that it called common."""

    proof: Octets
    """SHA-256 of the run, the role, both commitments, both masked digests and the digest under both keys."""


class RowsAligned(Message, kind=74):
    """Passive to active: the proof was right, and it has kept these rows."""

    proof: Octets
    """As the active party's, in the passive one's role."""


class AskForm(Message, kind=71):
    """Active to passive: no row is held by all parties; how are most of your ids written?"""


class FormTold(Message, kind=75):
    """Passive to active: how most of its ids are written, for an error that tells what to mend."""

    form: Integer
    """Its place among the forms of `row_ids`, such as integers, dates or UUIDs in upper case."""


REQUESTS = (OpenAlignment, MaskIds, CommitIds, TellIds, AnswerIds, AskForm, AlignRows, ProveRows)
"""Messages of the active party in an alignment, in their order."""
