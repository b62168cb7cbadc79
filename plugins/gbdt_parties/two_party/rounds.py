"""One side of a round: tables looked up by points, entries summed over leaves, noised sums opened.

Functionality: A has for every row a table of ring elements, and leaves of its trees; B has a point for
every row, and leaves of its trees; either has noise for the sums of all trees.  Afterwards both have, for
every leaf of every tree, the sum over the leaf's rows of the entry at the row's point, plus both noises;
and nothing else.

Four flights.  Those that go both ways cross; corrections of flight 3 leave once the tables of their rows are
there:

1. A → B and B → A: transfers chosen with leaves, and by B with points.
2. A → B: masked tables, corrections of the sums of B's trees; A's noised shares of them.
3. B → A: corrections of the sums of A's trees; B's noised shares of all sums.
4. A → B: A's noised shares of the sums of A's trees.

Source: the composition is this package's own; its parts are `extension`, `lookups` and `leaf_sums`.

* *The sums are right*: the parts' shares add up to the entries' sums, and to each share its side's noise
  is added.
* *B's view* is simulated from the opened sums: masked tables, corrections and A's transfers look uniform
  (their modules' proofs), and A's noised shares are the opened sums less B's own noised shares.
* *A's view* likewise; the shares of B are uniform as the entries' shares are, but for their sum.
* *No side speaks last on all sums*: A has spoken on B's trees before it sees any share, B on all before it
  sees those of A's trees, and A's shares of its own trees follow from what it can work out in flight 3.
* *Lengths are public*: of all messages they follow from the layout, `RoundLayout`, alone.

Not covered: these are semi-honest parties, and their transfers alone are checked.  A party that deviates
can give other inputs than it should: tables with entries out of bounds, corrections with values added,
other leaves than those of its trees, other noise.  In place of an agreed sum it then learns another one of
rows that it chose, with the other side's noise.  Corrections with a value added show the value times a bit
of the other side's in such a sum.  Reading a transfer, and so tables, leaves, or sums without noise, would
take a guess of bits of Δ, and a wrong guess ends the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.two_party.layout import RoundLayout
from gbdt_parties.two_party.lookups import LookupReceiver, LookupSender
from gbdt_parties.two_party.lookups import message_bytes as tables_bytes
from gbdt_parties.two_party.pads import Words
from gbdt_parties.two_party.session import Session
from gbdt_parties.two_party.sides import (
    CHOICES,
    LAST,
    SPENT,
    SUMS,
    TABLES,
    Leaves,
    Listening,
    RoundSide,
    check_length,
    checked_numbers,
)

Tables = Callable[[int, int], Words]
"""Tables of the rows from one number to another one: uint64 of shape (n, n_points, n_outputs)."""


class TableSide(RoundSide):
    """The side with tables, the first party of the layout, in an open session.

    No attempt of a round is begun twice.  `leaves` are those of every tree of this side's, one for each row,
    and `noise` is that of every tree, one ring element for each leaf.  A nonce is given by an auditor who
    repeats the attempt; that of any attempt is to be recorded.  Once the round is over, `opened` has the sums
    of every tree with both noises.
    """

    _own_party = 0
    _turns = ((CHOICES, False), (TABLES, False), (TABLES, True), (LAST, True))

    def __init__(
        self,
        session: Session,
        layout: RoundLayout,
        number: int,
        attempt: int,
        tables: Tables,
        leaves: Sequence[Leaves],
        noise: Sequence[Words],
        nonce: bytes | None = None,
    ) -> None:
        super().__init__(session, layout, number, attempt, leaves, noise, nonce)
        self._tables = tables
        self._lookup = LookupSender(
            self._pads(True, b"lookup"), session.sender.difference, len(layout.positions), layout.ring_bits
        )

    def _flight(self, flight: int) -> Iterator[bytes]:
        return self._choices() if flight == CHOICES else self._masked_tables()

    def _masked_tables(self) -> Iterator[bytes]:
        layout = self._layout
        for k, chunk in enumerate(layout.chunks):
            keys, *others = self.offered[k]
            self.offered[k] = SPENT
            table = self._tables(chunk.start, chunk.stop)
            due = (chunk.stop - chunk.start, len(layout.positions), layout.n_outputs)
            if table.shape != due or table.dtype != np.uint64:
                raise PartyArgumentError(f"tables of type {table.dtype}, shape {table.shape}; due is {due}")
            self._entries[chunk], message = self._lookup.answer(keys, chunk.start, table)
            yield b"".join([message, *self._send_sums(others, chunk)])

    def _listen(self) -> Listening:
        yield from self._hear_choices()
        for k, chunk in enumerate(self._layout.chunks if self._own_trees else ()):
            message = yield
            check_length(message, sum(self._sums_bytes(t, chunk) for t in self._own_trees))
            self._take_sums(self.chosen[k], chunk, memoryview(message))
            self.chosen[k] = SPENT
        yield from self._hear_shares(self._both_trees)
        self._complete = SUMS
        # A message now is not due.
        yield


class PointSide(RoundSide):
    """The side with points, second of the layout, as `TableSide`; each row has a position's number."""

    _own_party = 1
    _turns = ((CHOICES, False), (SUMS, False), (SUMS, True))

    def __init__(
        self,
        session: Session,
        layout: RoundLayout,
        number: int,
        attempt: int,
        points: Leaves,
        leaves: Sequence[Leaves],
        noise: Sequence[Words],
        nonce: bytes | None = None,
    ) -> None:
        n_points = len(layout.positions)
        self._points = checked_numbers("points", points, layout.n_rows, n_points)
        super().__init__(session, layout, number, attempt, leaves, noise, nonce)
        pads = self._pads(False, b"lookup")
        self._lookup = LookupReceiver(pads, n_points, layout.n_outputs, layout.ring_bits)

    def _numbers_chosen(self) -> list[tuple[Leaves, bool]]:
        return [(self._points, False), *super()._numbers_chosen()]

    def _flight(self, flight: int) -> Iterator[bytes]:
        return self._choices() if flight == CHOICES else self._corrections()

    def _corrections(self) -> Iterator[bytes]:
        for k, chunk in enumerate(self._layout.chunks if self._other_trees else ()):
            if self.chosen[k] is not SPENT:
                raise ProtocolError(f"corrections of rows {chunk.start} on are not due before their tables")
            rows = self.offered[k]
            self.offered[k] = SPENT
            yield b"".join(self._send_sums(rows, chunk))

    def _listen(self) -> Listening:
        yield from self._hear_choices()
        for k, chunk in enumerate(self._layout.chunks):
            message = yield
            n = chunk.stop - chunk.start
            layout = self._layout
            end = tables_bytes(n, len(layout.positions), layout.n_outputs, layout.ring_bits)
            check_length(message, end + sum(self._sums_bytes(t, chunk) for t in self._own_trees))
            keys, *parts = self.chosen[k]
            view = memoryview(message)
            self._entries[chunk] = self._lookup.take(keys, chunk.start, self._points[chunk], view[:end])
            self._take_sums(parts, chunk, view[end:])
            self.chosen[k] = SPENT
        yield from self._hear_shares(self._own_trees)
        self._complete = TABLES
        yield from self._hear_shares(self._other_trees)
        self._complete = LAST
        self._open()
        # A message now is not due.
        yield
