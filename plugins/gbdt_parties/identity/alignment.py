"""Which rows organisations have in common, without showing each other the rest: the active party's part.

Private set intersection by Diffie–Hellman, in a group where that is hard (`curve_group`), with each passive
party in turn:

1. Both sides mask their ids under fresh keys (`masked_ids`) and commit to the sorted lists.  Only then does
   the active party tell its list, and then the passive one its own: neither list can depend on the other.
2. The passive party masks the active party's points once more, each once and in the order in which they came.
   The active party does the same with the passive one's, and compares: it sees which of its ids are in both,
   and which of the passive party's points they are.
3. When it has done so with all passive parties, it tells each of them which of its points are in common with
   all.  No id is sent in clear, so that a passive party whose answers made ids match that it does not have
   learns nothing about them.
4. Both must have found the same rows.  Each masks the digest of the ids in common, and proves that it knows
   the digest under both keys, in a hash from which no other digest can be tried out (`MaskedDigest`).  The
   active party proves first, and the passive one keeps no rows before it has checked that proof: no peer can
   have rows kept without knowing all their ids, and neither side can try out more than one digest. Only
   afterwards does the digest name the rows in requests.

So both learn the ids in common and the number of the other's, and nothing else; the active party, which may
ask where none are in common, also how most of the passive one's are written, one of a few public forms that
no single id decides (`row_ids.FORMS`).  That is against parties that follow the protocol: a party that lies
about its ids can try out others, which is why a server limits how often it answers, and records it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hmac import compare_digest
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from gbdt_parties.channel import Channel, Party, blaming, check_parties
from gbdt_parties.curve_group import POINT_BYTES
from gbdt_parties.errors import InvalidDataError, PartyRefusedError, ProtocolError
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
    matches,
    name_digest,
    refuse_reflection,
    run_of,
)
from gbdt_parties.identity.row_ids import FORMS, check_ids, form_of
from gbdt_parties.messages import Done, to_bits
from gbdt_parties.traffic import Traffic


def align(parties: Sequence[Party], ids: Sequence[str], traffic: Traffic | None = None) -> Alignment:
    """Find the rows that this party and all passive ones have, and tell all of them.

    Parameters
    ----------
    parties : sequence of Party
        Behind servers that hold rows with ids.
    ids : sequence of str
        This party's, all different: printable texts in Unicode's normalisation form C without a blank at the
        beginning or end.
    traffic : Traffic, optional
        Counts the messages.

    Raises
    ------
    InvalidDataError
        If an id is not canonical or occurs twice, or no row is held by all parties.
    ProtocolError
        Naming the party that broke the protocol, or found other rows.
    ImportError
        Without PyNaCl, which the extra ``veilboost[remote]`` brings.

    Notes
    -----
    A bar shows the progress where a person watches.  For each id, its owner's masking and the other's take
    some .45 ms of processor time together, on as many processors as there are; 64 bytes of an id go to the
    other side, and one bit for each of the passive party's.
    """
    checked = check_ids(ids, "ids")
    if len(checked) > wire.MAX_IDS:
        raise InvalidDataError(f"ids: {len(checked)} ids; at most {wire.MAX_IDS} can be aligned")
    common = set(checked)
    talks = [_Talk(Channel(p, os.urandom(16), traffic or Traffic()), checked) for p in check_parties(parties)]
    for talk in talks:
        common &= talk.intersect()
    if not common:
        forms = [f"those of {talk.name} {form}" for talk in talks if (form := talk.form())]
        told = ", ".join([f"; most ids here are {form_of(checked)}", *forms])
        raise InvalidDataError(f"no row is held by all parties{told}: all must write them in the same way")
    alignment = Alignment(tuple(sorted(common)))
    for talk in talks:
        talk.tell(alignment)
    return alignment


class _Talk:
    """An alignment of this party's ids with those of one passive party."""

    def __init__(self, channel: Channel, ids: list[str]) -> None:
        self._channel, self._ids = channel, ids
        self.name = channel.name
        self._run = b""
        self._n_theirs = 0
        self._commitments = (b"", b"")
        """To this party's masked ids, and to the other's."""
        self._own_rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._their_places: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """Where the ids that both have are: here, and among the other's points."""

    def intersect(self) -> set[str]:
        """The ids that both have; the other party does not learn them yet."""
        self._open()
        n_own, n_theirs = len(self._ids), self._n_theirs
        own = OwnList(self._ids, self._run, ACTIVE)
        with tqdm(
            total=2 * (n_own + n_theirs),
            desc=f"aligning with {self.name}",
            unit="id",
            unit_scale=True,
            disable=None,
            leave=False,
        ) as bar:
            while not own.is_masked:
                bar.update(own.mask_more())
            theirs = self._committed(own, bar)
            for first in range(0, n_own, wire.IDS_PER_MESSAGE):
                self._channel.ask(wire.TellIds(own.told(first)), Done)
            answers = self._answered(own, theirs, bar)
            twice = bytearray()
            for first in range(0, n_theirs, wire.IDS_PER_MESSAGE):
                with blaming(self.name):
                    stop = first + chunk(n_theirs, first)
                    twice += own.answers(theirs.points[first * POINT_BYTES : stop * POINT_BYTES])
                bar.update(stop - first)
        with blaming(self.name):
            self._own_rows, self._their_places = matches(own, theirs, bytes(twice), answers)
        return {self._ids[k] for k in self._own_rows}

    def form(self) -> str | None:
        """How most of the other's ids are written; None if it does not tell, as earlier releases do not."""
        try:
            place = self._channel.ask(wire.AskForm(), wire.FormTold).form
        except PartyRefusedError:
            return None
        with blaming(self.name):
            if not 0 <= place < len(FORMS):
                raise ProtocolError("it told a form of ids that there is not")
        return list(FORMS)[place]

    def tell(self, alignment: Alignment) -> None:
        """Let the other party find its aligned rows; `ProtocolError` if they are not the same."""
        wanted = set(alignment.ids)
        flags = np.zeros(self._n_theirs, dtype=bool)
        in_common = np.array([self._ids[k] in wanted for k in self._own_rows], dtype=bool)
        flags[self._their_places[in_common]] = True
        digest = MaskedDigest(alignment.digest, self._run, ACTIVE)
        found = self._channel.ask(wire.AlignRows(to_bits(flags), digest.point), wire.RowsFound)
        with blaming(self.name):
            own_proof, their_proof = digest.proofs(found.digest, self._commitments)
        aligned = self._channel.ask(wire.ProveRows(own_proof), wire.RowsAligned)
        with blaming(self.name):
            if not compare_digest(aligned.proof, their_proof):
                raise ProtocolError("aligned other rows")

    def _open(self) -> None:
        """Agree on what the run is."""
        certificate = certificate_digest(getattr(self._channel.party, "own_fingerprint", ""))
        opening = wire.OpenAlignment(
            os.urandom(wire.DIGEST_BYTES), certificate, name_digest(self.name), len(self._ids)
        )
        opened = self._channel.ask(opening, wire.AlignmentOpened)
        with blaming(self.name):
            if not 0 < opened.n_ids <= wire.MAX_IDS:
                raise ProtocolError(f"it has {opened.n_ids} ids; 1 to {wire.MAX_IDS} can be aligned")
            self._run, self._n_theirs = run_of(opening, opened), opened.n_ids

    def _committed(self, own: OwnList, bar: tqdm[NoReturn]) -> ReceivedList:
        """Wait until the other has masked its ids too, and exchange commitments."""
        n_masked = 0
        while n_masked < self._n_theirs:
            due = chunk(self._n_theirs, n_masked)
            if self._channel.ask(wire.MaskIds(), wire.IdsMasked).n_masked != n_masked + due:
                raise ProtocolError(f"party {self.name!r}: it did not mask {due} further ids, as asked for")
            n_masked += due
            bar.update(due)
        commitment = own.commitment
        committed = self._channel.ask(wire.CommitIds(commitment), wire.IdsCommitted)
        self._commitments = (commitment, committed.commitment)
        with blaming(self.name):
            return ReceivedList(self._n_theirs, self._run, PASSIVE, committed.commitment)

    def _answered(self, own: OwnList, theirs: ReceivedList, bar: tqdm[NoReturn]) -> bytearray:
        """Take the other's list, and its answers about one's own."""
        n_own, answers = len(self._ids), bytearray()
        for first in range(0, max(n_own, self._n_theirs), wire.IDS_PER_MESSAGE):
            answered = self._channel.ask(wire.AnswerIds(), wire.IdsAnswered)
            with blaming(self.name):
                if not theirs.is_complete:
                    theirs.add(answered.points)
                    refuse_reflection(own.points, answered.points)
                elif answered.points:
                    raise ProtocolError("it sent more masked ids than it announced")
                due = chunk(n_own, first)
                if len(answered.answers) != due * POINT_BYTES:
                    raise ProtocolError(
                        f"{len(answered.answers)} bytes of answers where {due} points were due"
                    )
            answers += answered.answers
            bar.update(due)
        return answers
