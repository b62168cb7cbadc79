"""Rounds of two sides: opened sums beside a central simulation, lengths, replay, and what is refused."""

import copy
import hashlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_parties.errors import PartyArgumentError, ProtocolError, TransferCheckError
from gbdt_parties.two_party.layout import TreeLayout
from gbdt_parties.two_party.life import Failures
from gbdt_parties.two_party.rounds import PointSide, TableSide
from gbdt_parties.two_party.session import Session
from gbdt_parties.two_party.sides import CHOICES, LAST, SUMS, TABLES, transcribe
from two_party_oracle import leaf_sums
from two_party_sides import RUN, A, B, deliver, inputs_of, layout_of, play, sessions

pytest.importorskip("nacl")


@pytest.fixture(scope="module")
def opened():
    """Two sessions for tests that begin rounds of their own."""
    return SimpleNamespace(sessions=sessions(), number=0)


def sides_of(pair, layout, inputs, number, attempt=0, nonces=(None, None)):
    own = [[inputs.leaves[t] for t in layout.owned_by(place)] for place in (0, 1)]

    def tables(first, last):
        return inputs.tables[first:last]

    return (
        TableSide(pair[0], layout, number, attempt, tables, own[0], inputs.noise[0], nonces[0]),
        PointSide(pair[1], layout, number, attempt, inputs.points, own[1], inputs.noise[1], nonces[1]),
    )


def begun(opened, layout, inputs=None):
    """Both sides of a new round."""
    opened.number += 1
    return sides_of(opened.sessions, layout, inputs or inputs_of(layout), opened.number)


def expected_sums(layout, inputs):
    """Sums with both noises, centrally."""
    entries = inputs.tables[np.arange(layout.n_rows), inputs.points]
    ring = np.uint64((1 << layout.ring_bits) - 1)
    for t, tree in enumerate(layout.trees):
        sums = np.array(leaf_sums(entries[:, tree.output], inputs.leaves[t], tree.levels), np.uint64)
        yield sums + inputs.noise[0][t] + inputs.noise[1][t] & ring


@pytest.mark.parametrize(
    "layout",
    [
        layout_of(1),
        layout_of(64, ring_bits=64),
        layout_of(65, owners=(0, 0, 1, 1, 1)),
        layout_of(1000, owners=(1, 0, 1, 0), n_outputs=3, levels=3, n_points=5),
        layout_of(300, owners=(1,), levels=6, n_points=256, rows_per_message=128),
        layout_of(200, owners=(0,), levels=1, n_points=2, ring_bits=64),
        layout_of(129, owners=()),
    ],
    ids=lambda layout: f"{layout.n_rows}-{len(layout.trees)}-{layout.ring_bits}",
)
def test_opened_sums_are_those_of_a_central_simulation(opened, layout):
    inputs = inputs_of(layout)
    tables, points = begun(opened, layout, inputs)
    play(tables, points)
    for side in (tables, points):
        assert len(side.opened) == len(layout.trees)
        for found, expected in zip(side.opened, expected_sums(layout, inputs), strict=True):
            assert (found == expected).all()
    assert tables.transcript == points.transcript


def test_of_a_points_transfers_one_is_held(opened):
    """Transfers between flights 1 and 3 are the most that a round holds: 16 bytes for a row and level."""
    layout = layout_of(200, owners=(0, 1, 1), levels=3, rows_per_message=128)
    tables, points = begun(opened, layout)
    deliver(tables.send(CHOICES), points)
    deliver(points.send(CHOICES), tables)
    for batches, n_transfers in (
        (points.chosen, 1 + 2 * 3),
        (tables.offered, 1 + 2 * 3),
        (tables.chosen, 3),
        (points.offered, 3),
    ):
        for rows, parts in zip((128, 128), batches, strict=True):
            whole = [part if part.base is None else part.base for part in parts]
            assert sum({id(array): array.nbytes for array in whole}.values()) == 16 * rows * n_transfers


@given(
    st.integers(1, 200),
    st.lists(st.integers(0, 1), max_size=4),
    st.integers(1, 6),
    st.integers(2, 40),
    st.integers(1, 3),
    st.sampled_from([48, 64]),
)
@settings(max_examples=15)
def test_opened_sums_of_drawn_layouts(opened, n, owners, levels, n_points, n_outputs, ring_bits):
    layout = layout_of(n, owners, levels, n_points, n_outputs, ring_bits)
    inputs = inputs_of(layout)
    tables, points = begun(opened, layout, inputs)
    play(tables, points)
    expected = list(expected_sums(layout, inputs))
    for side in (tables, points):
        assert [sums.tolist() for sums in side.opened] == [sums.tolist() for sums in expected]


@pytest.mark.slow
@pytest.mark.parametrize("n", [16384, 16385, 100_003, 1_000_000])
def test_sums_of_many_rows(opened, n):
    layout = layout_of(n, rows_per_message=1 << 14)
    inputs = inputs_of(layout)
    tables, points = begun(opened, layout, inputs)
    play(tables, points)
    entries = inputs.tables[np.arange(n), inputs.points, 0]
    for t, found in enumerate(tables.opened):
        sums = np.array([entries[inputs.leaves[t] == k].sum() for k in range(16)], np.uint64)
        assert (found == sums + inputs.noise[0][t] + inputs.noise[1][t] & np.uint64(2**48 - 1)).all()


def test_lengths_and_order_depend_on_public_numbers_alone(opened):
    """Two data sets of the same sizes, one of them all zeros: the same trace of lengths."""
    layout = layout_of(200, owners=(0, 1, 1))
    traces = []
    for blank in (False, True):
        inputs = inputs_of(layout)
        if blank:
            inputs.tables[:], inputs.points[:] = 0, 0
            inputs.leaves = [np.zeros_like(leaves) for leaves in inputs.leaves]
        trace = []
        tables, points = begun(opened, layout, inputs)
        play(tables, points, trace)
        traces.append([len(message) for message in trace])
    assert traces[0] == traces[1]
    assert traces[0] == [
        *(32, 1584, 1584, 1584, 1584),  # 4 bits of one tree, with spares and check, for 64 rows at most
        *(32, 3632, 3632, 3632, 3632),  # 12 bits: points and two trees
        *(17280, 17280, 17280, 2160, 256),  # tables and corrections of two trees; shares of both
        *(5760, 5760, 5760, 720, 384),  # corrections of one tree; shares of three
        128,
    ]


def test_messages_about_nothing_look_uniform(opened):
    """Tables, points, leaves and noise are all zero: each bit of a masked number is 1 about half the time."""
    layout = layout_of(1024, owners=(0, 1), rows_per_message=1024, ring_bits=64)
    inputs, trace = inputs_of(layout), []
    for values in (inputs.tables, inputs.points, *inputs.leaves, *inputs.noise[0], *inputs.noise[1]):
        values[:] = 0
    tables, points = begun(opened, layout, inputs)
    play(tables, points, trace)
    assert not any(sums.any() for sums in tables.opened)
    masked = [trace[1], trace[3], trace[4], trace[6]]
    assert [len(message) for message in masked] == [16944, 33328, 1024 * 30 * 8, 1024 * 15 * 8]
    for message in masked:
        words = np.frombuffer(message, np.uint8)[: len(message) // 8 * 8].reshape(-1, 8)
        means = np.unpackbits(words, axis=1).mean(axis=0)
        assert abs(means - 0.5).max() < 5 / (2 * len(words) ** 0.5)


def test_bytes_of_a_row_and_tree():
    """Four trees on one refresh: 132 bytes per row and tree, a tree of either on one refresh: 158."""
    pair = sessions()
    for number, (owners, most) in enumerate([((0, 0, 1, 1), 134), ((0, 1), 161)]):
        layout = layout_of(5000, owners=owners, rows_per_message=1 << 14)
        trace = []
        tables, points = sides_of(pair, layout, inputs_of(layout), number)
        play(tables, points, trace)
        assert sum(map(len, trace)) / 5000 / len(owners) < most


def test_no_message_repeats_in_another_attempt(opened):
    """The same inputs again: nothing but the lengths is the same, not even a block of 16 bytes."""
    layout = layout_of(64)
    inputs = inputs_of(layout)
    inputs.noise = [[np.zeros(16, np.uint64)] * 2] * 2
    blocks = []
    for attempt in (0, 1):
        trace = []
        opened.number += 1 - attempt
        tables, points = sides_of(opened.sessions, layout, inputs, opened.number, attempt)
        play(tables, points, trace)
        blocks.append({text[at : at + 16] for text in trace for at in range(0, len(text) - 15, 16)})
    assert not blocks[0] & blocks[1]


def test_an_auditor_repeats_every_byte_of_one_side():
    """With one side's seed, nonces and inputs, and the other one's messages."""
    pair, layout = sessions(), layout_of(100)
    greetings = [one.greeting for one in pair]
    inputs, trace = inputs_of(layout), []
    tables, points = sides_of(pair, layout, inputs, 1)

    class Recorded:
        def __init__(self, side):
            self.side, self.taken = side, []

        def take(self, message):
            self.taken.append(message)
            self.side.take(message)

    listener = Recorded(tables)
    said = list(tables.send(CHOICES))
    deliver(said, points)
    deliver(points.send(CHOICES), listener)
    second = list(tables.send(TABLES))
    deliver(second, points)
    shares = tables.shares(TABLES)
    points.take(shares)
    deliver(points.send(SUMS), listener)
    deliver([points.shares(SUMS)], listener)
    trace = [*said, *second, shares, tables.shares(LAST)]

    again = Session(RUN, A, B, b"1" * 32, Failures(), pair[0].nonce)
    other = Session(RUN, B, A, b"2" * 32, Failures(), pair[1].nonce)
    assert [again.greeting, other.greeting] == greetings
    to_other, to_again = again.take_greeting(greetings[1]), other.take_greeting(greetings[0])
    trees = again.take_points(to_again), other.take_points(to_other)
    again.take_trees(trees[1])
    replayed = TableSide(
        again,
        layout,
        1,
        0,
        lambda first, last: inputs.tables[first:last],
        [inputs.leaves[t] for t in layout.owned_by(0)],
        inputs.noise[0],
        tables.nonce,
    )
    taken = iter(listener.taken)
    repeated = list(replayed.send(CHOICES))
    for _ in range(1 + len(layout.chunks)):
        replayed.take(next(taken))
    repeated += [*replayed.send(TABLES), replayed.shares(TABLES)]
    for message in taken:
        replayed.take(message)
    repeated.append(replayed.shares(LAST))
    assert repeated == trace
    assert all((a == b).all() for a, b in zip(replayed.opened, tables.opened, strict=True))


def test_noised_shares_are_all_that_opens(opened):
    """The other side's shares are the opened sums less one's own: they tell nothing more."""
    layout = layout_of(50)
    tables, points = begun(opened, layout)
    trace = []
    play(tables, points, trace)
    assert layout.owned_by(0) == [0]
    theirs = points.opened[0] - points.sum_shares[0] & np.uint64(2**48 - 1)
    assert (np.frombuffer(trace[-1], "<u8") == theirs).all()


def test_the_same_attempt_is_not_begun_twice_on_either_side(opened):
    layout = layout_of(10)
    inputs = inputs_of(layout)
    begun(opened, layout, inputs)
    for number, attempt in ((opened.number, 0), (opened.number - 1, 7)):
        with pytest.raises(ProtocolError, match=r"attempt.*twice"):
            sides_of(opened.sessions, layout, inputs, number, attempt)


def started(opened, layout=None):
    """Both sides with flight 1 done."""
    tables, points = begun(opened, layout or layout_of(70))
    deliver(tables.send(CHOICES), points)
    deliver(points.send(CHOICES), tables)
    return tables, points


@pytest.mark.parametrize(
    ("number", "attempt", "bounds"), [(1, 0, (1.0, 0.25)), (1, 1, (1.0, 0.3)), (2, 0, (1.0, 0.3))]
)
def test_sides_that_mean_another_round_refuse_each_other(number, attempt, bounds):
    pair, layout = sessions(), layout_of(10)
    inputs = inputs_of(layout)
    tables, _ = sides_of(pair, layout, inputs, 1)
    pair[1].begun = None
    leaves = [inputs.leaves[t] for t in layout.owned_by(1)]
    other = replace(layout, bounds=bounds)
    points = PointSide(pair[1], other, number, attempt, inputs.points, leaves, inputs.noise[1])
    with pytest.raises(ProtocolError, match="attempt or layout"):
        points.take(next(tables.send(CHOICES)))
    with pytest.raises(ProtocolError, match="attempt or layout"):
        tables.take(next(points.send(CHOICES)))


def test_messages_of_other_lengths_are_refused(opened):
    for flight in (1, 2, 3):
        tables, points = started(opened)
        if flight == 1:
            tables, points = begun(opened, layout_of(70))
            side, message = points, list(tables.send(CHOICES))
            points.take(message[0])
            message = message[1]
        elif flight == 2:
            side, message = points, next(tables.send(TABLES))
        else:
            deliver(tables.send(TABLES), points)
            points.take(tables.shares(TABLES))
            side, message = tables, next(points.send(SUMS))
        with pytest.raises(ProtocolError, match="bytes where"):
            side.take(message + b"\0")
        with pytest.raises(ProtocolError, match="none was due"):
            side.take(message)


def test_shares_out_of_the_ring_or_of_another_length_are_refused(opened):
    for change in (lambda text: b"\xff" * len(text), lambda text: text[:-8], lambda text: text + bytes(8)):
        tables, points = started(opened)
        deliver(tables.send(TABLES), points)
        with pytest.raises(ProtocolError, match=r"the ring|bytes where"):
            points.take(change(tables.shares(TABLES)))


class Damaging:
    """Passes messages on, one of them damaged."""

    def __init__(self, side, at, change):
        self.side, self.at, self.change, self.n_taken = side, at, change, 0

    def take(self, message):
        if self.n_taken == self.at:
            message = self.change(message)
        self.n_taken += 1
        self.side.take(message)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1] + bytes([text[-1] ^ 1]),
        lambda text: bytes([text[0] ^ 128]) + text[1:],
        lambda text: text[:-1],
        lambda text: text + b"\0",
        lambda text: b"",
        lambda text: bytes(len(text)),
        lambda text: b"\xff" * len(text),
    ],
    ids=["last bit", "first bit", "shorter", "longer", "empty", "zeros", "ones"],
)
def test_damaged_messages_are_refused_or_seen_in_the_transcript(change):
    """Heads, transfers and lengths are checked, masked numbers are not; nothing fails but by name."""
    layout, pair, outcomes = layout_of(70, owners=(0, 1)), sessions(), {}
    # To the side with points come: head, two messages of choices, two of tables, shares, shares.
    for number, at in enumerate([7, 0, 3, 4, 5, 6, 2]):
        inputs = inputs_of(layout)
        tables, points = sides_of(pair, layout, inputs, number)
        damaging = Damaging(points, at, change)
        try:
            deliver(tables.send(CHOICES), damaging)
            deliver(points.send(CHOICES), tables)
            deliver(tables.send(TABLES), damaging)
            damaging.take(tables.shares(TABLES))
            deliver(points.send(SUMS), tables)
            tables.take(points.shares(SUMS))
            damaging.take(tables.shares(LAST))
        except ProtocolError as error:
            outcomes[at] = type(error)
            assert points.opened == []
        else:
            expected = [sums.tolist() for sums in expected_sums(layout, inputs)]
            outcomes[at] = [sums.tolist() for sums in points.opened] == expected
            assert (tables.transcript == points.transcript) == (at == 7)
    assert outcomes[7] is True
    assert outcomes[0] is ProtocolError
    assert outcomes[2] in (ProtocolError, TransferCheckError)
    # One bit of a masked table may be of an entry that is not asked for.
    assert True not in (outcomes[5], outcomes[6])


def test_no_message_is_taken_or_made_twice(opened):
    tables, points = started(opened)
    for side, flight in ((tables, CHOICES), (points, CHOICES), (tables, LAST), (points, TABLES)):
        with pytest.raises(ProtocolError, match="is not due"):
            side.send(flight)
    with pytest.raises(ProtocolError, match="is not due"):
        tables.shares(TABLES)
    messages = tables.send(TABLES)
    points.take(next(messages))
    with pytest.raises(ProtocolError, match=r"due.*sent"):
        tables.send(TABLES)
    with pytest.raises(ProtocolError, match=r"due.*sent"):
        tables.shares(TABLES)
    deliver(messages, points)
    deliver([tables.shares(TABLES)], points)
    with pytest.raises(ProtocolError, match=r"due.*sent"):
        tables.shares(TABLES)
    deliver(points.send(SUMS), tables)
    deliver([points.shares(SUMS)], tables)
    last = tables.shares(LAST)
    points.take(last)
    with pytest.raises(ProtocolError, match="none was due"):
        points.take(last)
    assert len(points.opened) == 2


def test_corrections_leave_once_tables_of_their_rows_are_there_and_shares_after_all(opened):
    tables, points = started(opened)
    messages, sums = tables.send(TABLES), points.send(SUMS)
    for message in messages:
        points.take(message)
        next(sums)
    assert list(sums) == []
    with pytest.raises(ProtocolError, match=r"flight 3.*flight 2"):
        points.shares(SUMS)
    tables, points = started(opened)
    points.take(next(tables.send(TABLES)))
    sums = points.send(SUMS)
    next(sums)
    with pytest.raises(ProtocolError, match="before their tables"):
        next(sums)


def test_inconsistent_choices_end_the_session_and_nothing_opens():
    pair, layout = sessions(), layout_of(70)
    tables, points = sides_of(pair, layout, inputs_of(layout), 1)
    messages = list(points.send(CHOICES))
    tables.take(messages[0])
    bad = bytearray(messages[1])
    bad[3] ^= 1
    with pytest.raises(TransferCheckError, match="session is over"):
        tables.take(bytes(bad))
    for attempt in (
        lambda: tables.send(CHOICES),
        lambda: tables.take(messages[1]),
        lambda: tables.shares(TABLES),
    ):
        with pytest.raises(ProtocolError, match="is over"):
            attempt()
    with pytest.raises(ProtocolError, match="is over"):
        pair[0].begin(2, 0)
    assert tables.opened == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda i: i.leaves.pop(), "leaves.*0 trees.*owns 1"),
        (lambda i: i.leaves.__setitem__(1, np.full(70, 16, np.uint8)), "leaves must be below 16"),
        (lambda i: i.leaves.__setitem__(1, np.zeros(69, np.uint8)), r"leaves of type uint8.*\(69,\)"),
        (lambda i: i.leaves.__setitem__(1, np.zeros(70)), "leaves of type float64"),
        (lambda i: setattr(i, "points", np.full(70, 16, np.uint8)), "points must be below 16"),
        (lambda i: i.noise[1].pop(), "noise.*word"),
        (lambda i: i.noise[1].__setitem__(0, np.zeros(15, np.uint64)), "noise.*word"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_before_anything_is_sent(opened, change, text):
    layout = layout_of(70)
    inputs = inputs_of(layout)
    change(inputs)
    opened.number += 1
    leaves = inputs.leaves[1:]
    with pytest.raises(PartyArgumentError, match=text):
        PointSide(opened.sessions[1], layout, opened.number, 0, inputs.points, leaves, inputs.noise[1])


def test_tables_of_another_shape_are_refused(opened):
    layout = layout_of(70)
    inputs = inputs_of(layout)
    inputs.tables = inputs.tables[:, :15]
    tables, points = begun(opened, layout, inputs)
    deliver(tables.send(CHOICES), points)
    deliver(points.send(CHOICES), tables)
    with pytest.raises(PartyArgumentError, match=r"tables of type uint64.*\(64, 15, 1\)"):
        next(tables.send(TABLES))


def test_layouts_of_others_and_those_reserved_are_refused(opened):
    layout = layout_of(70)
    inputs = inputs_of(layout)
    for other, text in (
        (replace(layout, parties=layout.parties[::-1]), "parties of the layout are not those of the session"),
        (replace(layout, trees=(TreeLayout((0, 1), 0, 4),)), "several owners"),
    ):
        with pytest.raises(PartyArgumentError, match=text):
            sides_of(opened.sessions, other, inputs, opened.number + 1)


def test_sides_are_not_copied(opened):
    for side in begun(opened, layout_of(10)):
        with pytest.raises(TypeError, match="cannot be copied"):
            copy.deepcopy(side)


def test_a_transcript_has_every_message_behind_its_length():
    found = hashlib.sha256()
    for message in (b"abc", memoryview(b"")):
        transcribe(found, message)
    assert found.digest() == hashlib.sha256(b"\3" + bytes(7) + b"abc" + bytes(8)).digest()
