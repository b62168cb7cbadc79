"""Answers about rows: entries of tables told to the side that has these, and nothing else to either."""

import copy
from functools import cache
from itertools import count

import numpy as np
import pytest

from gbdt_parties.errors import PartyArgumentError, ProtocolError, TransferCheckError
from gbdt_parties.two_party.answers import MAX_ROWS, AnsweringSide, AskingSide
from two_party_sides import drawn, sessions

pytest.importorskip("nacl")

QUESTION = b"model, rows, label"
RING = 1 << 48
NUMBERS = count(1)


@cache
def shared_pair():
    """Two open sessions that serve many questions: to open them takes a second."""
    return sessions()


def sides(tables, points, question=(QUESTION, QUESTION), number=None, pair=None):
    one, other = pair or shared_pair()
    n_points, number = tables.shape[1], number or next(NUMBERS)
    return AskingSide(one, number, question[0], tables), AnsweringSide(
        other, number, question[1], points, n_points
    )


def said(asking, answering):
    """All messages, and the entries."""
    choices = answering.choices()
    masked = asking.masked_tables(choices)
    shares = answering.shares(masked)
    return (choices, masked, shares), asking.entries(shares)


@pytest.mark.parametrize(("n", "n_points"), [(1, 2), (63, 32), (64, 16), (1_000, 32), (65, 5), (40, 256)])
def test_the_asking_side_learns_the_entries(n, n_points):
    tables, points = drawn((n, n_points), RING), drawn(n, n_points, np.uint8)
    _, entries = said(*sides(tables, points))
    np.testing.assert_array_equal(entries, tables[np.arange(n), points])


def test_every_point_is_answered():
    tables = drawn((32, 32), RING)
    for point in range(32):
        _, entries = said(*sides(tables, np.full(32, point, np.uint8)))
        np.testing.assert_array_equal(entries, tables[:, point])


def test_the_last_message_is_the_entries_less_the_asking_sides_shares_and_no_more():
    """A simulator of the asking side's view makes it from the entries, to the last byte."""
    n = 200
    tables, points = drawn((n, 32), RING), drawn(n, 32, np.uint8)
    asking, answering = sides(tables, points)
    (_, _, shares), entries = said(asking, answering)
    simulated = (entries - asking.own_shares) & np.uint64(RING - 1)
    words = simulated.astype("<u8").view(np.uint8).reshape(n, 8)
    assert (words[:, 6:] == 0).all()
    assert words[:, :6].tobytes() == shares


def test_equal_entries_hide_the_points_altogether():
    tables = np.full((500, 32), 7, dtype=np.uint64)
    for points in (np.zeros(500, np.uint8), np.full(500, 31, np.uint8)):
        _, entries = said(*sides(tables, points))
        assert (entries == 7).all()


def test_lengths_follow_from_sizes_alone():
    lengths = set()
    for _ in range(3):
        messages, _ = said(*sides(drawn((130, 32), RING), drawn(130, 32, np.uint8)))
        lengths.add(tuple(map(len, messages)))
    assert len(lengths) == 1
    assert next(iter(lengths))[1:] == (130 * 31 * 6, 130 * 6)


def test_an_auditor_repeats_every_byte_of_an_answer():
    seeds, nonces = (b"1" * 32, b"2" * 32), (b"m" * 32, b"n" * 32)
    tables, points = drawn((70, 32), RING), drawn(70, 32, np.uint8)
    asking, answering = sides(tables, points, number=1, pair=sessions(seeds, nonces))
    messages, _ = said(asking, answering)
    _, other = sessions(seeds, nonces)
    again = AnsweringSide(other, 1, QUESTION, points, 32, answering.nonce)
    assert (again.choices(), again.shares(messages[1])) == (messages[0], messages[2])


def test_questions_of_one_session_follow_each_other():
    tables, points = drawn((20, 32), RING), drawn(20, 32, np.uint8)
    number = next(NUMBERS)
    for _ in range(2):
        last, number = number, next(NUMBERS)
        _, entries = said(*sides(tables, points, number=last))
        np.testing.assert_array_equal(entries, tables[np.arange(20), points])
    with pytest.raises(ProtocolError, match="made twice"):
        sides(tables, points, number=last)


def test_another_question_is_not_answered():
    tables, points = drawn((20, 32), RING), drawn(20, 32, np.uint8)
    asking, answering = sides(tables, points, question=(QUESTION, b"another model, rows, label"))
    with pytest.raises(ProtocolError, match="another question"):
        asking.masked_tables(answering.choices())
    (one, other), number = shared_pair(), next(NUMBERS)
    asking = AskingSide(one, number, QUESTION, tables)
    with pytest.raises(ProtocolError, match="another question"):
        asking.masked_tables(AnsweringSide(other, number, QUESTION, points[:19], 32).choices())


def test_messages_out_of_turn_or_of_other_lengths_are_refused():
    tables, points = drawn((20, 32), RING), drawn(20, 32, np.uint8)
    asking, answering = sides(tables, points)
    with pytest.raises(ProtocolError, match=r"message 2.*due"):
        answering.shares(b"")
    choices = answering.choices()
    with pytest.raises(ProtocolError, match=r"message 1.*due"):
        answering.choices()
    masked = asking.masked_tables(choices)
    with pytest.raises(ProtocolError, match=r"message 1.*question"):
        asking.masked_tables(choices)
    with pytest.raises(ProtocolError, match="bytes where"):
        answering.shares(masked[:-1])
    with pytest.raises(ProtocolError, match="20 answers have 3 bytes"):
        asking.entries(b"abc")


def test_transfers_that_are_not_consistent_end_the_session():
    pair = sessions()
    asking, answering = sides(drawn((20, 32), RING), drawn(20, 32, np.uint8), number=1, pair=pair)
    choices = bytearray(answering.choices())
    choices[40] ^= 1
    with pytest.raises(TransferCheckError):
        asking.masked_tables(bytes(choices))
    with pytest.raises(ProtocolError, match="over"):
        AskingSide(pair[0], 2, QUESTION, drawn((20, 32), RING))


def test_sides_are_not_copied():
    for side in sides(drawn((20, 32), RING), drawn(20, 32, np.uint8)):
        with pytest.raises(TypeError, match="cannot be copied"):
            copy.copy(side)


def test_inputs_out_of_range_are_refused_before_the_session_is_used():
    (one, other), number = shared_pair(), next(NUMBERS)
    for tables in (
        drawn((20, 32)) | np.uint64(RING),
        drawn((20, 32), RING).astype(np.int64),
        drawn(20, RING),
    ):
        with pytest.raises(PartyArgumentError, match="below 2"):
            AskingSide(one, number, QUESTION, tables)
    for n in (0, MAX_ROWS + 1):
        with pytest.raises(PartyArgumentError, match=f"n_rows={n} of a question"):
            AskingSide(one, number, QUESTION, np.zeros((n, 2), dtype=np.uint64))
        with pytest.raises(PartyArgumentError, match=f"n_rows={n} of a question"):
            AnsweringSide(other, number, QUESTION, np.zeros(n, dtype=np.uint8), 2)
    with pytest.raises(PartyArgumentError, match=r"points.*below 32"):
        AnsweringSide(other, number, QUESTION, np.full(3, 32, np.uint8), 32)
    tables, points = drawn((20, 32), RING), drawn(20, 32, np.uint8)
    said(*sides(tables, points, number=number))
