"""Ids masked for one alignment: a party's own, and what it was sent of the other's.

A masked id is k·HG("veilboost psi", run, id), k a scalar that is fresh for this list (see `curve_group`).
The run is a digest of both parties' nonces, names and numbers of ids and of the active one's certificate,
each in its role: points for one run or pair of parties match none for another.

* *A list tells nothing but its length.*  Under the decisional Diffie–Hellman assumption, multiples of hashes
  by a secret k are random points, and they are sent in the order of their bytes and not of the rows.
* *Two runs cannot be linked.*  Both the hashes and k are others in each.
* *A commitment binds and hides.*  It is SHA-256 of the run, the role and the whole list, so that another list
  is a collision, and a list that depends on k, which has 252 random bits, cannot be guessed.
* *Distinct ids stay distinct*, as HG is collision-free up to 2**-252 for each pair, and k·P = k·Q only if
  P = Q.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.curve_group import (
    POINT_BYTES,
    check_points,
    hash_to_group,
    length_prefixed,
    multiply,
    random_scalar,
)
from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity.alignment_messages import (
    DIGEST_BYTES,
    IDS_PER_MESSAGE,
    AlignmentOpened,
    OpenAlignment,
)

ACTIVE, PASSIVE = b"active", b"passive"
"""Roles, as they are hashed."""

_ID, _ROWS, _PROOF, _COMMITMENT, _RUN = (
    b"veilboost psi",
    b"veilboost psi rows",
    b"veilboost psi proof",
    b"veilboost psi commitment",
    b"veilboost psi run",
)
_FORMAT = b"1"

Points = NDArray[np.bytes_]
"""Points as numpy compares and sorts them, by their bytes.  Items that are taken out lose zeros at the end:
only whole arrays are turned into bytes."""


def certificate_digest(fingerprint: str) -> bytes:
    """A certificate's fingerprint as messages hold it: zeros if there is no certificate."""
    return bytes.fromhex(fingerprint) if fingerprint else bytes(DIGEST_BYTES)


def name_digest(name: str) -> bytes:
    """A party's name as messages hold it."""
    return hashlib.sha256(name.encode()).digest()


def run_of(opening: OpenAlignment, opened: AlignmentOpened) -> bytes:
    """A run's digest, of all said before an id was masked; `ProtocolError` for a wrong length."""
    fields = [opening.nonce, opened.nonce, opening.certificate, opening.addressed, opened.name]
    if any(len(one) != DIGEST_BYTES for one in fields):
        raise ProtocolError(f"an alignment was opened with a nonce or a digest not of {DIGEST_BYTES} bytes")
    counts = [n.to_bytes(8, "little") for n in (opening.n_ids, opened.n_ids)]
    return hashlib.sha256(length_prefixed([_RUN, _FORMAT, *fields, *counts])).digest()


def as_points(octets: bytes | bytearray) -> Points:
    """Points in bytes as an array."""
    return np.frombuffer(octets, dtype=f"S{POINT_BYTES}")


def chunk(count: int, first: int) -> int:
    """How many of so many points are in the message that begins with one of them."""
    return max(0, min(IDS_PER_MESSAGE, count - first))


class OwnList:
    """A party's own ids, masked step by step under a key of their own, then sorted.

    The ids are canonical and different (see `row_ids`).  Once all are masked, `points` are the masked ids in
    ascending order, and `order` says whose they are: positions among the ids.
    """

    def __init__(self, ids: Sequence[str], run: bytes, role: bytes) -> None:
        self._ids, self.run, self.role = ids, run, role
        self.key = random_scalar()
        self._masked = bytearray()
        self.points = b""
        self.order: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    @property
    def n_masked(self) -> int:
        """Ids that are masked so far."""
        return len(self.points or self._masked) // POINT_BYTES

    @property
    def is_masked(self) -> bool:
        """Whether all are."""
        return self.n_masked == len(self._ids)

    def mask_more(self) -> int:
        """Mask at most `IDS_PER_MESSAGE` more, and sort if these were the last; gives their number."""
        first = self.n_masked
        some = [one.encode() for one in self._ids[first : first + IDS_PER_MESSAGE]]
        if not some:
            return 0
        self._masked += multiply(self.key, hash_to_group([_ID, self.run], some))
        if first + len(some) == len(self._ids):
            points = as_points(self._masked)
            self.order = np.argsort(points).astype(np.int64)
            self.points = points[self.order].tobytes()
            del points
            self._masked = bytearray()
        return len(some)

    @property
    def commitment(self) -> bytes:
        """The commitment to all of them."""
        return commitment_to(self.run, self.role, self.points)

    def told(self, first: int) -> bytes:
        """The points of the message that begins with one of them; none beyond the last."""
        return self.points[first * POINT_BYTES : (first + chunk(len(self._ids), first)) * POINT_BYTES]

    def answers(self, points: bytes | bytearray | memoryview) -> bytes:
        """Points of the other's under this list's key too; raises `PointError` if one is not of the group."""
        return multiply(self.key, points)


class ReceivedList:
    """The other's masked ids, as they come in: as many as it announced, with its role and commitment."""

    def __init__(self, count: int, run: bytes, role: bytes, commitment: bytes) -> None:
        if len(commitment) != DIGEST_BYTES:
            raise ProtocolError(f"a commitment has {len(commitment)} bytes, not {DIGEST_BYTES}")
        self._count, self.run, self.role, self._commitment = count, run, role, commitment
        self._received = bytearray()

    @property
    def n_received(self) -> int:
        """Points that have come in."""
        return len(self._received) // POINT_BYTES

    @property
    def is_complete(self) -> bool:
        """Whether all have come in."""
        return self.n_received == self._count

    @property
    def points(self) -> memoryview:
        """Those that have come in; to be used once the list was checked against its commitment."""
        return memoryview(self._received).toreadonly()

    def add(self, points: bytes) -> None:
        """Take the next message's points.

        Strictly ascending order over all messages makes them different, and leaves one way to send a list.
        Raises `ProtocolError` if they are not as many as are due, not in ascending order, or, with the last
        of them, not those committed to.
        """
        due = chunk(self._count, self.n_received)
        if not due or len(points) != due * POINT_BYTES:
            raise ProtocolError(
                f"masked ids: {len(points)} bytes where {due} points of {POINT_BYTES} bytes were due, "
                f"{self.n_received} of {self._count} announced being there"
            )
        last = bytes(self._received[-POINT_BYTES:])
        neighbours = as_points(last + points)
        if not (neighbours[1:] > neighbours[:-1]).all():
            raise ProtocolError("masked ids must ascend, each sent once")
        self._received += points
        if self.is_complete and commitment_to(self.run, self.role, self._received) != self._commitment:
            raise ProtocolError("masked ids differ from the commitment")


def commitment_to(run: bytes, role: bytes, points: bytes | bytearray) -> bytes:
    """The commitment to a list of masked ids, 32 bytes."""
    digest = hashlib.sha256(length_prefixed([_COMMITMENT, run, role]))
    digest.update(len(points).to_bytes(8, "little"))
    digest.update(points)
    return digest.digest()


def refuse_reflection(own: bytes, points: bytes | bytearray | memoryview) -> None:
    """Raise `ProtocolError` if one of the points is one of those that were sent to the other.

    Honest points are multiples by another key: one of them is equal with probability below 2**-190 for lists
    of a thousand million.
    """
    if len(np.intersect1d(as_points(own), as_points(bytes(points)))):
        raise ProtocolError("masked ids were sent back that are this party's own")


def matches(
    own: OwnList, theirs: ReceivedList, twice: bytes, answers: bytes | bytearray
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where a party's own ids and the other's are the same: positions among both, by ids and by points.

    They come in the order of the doubly masked values, which tells nothing about either side's rows.  The
    other's list is complete.  `twice` are its points under this party's key too, in their order, `answers`
    own points under the other's key too, in the order of `own.points`, as the other sent them.

    Raises `ProtocolError` if the answers are not as many different points of the group as were asked about,
    or are points that were there before.
    """
    if len(answers) != len(own.points):
        raise ProtocolError(f"{len(answers)} bytes of answers about {len(own.points)} bytes of masked ids")
    check_points(answers)
    if len(np.unique(as_points(answers))) != len(own.points) // POINT_BYTES:
        raise ProtocolError("an answer comes twice")
    refuse_reflection(own.points, answers)
    if len(np.intersect1d(as_points(bytes(theirs.points)), as_points(answers))):
        raise ProtocolError("an answer is one of the masked ids that were sent")
    _, at_own, at_theirs = np.intersect1d(
        as_points(answers), as_points(twice), assume_unique=True, return_indices=True
    )
    return own.order[at_own], at_theirs.astype(np.int64)


class MaskedDigest:
    """The digest of the rows found, masked: by it two parties compare theirs without showing them.

    k·HG("veilboost psi rows", run, digest) with a key of its own.  The digest under both keys is a secret
    that only parties with equal digests have in common, and each proves that it has it.  The role is this
    side's.

    * *One guess in each run.*  The proof is a hash of the digest under both keys.  Under the computational
      Diffie–Hellman assumption, a side computes that only for the digest that its own point is a multiple of,
      and it has sent that point before it sees a proof: no other digest can be tried out afterwards.
    * *No proof stands for another.*  It is a hash of the run, of both lists and both points, and of the role
      of the side that gives it: neither the other's proof nor one of another run passes.
    """

    def __init__(self, digest: bytes, run: bytes, role: bytes) -> None:
        self.key, self.run, self.role = random_scalar(), run, role
        self.point = multiply(self.key, hash_to_group([_ROWS, run], [digest]))

    def proofs(self, point: bytes, commitments: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        """Proofs of knowing the digest: this side's, and the one that the other must give.

        `point` is the other's masked digest; the commitments are those to the active and to the passive
        party's list.  Raises `ProtocolError` if the other's is not one point of the group.
        """
        if len(point) != POINT_BYTES:
            raise ProtocolError(f"a masked digest has {len(point)} bytes, not {POINT_BYTES}")
        is_active = self.role == ACTIVE
        points = (self.point, point) if is_active else (point, self.point)
        said = [*commitments, *points, multiply(self.key, point)]
        active, passive = (
            hashlib.sha256(length_prefixed([_PROOF, self.run, role, *said])).digest()
            for role in (ACTIVE, PASSIVE)
        )
        return (active, passive) if is_active else (passive, active)
