"""The public numbers of a round: everything that the number, order and length of messages depend on."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from enum import IntEnum

from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.two_party.leaf_sums import check_levels
from gbdt_parties.two_party.lookups import bits_of
from gbdt_parties.two_party.names import DIGEST_BYTES, Seat

ROWS_PER_MESSAGE = 1 << 14
MAX_MESSAGE_BYTES = 32 << 20
"""Of the corrections of some rows; the more trees, the fewer rows has a message."""

MAX_ROWS, MAX_OUTPUTS, MAX_TREES = 1 << 31, 256, 1 << 10
RINGS = (48, 64, 96)
_DOMAIN = b"VB2R\1"
_HEAD = struct.Struct("<5sQIHHHHHBdd")
_TREE = struct.Struct("<HBB")


def rows_per_message(row_bytes: int) -> int:
    """Rows of a message with so many bytes of each, at most: a multiple of 64."""
    return max(64, min(ROWS_PER_MESSAGE, MAX_MESSAGE_BYTES // max(1, row_bytes) // 64 * 64))


class NoiseMode(IntEnum):
    """Whose noise the opened sums have."""

    EACH = 0
    """Each party adds the whole noise to its shares."""

    JOINT = 1
    """One noise that neither knows; reserved."""


@dataclass(frozen=True)
class TreeLayout:
    """A tree whose leaves are summed over.

    Its owners are the places, ascending, of the parties on whose columns it splits.  `output` says which
    output of the table's entries is summed: the tree's class.  It has 1 to 6 levels.
    """

    owners: tuple[int, ...]
    output: int
    levels: int


@dataclass(frozen=True)
class RoundLayout:
    """The numbers that both sides agree on before a round.

    The wire has room for more than is implemented; `check_implemented` names what is not.

    The first of the parties is the one with the tables.  Points have 2 to 256 positions, ascending, and an
    entry of a table has `n_outputs` ring elements, of 48, 64 or 96 bits.  The bounds are those of gradients
    (C) and hessians (κ), both positive.  The rows of a message are a multiple of 64.  `about` is the digest,
    of 32 bytes, of everything else that both sides must agree on before the round.

    Raises `PartyArgumentError` if a number is out of range.
    """

    parties: tuple[Seat, ...]
    n_rows: int
    positions: tuple[float, ...]
    n_outputs: int
    ring_bits: int
    trees: tuple[TreeLayout, ...]
    bounds: tuple[float, float]
    noise: NoiseMode = NoiseMode.EACH
    rows_per_message: int = ROWS_PER_MESSAGE
    about: bytes = bytes(DIGEST_BYTES)

    def __post_init__(self) -> None:
        places = {seat.place for seat in self.parties}
        if len(places) < len(self.parties) or len(self.parties) < 2:
            raise PartyArgumentError("parties of a round must be two or more, with different places")
        for name, least, most in (
            ("n_rows", 1, MAX_ROWS),
            ("n_outputs", 1, MAX_OUTPUTS),
            ("rows_per_message", 64, 1 << 24),
        ):
            if not least <= getattr(self, name) <= most:
                raise PartyArgumentError(f"{name}={getattr(self, name)} must be {least} to {most}")
        if self.rows_per_message % 64:
            raise PartyArgumentError(f"rows_per_message={self.rows_per_message} must be a multiple of 64")
        if self.ring_bits not in RINGS:
            raise PartyArgumentError(f"ring_bits={self.ring_bits} must be one of {RINGS}")
        bits_of(len(self.positions))
        if not all(map(math.isfinite, self.positions)) or list(self.positions) != sorted(set(self.positions)):
            raise PartyArgumentError("positions of points must be finite, different and ascending")
        if not all(math.isfinite(bound) and bound > 0 for bound in self.bounds):
            raise PartyArgumentError(f"bounds={self.bounds} must be finite and positive")
        if len(self.trees) > MAX_TREES:
            raise PartyArgumentError(f"{len(self.trees)} trees in a round; there may be {MAX_TREES}")
        if len(self.about) != DIGEST_BYTES:
            raise PartyArgumentError(f"about of {len(self.about)} bytes: it must have {DIGEST_BYTES}")
        for tree in self.trees:
            check_levels(tree.levels)
            if not 0 <= tree.output < self.n_outputs:
                raise PartyArgumentError(f"output={tree.output} of a tree must be below {self.n_outputs}")
            if not tree.owners or list(tree.owners) != sorted({*tree.owners} & places):
                raise PartyArgumentError(f"owners={tree.owners} of a tree must be parties' places, ascending")

    def check_implemented(self) -> None:
        """Refuse what the wire has room for and this version does not do.

        Raises `PartyArgumentError` for more than two parties, trees of several owners, 96 bits, and joint
        noise.
        """
        if len(self.parties) > 2:
            raise PartyArgumentError(f"{len(self.parties)} parties: this version computes between two")
        if self.ring_bits == 96:
            raise PartyArgumentError("ring_bits=96 is reserved; this version has rings of 48 and 64 bits")
        if self.noise is not NoiseMode.EACH:
            raise PartyArgumentError("joint noise is reserved; in this version each party adds its own")
        if any(len(tree.owners) > 1 for tree in self.trees):
            raise PartyArgumentError("a tree of several owners is reserved; in this version each has one")

    @property
    def n_bits(self) -> int:
        """Transfers of a lookup."""
        return bits_of(len(self.positions))

    @property
    def chunks(self) -> list[slice]:
        """The rows of every message."""
        step = self.rows_per_message
        return [slice(k, min(k + step, self.n_rows)) for k in range(0, self.n_rows, step)]

    def owned_by(self, place: int) -> list[int]:
        """Numbers of the trees that a party owns."""
        return [t for t, tree in enumerate(self.trees) if tree.owners == (place,)]

    def to_bytes(self) -> bytes:
        """The layout, one way only."""
        sizes = (len(self.parties), len(self.positions), self.n_outputs, self.ring_bits, len(self.trees))
        head = _HEAD.pack(_DOMAIN, self.n_rows, self.rows_per_message, *sizes, self.noise, *self.bounds)
        parties = b"".join(seat.to_bytes() for seat in self.parties)
        positions = struct.pack(f"<{len(self.positions)}d", *self.positions)
        trees = b"".join(
            _TREE.pack(tree.output, tree.levels, len(tree.owners))
            + struct.pack(f"<{len(tree.owners)}H", *tree.owners)
            for tree in self.trees
        )
        return head + parties + positions + trees + self.about

    @classmethod
    def from_bytes(cls, data: bytes) -> RoundLayout:
        """Read what `to_bytes` wrote; raises `ProtocolError` if it is anything else."""
        try:
            layout = cls._read(data)
        except (struct.error, PartyArgumentError, ValueError) as error:
            raise ProtocolError(f"a round's layout is malformed: {error}") from None
        if layout.to_bytes() != data:
            raise ProtocolError("a round's layout is malformed: it is not in its only form")
        return layout

    @classmethod
    def _read(cls, data: bytes) -> RoundLayout:
        head = _HEAD.unpack_from(data)
        _, n_rows, step, n_parties, n_points, n_outputs, ring_bits, n_trees, noise, clip, curvature = head
        at, seats = _HEAD.size, []
        for _ in range(n_parties):
            seats.append(Seat(int.from_bytes(data[at : at + 2], "little"), data[at + 2 : at + 34]))
            at += 34
        positions = struct.unpack_from(f"<{n_points}d", data, at)
        at += 8 * n_points
        trees = []
        for _ in range(n_trees):
            output, levels, n_owners = _TREE.unpack_from(data, at)
            owners = struct.unpack_from(f"<{n_owners}H", data, at + _TREE.size)
            trees.append(TreeLayout(owners, output, levels))
            at += _TREE.size + 2 * n_owners
        return cls(
            tuple(seats),
            n_rows,
            positions,
            n_outputs,
            ring_bits,
            tuple(trees),
            (clip, curvature),
            NoiseMode(noise),
            step,
            data[at:],
        )

    def digest(self) -> bytes:
        """SHA-256 of the layout."""
        return hashlib.sha256(self.to_bytes()).digest()
