"""The part of a round that both sides do: transfers chosen and offered, sums, shares, turns, transcript.

`rounds` states the functionality and the flights, and has the proofs.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Generator, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.transfers.columns import choice_words
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.two_party.extension import Batch
from gbdt_parties.two_party.layout import RoundLayout
from gbdt_parties.two_party.leaf_sums import SumReceiver, SumSender
from gbdt_parties.two_party.leaf_sums import message_bytes as sums_bytes
from gbdt_parties.two_party.life import Unrepeatable
from gbdt_parties.two_party.lookups import keys_of
from gbdt_parties.two_party.names import Step
from gbdt_parties.two_party.pads import Pads, Words
from gbdt_parties.two_party.session import Session

CHOICES, TABLES, SUMS, LAST = 1, 2, 3, 4
"""The flights."""

Transfers = list[Words]
"""Of one batch: of each tree a row for every level and row, and before them the keys of points, if any."""

SPENT: Transfers = []
"""In the place of transfers that have served."""

Leaves = NDArray[np.uint8]
Listening = Generator[None, bytes | memoryview, None]


def checked_numbers(name: str, values: Leaves, n_rows: int, below: int) -> Leaves:
    """Numbers of leaves or points, checked."""
    if values.shape != (n_rows,) or values.dtype != np.uint8:
        raise PartyArgumentError(
            f"{name} of type {values.dtype} and shape {values.shape} must be uint8 of shape ({n_rows},)"
        )
    if int(values.max()) >= below:
        raise PartyArgumentError(f"{name} must be below {below}")
    return np.ascontiguousarray(values)


def shares_in(message: bytes | memoryview, layout: RoundLayout, trees: Sequence[int]) -> dict[int, Words]:
    """Noised shares of trees' sums in a message; `ProtocolError` for a wrong length, or no ring elements."""
    sizes = [1 << layout.trees[t].levels for t in trees]
    check_length(message, 8 * sum(sizes))
    words = np.frombuffer(message, dtype="<u8").astype(np.uint64)
    if layout.ring_bits < 64 and (words >> np.uint64(layout.ring_bits)).any():
        raise ProtocolError("shares of sums are not elements of the ring")
    parts = np.split(words, np.cumsum(sizes)[:-1])
    return dict(zip(trees, parts, strict=False))


def opened_sums(layout: RoundLayout, shares: dict[int, Words], others: dict[int, Words]) -> list[Words]:
    """Sums of every tree, with both noises, from the noised shares of both sides."""
    mask = np.uint64((1 << layout.ring_bits) - 1)
    return [shares[t] + others[t] & mask for t in range(len(layout.trees))]


def check_length(message: bytes | memoryview, due: int) -> None:
    """Check a message's length."""
    if len(message) != due:
        raise ProtocolError(f"a message of a round has {len(message)} bytes where {due} were due")


def transcribe(transcript: hashlib._Hash, message: bytes | memoryview) -> None:
    """Add a message, behind its length."""
    transcript.update(len(message).to_bytes(8, "little"))
    transcript.update(message)


class RoundSide(Unrepeatable):
    """Common to both sides: transfers chosen and offered, sums of all trees, shares, and the transcript."""

    _own_party: int
    """Number of this side in the layout's parties."""

    _turns: tuple[tuple[int, bool], ...]
    """Flights of this side in their order, each with whether it is about the shares at their end."""

    def __init__(
        self,
        session: Session,
        layout: RoundLayout,
        number: int,
        attempt: int,
        leaves: Sequence[Leaves],
        noise: Sequence[Words],
        nonce: bytes | None,
    ) -> None:
        layout.check_implemented()
        own, other = layout.parties[self._own_party], layout.parties[1 - self._own_party]
        if (own, other) != (session.own, session.other):
            raise PartyArgumentError("the parties of the layout are not those of the session")
        self._own_trees, self._other_trees = layout.owned_by(own.place), layout.owned_by(other.place)
        self._both_trees = list(range(len(layout.trees)))
        sizes = [1 << tree.levels for tree in layout.trees]
        if len(leaves) != len(self._own_trees):
            raise PartyArgumentError(f"leaves of {len(leaves)} trees; this side owns {len(self._own_trees)}")
        if [np.shape(words) for words in noise] != [(size,) for size in sizes]:
            raise PartyArgumentError("noise must have one word for every leaf of every tree")
        self._leaves = [
            checked_numbers("leaves", numbers, layout.n_rows, sizes[t])
            for t, numbers in zip(self._own_trees, leaves, strict=True)
        ]
        session.begin(number, attempt)
        self._session, self._layout = session, layout
        self._number, self.attempt = number, attempt
        self._noise = [np.asarray(words, dtype=np.uint64) for words in noise]
        draws = session.draws(nonce)
        self.nonce = draws.nonce
        self._spare = draws.stream(b"spare choices", session.digest, self._step(CHOICES).to_bytes())
        self.chosen: list[Transfers] = []
        self.offered: list[Transfers] = []
        self._entries = np.zeros((layout.n_rows, layout.n_outputs), dtype=np.uint64)
        self._receivers = {t: self._sum_receiver(t) for t in self._own_trees}
        self._senders = {t: self._sum_sender(t) for t in self._other_trees}
        self.sum_shares: dict[int, Words] = {}
        self._heard_shares: dict[int, Words] = {}
        self.opened: list[Words] = []
        self._said, self._heard = hashlib.sha256(), hashlib.sha256()
        self._n_turns = self._complete = 0
        self._is_sending = False
        self._program = self._listen()
        next(self._program)

    # What keys are bound to.

    def _step(self, flight: int) -> Step:
        return Step(self._number, self.attempt, flight)

    def _pads(self, sends: bool, purpose: bytes) -> Pads:
        """Pads of messages that this side sends, or of those that it gets."""
        is_table_side = sends is (self._own_party == 0)
        context = self._session.sending if sends else self._session.receiving
        return Pads(context, self._step(TABLES if is_table_side else SUMS), purpose)

    def _sum_sender(self, t: int) -> SumSender:
        pads = self._pads(True, b"tree" + t.to_bytes(2, "little"))
        difference = self._session.sender.difference
        return SumSender(pads, difference, self._layout.trees[t].levels, self._layout.ring_bits)

    def _sum_receiver(self, t: int) -> SumReceiver:
        pads = self._pads(False, b"tree" + t.to_bytes(2, "little"))
        return SumReceiver(pads, self._layout.trees[t].levels, self._layout.ring_bits)

    # Flight 1.

    def _choosers(self, own: bool) -> list[int]:
        """Bits that a side chooses with for every row, each of its numbers in turn."""
        trees = self._own_trees if own else self._other_trees
        points = [self._layout.n_bits] if self._has_points(own) else []
        return points + [self._layout.trees[t].levels for t in trees]

    def _has_points(self, own: bool) -> bool:
        return own is (self._own_party == 1)

    def _numbers_chosen(self) -> list[tuple[Leaves, bool]]:
        """Numbers that this side chooses with, each with whether its highest bit is first."""
        return [(leaves, True) for leaves in self._leaves]

    def _head(self) -> bytes:
        return self._step(CHOICES).digest(self._session.digest, b"round", self._layout.to_bytes())

    def _choices(self) -> Iterator[bytes]:
        yield self._head()
        numbers, bits = self._numbers_chosen(), self._choosers(own=True)
        for k, chunk in enumerate(self._layout.chunks if bits else ()):
            per = -(-(chunk.stop - chunk.start) // 64)
            words = np.empty(per * sum(bits), dtype=np.uint64)
            at = 0
            for (values, highest_first), n_bits in zip(numbers, bits, strict=True):
                choice_words(values[chunk], n_bits, highest_first, words[at : at + per * n_bits])
                at += per * n_bits
            batch = Batch(self._step(CHOICES), k)
            rows, message = self._session.receiver.extend(batch, words, self._spare)
            self.chosen.append(self._parted(rows, own=True))
            yield message

    def _hear_choices(self) -> Listening:
        head, due = (yield), self._head()
        if len(head) != len(due):
            raise ProtocolError(f"the head of a round has {len(head)} bytes, not {len(due)}")
        if not hmac.compare_digest(head, due):
            raise ProtocolError("the other side's round, attempt or layout is another one than this side's")
        bits = sum(self._choosers(own=False))
        for k, chunk in enumerate(self._layout.chunks if bits else ()):
            message = yield
            n_words = bits * -(-(chunk.stop - chunk.start) // 64)
            rows = self._session.sender.extend(Batch(self._step(CHOICES), k), n_words, message)
            self.offered.append(self._parted(rows, own=False))
        self._complete = CHOICES

    def _parted(self, rows: Words, own: bool) -> Transfers:
        """The transfers of a batch, those of each number apart; of points, what a lookup needs of them."""
        bits = self._choosers(own)
        per = len(rows) // sum(bits)
        ends = np.cumsum(bits) * per
        parts = [rows[end - per * n_bits : end] for end, n_bits in zip(ends.tolist(), bits, strict=True)]
        if not self._has_points(own):
            return parts
        points, *trees = parts
        # Copies let go of the rest, which is the most that a round holds.
        return [keys_of(points, len(self._layout.positions)), *(part.copy() for part in trees)]

    # Sums.

    def _entry_shares(self, t: int, chunk: slice) -> Words:
        return np.ascontiguousarray(self._entries[chunk, self._layout.trees[t].output])

    def _send_sums(self, rows: Transfers, chunk: slice) -> list[memoryview]:
        """Corrections of the other side's trees for some rows."""
        return [
            self._senders[t].add(part, chunk.start, self._entry_shares(t, chunk))
            for t, part in zip(self._other_trees, rows, strict=True)
        ]

    def _take_sums(self, rows: Transfers, chunk: slice, message: memoryview) -> None:
        """Take the corrections of this side's own trees for some rows."""
        at = 0
        for t, part, leaves in zip(self._own_trees, rows, self._leaves, strict=True):
            due = self._sums_bytes(t, chunk)
            shares = self._entry_shares(t, chunk)
            self._receivers[t].add(part, chunk.start, leaves[chunk], shares, message[at : at + due])
            at += due

    def _sums_bytes(self, t: int, chunk: slice) -> int:
        return sums_bytes(chunk.stop - chunk.start, self._layout.trees[t].levels, self._layout.ring_bits)

    # Opening.

    def _noised(self, trees: list[int]) -> bytes:
        """Noised shares of the sums of some trees, worked out once."""
        mask = np.uint64((1 << self._layout.ring_bits) - 1)
        for t in trees:
            if t not in self.sum_shares:
                sums = (self._receivers.get(t) or self._senders[t]).sums
                self.sum_shares[t] = sums + self._noise[t] & mask
        return b"".join(self.sum_shares[t].astype("<u8").tobytes() for t in trees)

    def _hear_shares(self, trees: list[int]) -> Listening:
        self._heard_shares |= shares_in((yield), self._layout, trees)

    def _open(self) -> None:
        self.opened = opened_sums(self._layout, self.sum_shares, self._heard_shares)

    # Messages.

    def _listen(self) -> Listening:
        """Take the other side's messages, one at each yield, in the order in which they are due."""
        raise NotImplementedError

    def _flight(self, flight: int) -> Iterator[bytes]:
        """Make the messages of a flight but for its shares."""
        raise NotImplementedError

    def take(self, message: bytes | memoryview) -> None:
        """Take the other side's next message.

        Raises `TransferCheckError` if the other side's transfers are not consistent, and the session is then
        over. Raises `ProtocolError` if the message has another length than is due, or none is due, and the
        attempt is over.
        """
        with self._session.life.held():
            transcribe(self._heard, message)
            try:
                self._program.send(message)
            except StopIteration:
                raise ProtocolError("a message of a round came where none was due") from None

    def send(self, flight: int) -> Iterator[bytes]:
        """The messages of a flight but for its shares, each made when it is asked for.

        The flights are `CHOICES`, then `TABLES` of the side with tables, or `SUMS` of the other one.  Raises
        `ProtocolError` if it is not this side's next one, or messages that come before it are not there.
        """
        self._turn(flight, False)
        return self._sending(flight)

    def _sending(self, flight: int) -> Iterator[bytes]:
        for message in self._flight(flight):
            self._session.life.check()
            transcribe(self._said, message)
            yield message
        self._is_sending = False

    def shares(self, flight: int) -> bytes:
        """The last message of a flight, with noised shares: the caller charges for it before.

        The flights are `TABLES`, then `LAST` of the side with tables, or `SUMS` of the other one.  Raises
        `ProtocolError` if it is not this side's next one, or messages that come before it are not there.
        """
        self._turn(flight, True)
        trees = {TABLES: self._other_trees, LAST: self._own_trees}.get(flight, self._both_trees)
        message = self._noised(trees)
        transcribe(self._said, message)
        self._is_sending = False
        if flight == LAST:
            self._open()
        return message

    def _turn(self, flight: int, is_shares: bool) -> None:
        with self._session.life.held():
            left = self._turns[self._n_turns :]
            if self._is_sending or not left or left[0] != (flight, is_shares):
                raise ProtocolError(f"flight {flight} of this side is not due, or was sent before")
            # Flights 2 and 4 answer those before them; flight 3 does with the rows that it is about.
            if self._complete < (CHOICES if flight == SUMS and not is_shares else flight - 1):
                raise ProtocolError(f"flight {flight} is not due before flight {flight - 1} is there")
            self._n_turns += 1
            self._is_sending = True

    @property
    def transcript(self) -> bytes:
        """A digest of all messages so far, the same on both sides once all have arrived."""
        both = [self._said.digest(), self._heard.digest()]
        return self._step(0).digest(self._session.digest, *both[:: 1 - 2 * self._own_party])
