"""Masked ids: their bytes, their order, and points that are refused."""

import os
from dataclasses import replace

import numpy as np
import pytest

import edwards
from alignments import MIXED, NEUTRAL, OURS, THEIRS, Bank, asker, bank, split
from gbdt_parties import messages
from gbdt_parties.curve_group import hash_to_group, multiply
from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity import masked_ids
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.alignment_messages import (
    AlignRows,
    AnswerIds,
    CommitIds,
    IdsCommitted,
    MaskIds,
    TellIds,
)
from gbdt_parties.identity.intersector import Intersector
from gbdt_parties.identity.masked_ids import ACTIVE, OwnList, ReceivedList
from gbdt_parties.traffic import Traffic
from sent_bytes import bytes_from


def test_bytes_of_an_id_are_what_the_documentation_says():
    traffic, party = Traffic(), bank(ids=[f"id-{k}" for k in range(200)])
    align([party], [f"id-{k}" for k in range(100, 300)], traffic)
    assert bytes_from(traffic, "active") < 200 * 32 + 200 // 8 + 700
    assert bytes_from(traffic, "bank") < 200 * 64 + 700


def test_lists_tell_nothing_of_the_order_of_rows(monkeypatch):
    monkeypatch.setattr(masked_ids, "random_scalar", lambda: (8 * 12345).to_bytes(32, "little"))
    told = []
    for ids in (THEIRS, THEIRS[::-1]):
        own = OwnList(ids, b"r" * 32, ACTIVE)
        own.mask_more()
        told.append(own.points)
        assert split(own.points) == sorted(split(own.points))
        assert [ids[k] for k in own.order] == [THEIRS[k] for k in order_of(own.points)]
    assert told[0] == told[1]


def order_of(points):
    """Whose the points of THEIRS are, masked one by one."""
    single = [
        multiply(
            (8 * 12345).to_bytes(32, "little"), hash_to_group([b"veilboost psi", b"r" * 32], [one.encode()])
        )
        for one in THEIRS
    ]
    return [single.index(point) for point in split(points)]


class Mirror(Bank):
    """Sends back what it was sent: as its own list, or as its answers."""

    def __init__(self, what):
        super().__init__(Intersector(THEIRS, 1000, "bank"))
        self.what = what

    def handle(self, request):
        envelope = messages.read(request)
        message, answer = envelope.message, messages.read(super().handle(request)).message
        told = b"".join(one.points for one in self.requests if isinstance(one, TellIds))
        if isinstance(message, AnswerIds):
            answer = replace(answer, **{self.what: told})
        if isinstance(message, CommitIds) and self.what == "points":
            # As its own commitment it can give the one it has heard.
            answer = IdsCommitted(message.commitment)
        return messages.write(envelope.session, envelope.sequence, answer)


def test_reflected_points_are_refused():
    with pytest.raises(ProtocolError, match=r"'bank'.*back"):
        align([Mirror("answers")], OURS)
    # A copied commitment is to another role's list; and if it could be opened, the points would be our own.
    with pytest.raises(ProtocolError, match=r"'bank'.*commitment"):
        align([Mirror("points")], OURS)
    own = OwnList(OURS, b"r" * 32, ACTIVE)
    own.mask_more()
    with pytest.raises(ProtocolError, match="this party's own"):
        masked_ids.refuse_reflection(own.points, b"\xff" * 32 + split(own.points)[7])


@pytest.mark.parametrize("point", [NEUTRAL, MIXED, *map(edwards.encoded, edwards.TORSION[1:])])
def test_wrong_points_in_a_list_that_was_committed_to_are_refused(point):
    """By the party that multiplies them: a lying active party and a lying passive one."""
    service = bank()
    mine = asker(service)
    mine.open()
    mine.mask()
    mine.own.points = b"".join(sorted([*split(mine.own.points)[1:], point]))
    mine.commit()
    assert isinstance(mine.tell(), messages.Done)
    assert "is not a point of the prime-order group" in mine.answer().reason
    assert "without an intersection" in mine.answer().reason

    party = bank()
    sort = OwnList.mask_more

    def with_a_wrong_point(own):
        n = sort(own)
        own.points = b"".join(sorted([*split(own.points)[1:], point]))
        return n

    class Liar(Bank):
        def handle(self, request):
            if isinstance(messages.read(request).message, MaskIds):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(OwnList, "mask_more", with_a_wrong_point)
                    return super().handle(request)
            return super().handle(request)

    with pytest.raises(ProtocolError, match=r"party 'bank': point \d+ of 20"):
        align([Liar(party.intersector)], OURS)


def test_digests_of_wrong_points_are_refused():
    for digest, reason in (
        (NEUTRAL, "not a point"),
        (MIXED, "not a point"),
        (b"", "0 bytes"),
        (b"x" * 64, "64"),
    ):
        service = bank()
        mine = asker(service).until_answered()
        answer = mine.ask(AlignRows(np.array([128, 0, 0], np.uint8), digest))
        assert reason in answer.reason
        assert not service.alignments


def test_received_lists_take_no_more_than_comes_in():
    """A count is only a number: memory is taken by points that were sent."""
    received = ReceivedList(50_000_000, b"r" * 32, ACTIVE, bytes(32))
    assert received.n_received == 0
    with pytest.raises(ProtocolError, match=r"8192 points.*32 bytes.*due, 0.*50000000"):
        received.add(os.urandom(32))
