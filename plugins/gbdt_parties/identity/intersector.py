"""The passive party's part in an alignment: what it answers to each message, and in which order.

A message out of order, malformed or about another run ends the alignment; what was answered before is not
answered again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from hmac import compare_digest
from threading import Lock

import numpy as np

from gbdt_parties.curve_group import POINT_BYTES
from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity import alignment_messages as wire
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.masked_ids import (
    ACTIVE,
    PASSIVE,
    MaskedDigest,
    OwnList,
    ReceivedList,
    certificate_digest,
    chunk,
    name_digest,
    refuse_reflection,
    run_of,
)
from gbdt_parties.identity.row_ids import FORMS, form_of
from gbdt_parties.memory import MemoryAllowance, Room
from gbdt_parties.messages import Done, Message, from_bits

BYTES_PER_ID = 512
"""Memory that an id takes at most in an alignment: a test measures it."""


class Intersector:
    """The passive party's alignments with one active party, one at a time.

    The ids are canonical and different (see `row_ids`); the active party may have `max_ids`.  An alignment
    reserves from the memory allowance, which is without limit by default.
    """

    def __init__(
        self, ids: Sequence[str], max_ids: int, name: str, memory: MemoryAllowance | None = None
    ) -> None:
        self._ids, self._max_ids, self._name = ids, max_ids, name
        self._memory = MemoryAllowance(sys.maxsize) if memory is None else memory
        self._lock = Lock()
        self.run: _Run | None = None

    def answer(
        self, session: bytes, message: Message, fingerprint: str = ""
    ) -> tuple[Message, Alignment | None]:
        """Answer the next message, one of `REQUESTS`; the last answer comes with the alignment.

        This is that of the rows in common.  A session that is not the newest is not taken up again.  The
        fingerprint is that of the certificate that the active party showed.  Raises `ProtocolError` if the
        message is refused; the alignment has then ended.
        """
        if isinstance(message, wire.OpenAlignment):
            return self._open(session, message, fingerprint), None
        with self._lock:
            run = self.run
            if run is None or run.session != session:
                raise ProtocolError("rows were aligned without an intersection, or in another alignment's")
            # Put back only after an answer: the difference between two refusals tells whose ids are known.
            self.run = None
        answer, alignment = run.answer(message)
        if alignment is None:
            run.last_answer = time.monotonic()
            with self._lock:
                # Unless another one was begun meanwhile.
                self.run = self.run or run
        return answer, alignment

    def end_abandoned(self, seconds: float) -> None:
        """Give up an alignment that was not gone on with for so long, and its memory."""
        with self._lock:
            if self.run is not None and time.monotonic() - self.run.last_answer > seconds:
                self.run = None

    def _open(self, session: bytes, message: wire.OpenAlignment, fingerprint: str) -> wire.AlignmentOpened:
        with self._lock:
            self.run = None
        if not 0 < message.n_ids <= self._max_ids:
            raise ProtocolError(f"this party intersects 1 to {self._max_ids} ids, not {message.n_ids}")
        if message.certificate != certificate_digest(fingerprint):
            raise ProtocolError("the alignment was opened for another certificate than the one shown")
        opened = wire.AlignmentOpened(os.urandom(wire.DIGEST_BYTES), name_digest(self._name), len(self._ids))
        run = run_of(message, opened)
        n_bytes = BYTES_PER_ID * (message.n_ids + len(self._ids))
        room = self._memory.reserve(n_bytes, "masked ids")
        with self._lock:
            self.run = _Run(session, self._ids, message.n_ids, run, room)
        return opened


class _Run:
    """One alignment at the passive party, with the announced number of ids and its reserved room."""

    def __init__(self, session: bytes, ids: Sequence[str], n_theirs: int, run: bytes, room: Room) -> None:
        self.session, self._ids, self._n_theirs, self._digest = session, ids, n_theirs, run
        self.last_answer = time.monotonic()
        self._room = room
        self.own = OwnList(ids, run, PASSIVE)
        self._theirs: ReceivedList | None = None
        self._commitments = (b"", b"")
        self._n_answered = 0
        self.found: tuple[Alignment, bytes, bytes] | None = None
        """The rows that the active party called common, this side's proof of knowing them, and its."""

    def answer(self, message: Message) -> tuple[Message, Alignment | None]:
        """Answer a message that is due; `ProtocolError` for any other one."""
        if isinstance(message, wire.MaskIds) and self._theirs is None:
            self.own.mask_more()
            return wire.IdsMasked(self.own.n_masked), None
        if isinstance(message, wire.CommitIds) and self._theirs is None and self.own.is_masked:
            self._theirs = ReceivedList(self._n_theirs, self._digest, ACTIVE, message.commitment)
            self._commitments = (message.commitment, self.own.commitment)
            return wire.IdsCommitted(self._commitments[1]), None
        if self.found is not None and isinstance(message, wire.ProveRows):
            alignment, own_proof, their_proof = self.found
            if not compare_digest(message.proof, their_proof):
                raise ProtocolError("the rows aligned were not proven to be known: other rows are in common")
            return wire.RowsAligned(own_proof), alignment
        theirs = self._theirs
        if theirs is not None and isinstance(message, wire.TellIds) and not theirs.is_complete:
            theirs.add(message.points)
            refuse_reflection(self.own.points, message.points)
            return Done(), None
        if theirs is not None and theirs.is_complete and self.found is None:
            if isinstance(message, wire.AnswerIds) and self._n_answered < max(self._n_theirs, len(self._ids)):
                return self._answer_more(theirs), None
            if self._n_answered >= max(self._n_theirs, len(self._ids)):
                if isinstance(message, wire.AskForm):
                    return wire.FormTold(list(FORMS).index(form_of(self._ids))), None
                if isinstance(message, wire.AlignRows):
                    return self._find(message), None
        raise ProtocolError(f"{type(message).__name__} is not due in this alignment")

    def _answer_more(self, theirs: ReceivedList) -> wire.IdsAnswered:
        """The next points of both lists; the other's under the own key too."""
        first = self._n_answered
        stop = first + chunk(self._n_theirs, first)
        answers = self.own.answers(theirs.points[first * POINT_BYTES : stop * POINT_BYTES])
        told = self.own.told(first)
        self._n_answered = first + max(len(answers), len(told)) // POINT_BYTES
        return wire.IdsAnswered(told, answers)

    def _find(self, message: wire.AlignRows) -> wire.RowsFound:
        """The rows in common as the active party says; they are not given out before it has proven them."""
        flags = from_bits(message.common, len(self._ids))
        n_common = int(np.count_nonzero(flags))
        if not 0 < n_common <= min(self._n_theirs, len(self._ids)):
            raise ProtocolError(
                f"the other party claims {n_common} rows in common; {len(self._ids)} are here, and it "
                f"announced {self._n_theirs}"
            )
        alignment = Alignment(tuple(sorted(self._ids[k] for k in self.own.order[flags])))
        digest = MaskedDigest(alignment.digest, self._digest, PASSIVE)
        self.found = (alignment, *digest.proofs(message.digest, self._commitments))
        return wire.RowsFound(digest.point)
