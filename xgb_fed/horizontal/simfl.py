"""SimFL (Li, Wen and He, 2020): the builder's gradients stand for those of similar rows elsewhere.

Preprocessing: parties hash their rows by common locality-sensitive functions and learn each other's hashes;
each finds, for every row of its own, the most similar row of every other party, and keeps that to itself.
Training: before a party grows a tree, the others send it, for each of its rows, the sum of the gradients of
their rows that are similar to it.  The gradients that a tree is grown on then add up to those of all parties.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gbdt_parties import messages
from gbdt_parties.channel import Party
from gbdt_parties.errors import InvalidDataError, ProtocolError

from xgb_fed.boosting.loop import LoopOptions
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.coordinator import TurnTaking, as_parties, horizontal_settings
from xgb_fed.horizontal.lsh import PAPER_HASHES, Moments, typical_distance
from xgb_fed.horizontal.messages import (
    AggregatedGradients,
    AggregateGradients,
    ColumnMoments,
    HashRows,
    HashTable,
    TellMoments,
)
from xgb_fed.horizontal.shared_model import HorizontalModel


def train_simfl(
    params: Mapping[str, Any],
    parties: Sequence[Any],
    num_boost_round: int = 10,
    *,
    n_hashes: int | None = None,
    window: float | None = None,
    known_features: int = 0,
    hash_seed: int | None = None,
    evals: Sequence[tuple[tuple[Any, ...], str]] = (),
    early_stopping_rounds: int | None = None,
    verbose_eval: bool | int = True,
    callbacks: Sequence[Any] = (),
) -> HorizontalModel:
    """Train on rows that several parties hold, with the same columns.

    Parameters
    ----------
    params : mapping
        XGBoost's parameters; see `Settings`.  Classifiers take ``objective="binary:logistic"`` and become
        ``multi:softprob`` when the parties have more than two classes.
    parties : sequence
        Pairs (X, y), triples (X, y, sample_weight), or `HorizontalParty` objects; at least two.
    num_boost_round : int
        Rounds of all parties together.
    n_hashes : int, optional
        L.  By default the paper's min(40, d − 1), or fewer where a party allows fewer (see `max_hashes`).
    window : float, optional
        Width r of the hashes' slabs in standard deviations; `lsh.typical_distance` by default.
    known_features : int
        k features that others may know of a row: L is at most d − 1 − k.
    hash_seed : int, optional
        Fixes the hash functions; from the operating system by default.
    evals : sequence of ((X, y) or (X, y, weight), str)
        Rows of the coordinator's own to compute metrics on.
    early_stopping_rounds : int, optional
    verbose_eval : bool or int
        Whether, or every how many rounds, to print metrics.
    callbacks : sequence of xgboost.callback.TrainingCallback

    Returns
    -------
    HorizontalModel

    Raises
    ------
    UnsupportedParameterError, InvalidDataError, ValueError
        For what cannot be trained.
    ProtocolError
        If a party refuses, or breaks the protocol.
    """
    settings = horizontal_settings(params)
    options = LoopOptions(num_boost_round, early_stopping_rounds, verbose_eval, callbacks, bool(evals))
    training = SimFL(
        settings, as_parties(parties, hash_seed), evals, n_hashes, window, known_features, hash_seed
    )
    return training.run(options)


class SimFL(TurnTaking):
    """Taking turns with weighted gradients.  Parameters as for `train_simfl`."""

    def __init__(
        self,
        settings: Settings,
        parties: list[Party],
        evals: Sequence[tuple[tuple[Any, ...], str]] = (),
        n_hashes: int | None = None,
        window: float | None = None,
        known_features: int = 0,
        hash_seed: int | None = None,
    ) -> None:
        if n_hashes is not None and not (isinstance(n_hashes, (int, np.integer)) and n_hashes >= 1):
            raise InvalidArgumentError(f"n_hashes={n_hashes!r} must be an integer of at least 1")
        if window is not None and not (
            isinstance(window, (int, float)) and np.isfinite(window) and window > 0
        ):
            raise InvalidArgumentError(f"window={window!r} must be a finite number above 0")
        if not (isinstance(known_features, (int, np.integer)) and known_features >= 0):
            raise InvalidArgumentError(f"known_features={known_features!r} must be an integer of at least 0")
        if hash_seed is not None and not (
            isinstance(hash_seed, (int, np.integer)) and 0 <= hash_seed < 2**63
        ):
            raise InvalidArgumentError(
                f"hash_seed={hash_seed!r} must be an integer of at least 0 and below 2**63"
            )
        super().__init__(settings, parties, evals)
        limit = self.n_features - 1 - known_features
        if n_hashes is not None and n_hashes > limit:
            raise InvalidDataError(
                f"n_hashes={n_hashes} is above {limit}: Theorem 1 wants L < d, and there are "
                f"{self.n_features} columns of which {known_features} are known"
            )
        if limit < 1:
            raise InvalidDataError(
                f"{self.n_features} columns, {known_features} of them known, cannot be hashed"
            )
        self._n_hashes, self._window, self._known = n_hashes, window, known_features
        self._seed = os.urandom(32) if hash_seed is None else int(hash_seed).to_bytes(32, "little")

    def prepare(self) -> None:
        """Algorithm 1: agreed moments, hashes, hash tables of everybody for everybody, similar rows."""
        told = self.ask_all(TellMoments(self._known), ColumnMoments)
        for channel, answer in zip(self.channels, told, strict=True):
            vectors = (answer.count, answer.mean, answer.squares)
            if any(
                v.shape != (self.n_features,)
                or not np.isfinite(v).all()
                or (v is not answer.mean and (v < 0).any())
                for v in vectors
            ):
                raise ProtocolError(f"party {channel.name!r}: moments are malformed")
            if self._n_hashes is not None and self._n_hashes > answer.max_hashes:
                raise InvalidDataError(
                    f"n_hashes={self._n_hashes}; party {channel.name!r} allows {answer.max_hashes} at most, "
                    "by its rows and the columns that vary in them"
                )
        pooled = Moments.pooled([Moments(answer.count, answer.mean, answer.squares) for answer in told])
        allowed = min(answer.max_hashes for answer in told)
        n_hashes = min(PAPER_HASHES, allowed) if self._n_hashes is None else self._n_hashes
        self.n_hashes = n_hashes
        window = typical_distance(pooled.std) if self._window is None else float(self._window)
        request = HashRows(self._seed, n_hashes, np.array([window]), pooled.mean, pooled.std)
        tables = self.ask_all(request, HashTable)
        for place, (channel, table) in enumerate(zip(self.channels, tables, strict=True)):
            if table.place != place or len(table.hashes) != self.party_rows[place] * n_hashes:
                raise ProtocolError(f"party {channel.name!r}: the hash table is malformed")

        def deliver(place: int) -> None:
            for other, _ in self.others(place):
                self.channels[place].ask(tables[other], messages.Done)

        self.together([lambda k=k: deliver(k) for k in range(len(tables))])  # type: ignore[misc]

    def gather(self, builder: int) -> None:
        """Algorithm 2, lines 1 to 8: everybody's sums for the builder's rows, which it gets added up."""
        request = AggregateGradients(builder)
        others = [channel for _, channel in self.others(builder)]
        sums = self.together([lambda c=c: c.ask(request, AggregatedGradients) for c in others])  # type: ignore[misc]
        size = self.party_rows[builder] * self.objective.n_classes
        for channel, one in zip(others, sums, strict=True):
            if not (len(one.g) == len(one.h) == size and _fine(one)):
                raise ProtocolError(f"party {channel.name!r}: aggregated gradients are malformed")
        self.channels[builder].ask(add_up(sums), messages.Done)


def _fine(sums: AggregatedGradients) -> bool:
    """Whether sums are finite and those of hessians not below 0."""
    return bool(np.isfinite(sums.g).all() and np.isfinite(sums.h).all() and (sums.h >= 0).all())


def add_up(sums: Sequence[AggregatedGradients]) -> AggregatedGradients:
    """The sums of several parties' sums, so that the builder need not learn whose is whose."""
    if len(sums) == 1:
        return sums[0]
    g = np.sum([one.g for one in sums], axis=0, dtype=np.float64)
    h = np.sum([one.h for one in sums], axis=0, dtype=np.float64)
    return AggregatedGradients(np.asarray(g, dtype=np.float32), np.asarray(h, dtype=np.float32))
