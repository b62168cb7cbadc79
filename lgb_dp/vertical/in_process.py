"""Both parties in one process: each has keys, store and thread of its own, and messages pass in queues."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from gbdt_commons.store import MemoryStore
from gbdt_kernels.trees import BinLayout
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError
from gbdt_parties.two_party.exchange.driver import PointExchange, TableExchange
from gbdt_parties.two_party.exchange.pipe import Pipe, pipes
from gbdt_parties.two_party.exchange.terms import Terms
from gbdt_parties.two_party.layout import RoundLayout
from gbdt_parties.two_party.names import DIGEST_BYTES, Seat
from lgb_dp.vertical.numbers import PublicNumbers
from lgb_dp.vertical.report import MaskedTraffic
from lgb_dp.vertical.sums import POINTS_PLACE, TABLES_PLACE, PointHolder, Refresh, TableHolder, Words


class _CountedPipe:
    """One end of a connection, whose messages are counted."""

    def __init__(self, pipe: Pipe, traffic: MaskedTraffic, sender: str, receiver: str) -> None:
        self._pipe, self._traffic, self._names = pipe, traffic, (sender, receiver)
        self.receive, self.close = pipe.receive, pipe.close

    def send(self, message: bytes) -> None:
        """See `gbdt_parties.two_party.exchange.frames.Channel`."""
        self._traffic.count(*self._names, len(message))
        self._pipe.send(message)


class ProtocolSums:
    """Sums that two parties in this process compute by `gbdt_parties.two_party`.

    Parameters
    ----------
    tables : TableHolder
    points : PointHolder
    names : (str, str)
        Of the party with the labels, and of the other one.
    n_rounds : int
    traffic : MaskedTraffic
    """

    def __init__(
        self,
        tables: TableHolder,
        points: PointHolder,
        names: tuple[str, str],
        n_rounds: int,
        traffic: MaskedTraffic,
    ) -> None:
        self._tables, self._points = tables, points
        signing = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        self._seats = (
            Seat(TABLES_PLACE, signing[0].public_key().public_bytes_raw()),
            Seat(POINTS_PLACE, signing[1].public_key().public_bytes_raw()),
        )
        run = os.urandom(DIGEST_BYTES)
        terms = [
            Terms(
                run,
                self._seats[k],
                self._seats[1 - k],
                names[1 - k],
                names[1 - k],
                os.urandom(DIGEST_BYTES),
                signing[k],
                n_rounds,
            )
            for k in (0, 1)
        ]
        self._numbers: PublicNumbers | None = None
        self._exchanges = (
            TableExchange(terms[0], MemoryStore(), self._check),
            PointExchange(terms[1], MemoryStore(), self._check),
        )
        ends = pipes()
        self._channels = [_CountedPipe(ends[k], traffic, names[k], names[1 - k]) for k in (0, 1)]
        a, b = self._exchanges
        self._in_both(partial(a.connect, self._channels[0]), partial(b.connect, self._channels[1]))

    def label_counts(self) -> NDArray[np.int64]:
        """As for `LeafSums`."""
        return self._tables.label_counts()

    def feature_counts(self, layout: BinLayout) -> NDArray[np.int64]:
        """As for `LeafSums`: each party's own, side by side."""
        parts = [holder.rows.feature_counts(layout) for holder in (self._tables, self._points)]
        return np.concatenate(parts)

    def opened(self, refresh: Refresh) -> list[Words]:
        """Opened sums of every tree of a round, as ring elements; both parties have the same."""
        self._numbers = refresh.numbers
        layout = refresh.layout(self._seats, self._tables.rows.n_rows)
        a, b = self._exchanges
        one, other = self._in_both(
            partial(a.round, refresh.number, layout, partial(self._tables.inputs, refresh), _paid),
            partial(b.round, refresh.number, layout, partial(self._points.inputs, refresh), _paid),
        )
        assert all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))
        return list(one)

    def end(self) -> None:
        """Let both parties sign the last round, and close the connection."""
        a, b = self._exchanges
        self._in_both(a.end, b.end)
        self.close()

    def close(self) -> None:
        """End the connection."""
        for channel in self._channels:
            channel.close()

    def _check(self, layout: RoundLayout, sums: Sequence[Words]) -> None:
        """Refuse sums that honest parties do not open."""
        assert self._numbers is not None
        self._numbers.check_range(sums)

    def _in_both(self, a: Callable[[], Any], b: Callable[[], Any]) -> list[Any]:
        """Do something at both parties at once; the error of either ends the connection of both."""
        results: list[Any] = [None, None]
        errors: list[BaseException] = []

        def at(place: int, work: Callable[[], Any]) -> None:
            try:
                results[place] = work()
            except BaseException as error:
                # The other party's complaint that this one has stopped comes after the reason for it.
                is_echo = isinstance(error, (PartyUnavailableError, PartyRefusedError))
                errors.insert(len(errors) if is_echo else 0, error)
                self.close()

        other = Thread(target=copy_context().run, args=(at, 1, b), daemon=True)
        other.start()
        at(0, a)
        other.join()
        if errors:
            raise errors[0]
        return results


def _paid() -> None:
    """Pay for an attempt: the trainer's ledger has charged all trees of the round before."""
