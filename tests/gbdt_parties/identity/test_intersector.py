"""The passive party's side of an alignment, whatever it is asked."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edwards
from alignments import OURS, THEIRS, asker, bank, split, swapped, twice
from gbdt_parties import messages
from gbdt_parties.curve_group import multiply, random_scalar
from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity.alignment_messages import (
    AlignRows,
    AnswerIds,
    CommitIds,
    IdsMasked,
    MaskIds,
    OpenAlignment,
    RowsFound,
    TellIds,
)
from gbdt_parties.identity.intersector import Intersector


def test_steps_out_of_order_end_the_alignment():
    steps = ("mask", "commit", "tell", "answer")
    due = ({"mask"}, {"mask", "commit"}, {"tell"}, {"answer"})
    for n_right in range(len(steps)):
        for wrong in set(steps) - due[n_right]:
            service = bank()
            mine = asker(service)
            mine.open()
            for name in steps[:n_right]:
                assert not isinstance(getattr(mine, name)(), messages.Refusal)
            assert "is not due in this alignment" in getattr(mine, wrong)().reason
            for name in steps:
                assert "without an intersection" in getattr(mine, name)().reason
            assert not service.alignments


def test_nothing_is_answered_twice():
    service = bank()
    mine = asker(service).until_answered()
    assert "AnswerIds is not due" in mine.answer().reason
    assert "without an intersection" in mine.align([0], ["x"]).reason
    mine = asker(service).until_answered()
    assert "TellIds is not due" in mine.tell().reason
    mine = asker(service).until_answered()
    assert "CommitIds is not due" in mine.commit().reason


def test_a_list_that_was_not_committed_to_is_not_answered():
    """Chosen after the other's commitment, or altered on the way: as little as one point."""
    for change in (
        lambda own: b"".join(sorted([*split(own)[1:], multiply(random_scalar(), own[:32])])),
        lambda own: b"".join(sorted([*split(own)[1:], edwards.encoded(edwards.GENERATOR)])),
    ):
        mine = asker(bank())
        mine.open(), mine.mask(), mine.commit()
        assert "differ from the commitment" in mine.tell(change(mine.own.points)).reason
        assert "without an intersection" in mine.answer().reason
    mine = asker(bank())
    mine.open(), mine.mask()
    assert "a commitment has 31 bytes" in mine.commit(b"c" * 31).reason


def test_lists_in_another_order_number_or_twice_are_refused():
    for change, reason in (
        (swapped, "must ascend"),
        (twice, "each sent once"),
        (lambda own: own[32:], "where 20 points of 32 bytes were due"),
        (lambda own: own + b"\xff" * 32, "where 20 points of 32 bytes were due"),
        (lambda own: own[:-1], "where 20 points of 32 bytes were due"),
        (lambda own: b"", "where 20 points of 32 bytes were due"),
    ):
        mine = asker(bank())
        mine.open(), mine.mask(), mine.commit()
        assert reason in mine.tell(change(mine.own.points)).reason
        assert "without an intersection" in mine.answer().reason


def test_order_holds_from_one_message_to_the_next(short_messages):
    mine = asker(bank())
    mine.open(), mine.mask(), mine.mask(), mine.mask(), mine.commit()
    assert isinstance(mine.tell(mine.own.points[: 7 * 32]), messages.Done)
    assert "must ascend" in mine.tell(mine.own.points[: 7 * 32]).reason


def test_other_sessions_and_forgotten_ones_are_refused():
    service = bank()
    mine, other = asker(service), asker(service, session=b"t" * 16)
    mine.open()
    assert "without an intersection, or in another alignment's" in other.mask().reason
    assert isinstance(mine.mask(), IdsMasked)
    other.open()
    assert "without an intersection" in mine.commit().reason
    assert isinstance(other.mask(), IdsMasked)
    service.intersector.end_abandoned(1000)
    assert isinstance(other.mask(), IdsMasked)
    service.intersector.end_abandoned(-1)
    assert "without an intersection" in other.mask().reason


def test_wrong_sets_of_common_rows_are_refused():
    mine = asker(bank(), ids=OURS[:12]).until_answered()
    assert "claims 0 rows in common" in mine.align([], ["x"]).reason
    mine = asker(bank(), ids=OURS[:12]).until_answered()
    assert "claims 13 rows in common; 20 are here" in mine.align(range(13), ["x"]).reason
    for common in (np.zeros(2, np.uint8), np.zeros(4, np.uint8), np.full(3, 255, np.uint8)):
        mine = asker(bank(), ids=OURS[:12]).until_answered()
        answer = mine.ask(AlignRows(common, mine.own.points[:32]))
        assert "flags" in answer.reason
        assert "without an intersection" in mine.align([0], ["x"]).reason


def test_rows_are_called_common_once():
    mine = asker(bank()).until_answered()
    flags = messages.to_bits(np.arange(20) == mine.matched()[1][0])
    assert isinstance(mine.ask(AlignRows(flags, mine.own.points[:32])), RowsFound)
    assert "AlignRows is not due" in mine.ask(AlignRows(flags, mine.own.points[:32])).reason


def test_ids_are_limited_and_counted_before_anything_is_made():
    intersector = Intersector(THEIRS, 40, "bank")
    for n_ids in (0, -1, 41, 2**62):
        with pytest.raises(ProtocolError, match=f"intersects 1 to 40 ids.*{n_ids}"):
            intersector.answer(b"s" * 16, OpenAlignment(bytes(32), bytes(32), bytes(32), n_ids))
    assert intersector.run is None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=70), st.integers(-2, 30)), max_size=6))
def test_any_messages_are_answered_or_refused(requests):
    """No other error than those that are sent as refusals."""
    intersector = Intersector(THEIRS[:3], 10, "bank")
    for kind, octets, number in requests:
        made = (
            OpenAlignment(bytes(32), bytes(32), octets[:32].ljust(32), number),
            MaskIds(),
            CommitIds(octets[:32].ljust(number % 34)),
            TellIds(octets),
            AnswerIds(),
            AlignRows(np.frombuffer(octets[:2], np.uint8), octets[2:34]),
        )[kind]
        with suppress(ProtocolError):
            intersector.answer(b"s" * 16, made)
