"""Layouts of rounds: one way to write each, and room for more than is implemented."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.two_party.layout import MAX_ROWS, MAX_TREES, NoiseMode, RoundLayout, TreeLayout
from gbdt_parties.two_party.names import Seat
from two_party_sides import A, B, layout_of

C = Seat(7, b"c" * 32)
LAYOUT = layout_of(1000, owners=(0, 1, 1), n_outputs=2)

trees = st.builds(
    TreeLayout, st.sampled_from([(0,), (1,), (7,), (0, 1), (0, 1, 7)]), st.integers(0, 2), st.integers(1, 6)
)
positions = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=256, unique=True).map(sorted).map(tuple)
layouts = st.builds(
    RoundLayout,
    st.just((A, B, C)),
    st.integers(1, 1 << 31),
    positions,
    st.integers(3, 256),
    st.sampled_from([48, 64, 96]),
    st.lists(trees, max_size=5).map(tuple),
    st.tuples(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9)),
    st.sampled_from(NoiseMode),
    st.integers(1, 100).map(lambda k: 64 * k),
)


@given(layouts)
def test_layouts_are_read_back(layout):
    assert RoundLayout.from_bytes(layout.to_bytes()) == layout


def test_each_number_changes_the_digest():
    changed = [
        replace(LAYOUT, parties=(B, A)),
        replace(LAYOUT, n_rows=999),
        replace(LAYOUT, positions=(*LAYOUT.positions[:-1], 13.0)),
        replace(LAYOUT, n_outputs=3),
        replace(LAYOUT, ring_bits=64),
        replace(LAYOUT, trees=LAYOUT.trees[::-1]),
        replace(LAYOUT, trees=(*LAYOUT.trees[:-1], TreeLayout((1,), 0, 5))),
        replace(LAYOUT, bounds=(1.0, 0.4)),
        replace(LAYOUT, noise=NoiseMode.JOINT),
        replace(LAYOUT, rows_per_message=128),
    ]
    assert len({layout.digest() for layout in (LAYOUT, *changed)}) == 11


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"parties": (A,)}, "two or more, with different places"),
        ({"parties": (A, Seat(0, b"c" * 32))}, "different places"),
        ({"n_rows": 0}, "n_rows=0 must be 1 to"),
        ({"n_outputs": 257}, "n_outputs=257"),
        ({"rows_per_message": 100}, "must be a multiple of 64"),
        ({"ring_bits": 32}, "ring_bits=32 must be one of"),
        ({"positions": (1.0,)}, "n_points=1 of a table"),
        ({"positions": (1.0, 1.0)}, "finite, different and ascending"),
        ({"positions": (1.0, float("nan"))}, "finite, different and ascending"),
        ({"bounds": (0.0, 1.0)}, "must be finite and positive"),
        ({"trees": (TreeLayout((0,), 2, 4),)}, "output=2 of a tree must be below 2"),
        ({"trees": (TreeLayout((0,), 0, 7),)}, "levels=7"),
        ({"trees": (TreeLayout((), 0, 4),)}, "owners=()"),
        ({"trees": (TreeLayout((1, 0), 0, 4),)}, "ascending"),
        ({"trees": (TreeLayout((3,), 0, 4),)}, "parties' places"),
        ({"trees": (TreeLayout((0,), 0, 4),) * (MAX_TREES + 1)}, f"{MAX_TREES + 1} trees in a round"),
        ({"trees": (TreeLayout((0,), -1, 4),)}, "output=-1"),
        ({"trees": (TreeLayout((0,), 0, 0),)}, "levels=0"),
        ({"positions": (2.0, 1.0)}, "finite, different and ascending"),
        ({"positions": (1.0, float("inf"))}, "finite, different and ascending"),
        ({"positions": tuple(map(float, range(257)))}, "n_points=257"),
        ({"bounds": (1.0, float("inf"))}, "must be finite and positive"),
        ({"n_rows": MAX_ROWS + 1}, "must be 1 to"),
        ({"n_outputs": 0}, "n_outputs=0"),
        ({"rows_per_message": 0}, "must be 64 to"),
        ({"rows_per_message": (1 << 24) + 64}, "must be 64 to"),
        ({"about": bytes(31)}, "about of 31 bytes"),
    ],
)
def test_numbers_out_of_range_are_refused(change, text):
    with pytest.raises(PartyArgumentError, match=text.replace("(", r"\(").replace(")", r"\)")):
        replace(LAYOUT, **change)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"parties": (A, B, C)}, "3 parties.*computes"),
        ({"ring_bits": 96}, "ring_bits=96 is reserved"),
        ({"noise": NoiseMode.JOINT}, "joint noise is reserved"),
        ({"trees": (TreeLayout((0, 1), 0, 4),)}, "tree.*owners"),
    ],
)
def test_what_is_only_reserved_is_refused_by_name(change, text):
    LAYOUT.check_implemented()
    with pytest.raises(PartyArgumentError, match=text):
        replace(LAYOUT, **change).check_implemented()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data + b"\0",
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: data[:20],
        lambda data: b"X" + data[1:],
        lambda data: data[:4] + b"\2" + data[5:],
        lambda data: data[:5] + bytes(8) + data[13:],
    ],
    ids=["longer", "shorter", "empty", "head", "kind", "version", "rows"],
)
def test_other_bytes_are_refused(change):
    with pytest.raises(ProtocolError, match="round's layout"):
        RoundLayout.from_bytes(change(LAYOUT.to_bytes()))


def test_the_largest_numbers_are_accepted():
    most = replace(
        LAYOUT,
        n_rows=MAX_ROWS,
        n_outputs=256,
        rows_per_message=1 << 24,
        positions=tuple(map(float, range(256))),
        trees=(TreeLayout((0,), 255, 6),) * MAX_TREES,
    )
    assert RoundLayout.from_bytes(most.to_bytes()) == most
