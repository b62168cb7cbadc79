"""The coordinator of SimFL: whose turn it is, and which sums go where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gbdt_parties import messages
from gbdt_parties.channel import Party
from gbdt_parties.errors import InvalidDataError, PartyRefusedError, ProtocolError
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.common.party_state import SIZE
from xgb_fed.horizontal.simfl import messages as wire
from xgb_fed.horizontal.simfl.hash_seed import agreed_seed
from xgb_fed.horizontal.simfl.lsh import PAPER_HASHES, Doubles, Moments, max_hashes, raw_scale
from xgb_fed.horizontal.simfl.turn_taking import TurnTaking


class SimFL(TurnTaking):
    """Taking turns with weighted gradients; the parameters are those of `train_simfl`."""

    def __init__(
        self,
        settings: Settings,
        parties: list[Party],
        evals: Sequence[tuple[tuple[Any, ...], str]] = (),
        n_hashes: int | None = None,
        known_features: int = 0,
        as_published: bool = False,
        **others: Any,
    ) -> None:
        if n_hashes is not None and not (isinstance(n_hashes, (int, np.integer)) and n_hashes >= 1):
            raise InvalidArgumentError(f"n_hashes={n_hashes!r} must be an integer of at least 1")
        if not (isinstance(known_features, (int, np.integer)) and known_features >= 0):
            raise InvalidArgumentError(f"known_features={known_features!r} must be an integer of at least 0")
        self._n_hashes, self._known, self._as_published = n_hashes, known_features, as_published
        self.n_hashes = 0
        super().__init__(settings, parties, evals, **others)
        limit = self.n_features - 1 - known_features
        if n_hashes is not None and n_hashes > limit:
            raise InvalidDataError(
                f"n_hashes={n_hashes} is above {limit}: Theorem 1 wants L < d, and there are "
                f"{self.n_features} columns, {known_features} of them known"
            )
        if limit < 1:
            raise InvalidDataError(
                f"{self.n_features} columns, {known_features} of them known, cannot be hashed"
            )

    def _options(self) -> tuple[Any, ...]:
        return (*super()._options(), self._n_hashes, self._known, self._as_published)

    def prepare(self) -> None:
        """Agree on moments and on a hash seed, exchange hash tables, find similar rows (Algorithm 1)."""
        told = self.ask_all(wire.TellMoments(self._known), wire.ColumnMoments)
        for channel, answer in zip(self.channels, told, strict=True):
            vectors = (answer.count, answer.mean, answer.squares)
            if (
                any(
                    v.shape != (self.n_features,)
                    or not np.isfinite(v).all()
                    or (v is not answer.mean and (v < 0).any())
                    for v in vectors
                )
                or not self._known <= answer.known_features < 2**31
            ):
                raise ProtocolError(f"party {channel.name!r}: moments are malformed")
        mean, std = agreed_moments([Moments(answer.count, answer.mean, answer.squares) for answer in told])
        if self._as_published:
            mean, std = raw_scale(self.n_features)
        n_hashes = self.n_hashes = self._common_hashes([answer.known_features for answer in told], std)
        was_agreed = bool(self.progress.commitments)
        try:
            tables = self.ask_all(wire.HashRows(self.contributions(), n_hashes, mean, std), wire.HashTable)
        except PartyRefusedError:
            if not was_agreed:
                raise
            # Another run of the same parties has agreed on a seed since this one was interrupted.
            self.progress.commitments = self.progress.contributions = b""
            self.reopen()
            self.prepare()
            return
        for place, (channel, table) in enumerate(zip(self.channels, tables, strict=True)):
            if table.place != place or len(table.hashes) != self.party_rows[place] * n_hashes:
                raise ProtocolError(f"party {channel.name!r}: the hash table is malformed")

        def deliver(place: int) -> None:
            for other, _ in self.others(place):
                self.channels[place].ask(tables[other], messages.Done)

        self.together([lambda k=k: deliver(k) for k in range(len(tables))])  # type: ignore[misc]

    def _common_hashes(self, known: list[int], std: Doubles) -> int:
        """Number of hashes that all parties allow."""
        n_counted = int(np.count_nonzero(std))
        n_hashes = PAPER_HASHES if self._n_hashes is None else self._n_hashes
        for channel, n_rows, n_known in zip(self.channels, self.party_rows, known, strict=True):
            allowed = max_hashes(n_rows, n_counted - n_known)
            if allowed < 1:
                raise InvalidDataError(
                    f"party {channel.name!r} has {n_rows} rows with {n_counted} columns that count, "
                    f"{n_known} of them known to others: they cannot be hashed, since one hash per row and "
                    "the columns' moments are as many equations as unknowns"
                )
            if self._n_hashes is not None and self._n_hashes > allowed:
                raise InvalidDataError(
                    f"n_hashes={self._n_hashes}; party {channel.name!r} allows {allowed} at most, by its "
                    "rows and by the columns that vary alike at all parties"
                )
            n_hashes = min(n_hashes, allowed)
        return n_hashes

    def contributions(self) -> bytes:
        """All parties' contributions to a new hash seed, or none if all parties still have the same seed.

        Rows that were hashed by a seed before tell nothing new when they are hashed by it again.
        """
        committed = self.ask_all(wire.CommitSeed(), wire.SeedCommitment)
        last = {answer.last_seed for answer in committed}
        if len(last) == 1 and last != {b""}:
            return b""
        if self.progress.contributions:
            # They were revealed before a party was lost; some parties may have hashed by their seed already.
            agreed_seed(self.progress.contributions, self.progress.commitments)
            return self.progress.contributions
        for channel, answer in zip(self.channels, committed, strict=True):
            if len(answer.commitment) != SIZE:
                raise ProtocolError(f"party {channel.name!r}: the commitment to a hash seed is malformed")
        if not self.progress.commitments:
            self.progress.commitments = b"".join(answer.commitment for answer in committed)
            self.save()
        # A party that revealed its contribution before another was lost reveals the same one again.
        revealed = self.ask_all(wire.RevealSeed(self.progress.commitments), wire.SeedContribution)
        for channel, told in zip(self.channels, revealed, strict=True):
            if len(told.contribution) != SIZE:
                raise ProtocolError(f"party {channel.name!r}: the contribution to a hash seed is malformed")
        self.progress.contributions = b"".join(answer.contribution for answer in revealed)
        self.save()
        return self.progress.contributions

    def gather(self, builder: int) -> None:
        """Send the builder the added-up sums of all others for its rows (Algorithm 2, lines 1 to 8)."""
        request = wire.AggregateGradients(builder)
        others = [channel for _, channel in self.others(builder)]
        sums = self.together([lambda c=c: c.ask(request, wire.AggregatedGradients) for c in others])  # type: ignore[misc]
        size = self.party_rows[builder] * self.objective.n_classes
        for channel, one in zip(others, sums, strict=True):
            if not (len(one.g) == len(one.h) == size and _fine(one)):
                raise ProtocolError(f"party {channel.name!r}: aggregated gradients are malformed")
        self.channels[builder].ask(add_up(sums), messages.Done)


def agreed_moments(parts: Sequence[Moments]) -> tuple[Doubles, Doubles]:
    """Mean and std of all parties' rows, with a std of 0 for columns that do not count.

    A column counts if its pooled moments are near enough to every party's own (see `Moments.accepts`).
    Otherwise a party would refuse to hash it.
    """
    pooled = Moments.pooled(parts)
    counts = np.all([part.accepts(pooled.mean, pooled.std) for part in parts], axis=0)
    return pooled.mean, np.where(counts, pooled.std, 0.0)


def _fine(sums: wire.AggregatedGradients) -> bool:
    """Tell whether sums are finite, and sums of hessians not negative."""
    return bool(np.isfinite(sums.g).all() and np.isfinite(sums.h).all() and (sums.h >= 0).all())


def add_up(sums: Sequence[wire.AggregatedGradients]) -> wire.AggregatedGradients:
    """Add up the sums of several parties, so that the builder need not learn which party sent what."""
    if len(sums) == 1:
        return sums[0]
    g = np.sum([one.g for one in sums], axis=0, dtype=np.float64)
    h = np.sum([one.h for one in sums], axis=0, dtype=np.float64)
    return wire.AggregatedGradients(np.asarray(g, dtype=np.float32), np.asarray(h, dtype=np.float32))
