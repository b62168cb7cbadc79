"""A passive party's rows on the workers of a cluster, as the party's process sees them.

The party keeps which rows are where, and the ciphertexts of a growing tree, so that a worker that takes over
the rows of a lost one can be told all that the lost one knew.  A worker sums up the ciphertexts of its rows
into histograms of its own, and the party adds those up: products of residues do not depend on how rows are
divided, so that neither partitions nor losses change a message or the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_hosts import dask as host
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.messages import from_bits
from xgb_fed.boosting.categories import Categories
from xgb_fed.boosting.features import BinnedFeatures, Columns, SplitRule, bin_features, offsets_of
from xgb_fed.ciphers.base import Ciphertexts, PublicKey
from xgb_fed.dask.partitions import Part, Partitions, Places
from xgb_fed.vertical.passive.held_rows import SideQuestion
from xgb_fed.vertical.passive.histogram import Histograms

BYTES_AT_ONCE = 32 << 20
"""Of ciphertexts in one message to a worker, and of values that are gathered to be cut."""


class DaskRows:
    """A matrix on a cluster, or some of its rows; see `HeldRows`."""

    def __init__(self, partitions: Partitions, rows: NDArray[np.integer[Any]] | None = None) -> None:
        self.partitions = partitions
        self._rows = np.arange(partitions.n_rows) if rows is None else rows
        self._is_whole = rows is None
        self.places = Places(partitions, self._rows)
        self._columns = list(range(len(partitions.names))), partitions.names

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self._columns[1]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._rows)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.names)

    @property
    def categories(self) -> Categories:
        """The categorical columns; a collection has none."""
        return {}

    def with_categories(self, known: Categories) -> DaskRows:
        """The same rows; `InvalidDataError` if categorical columns were trained on."""
        if known:
            raise InvalidDataError("rows on a cluster have no categorical columns, which were trained on")
        return self

    @property
    def identity(self) -> Any:
        """A digest of the partitions, and which of their rows these are."""
        return self.partitions.digest if self._is_whole else digest_of(self.partitions.digest, self._rows)

    def of_model(self, places: list[int], names: list[str]) -> DaskRows:
        """The columns at some places, under a model's names."""
        own = copy(self)
        own._columns = places, names
        return own

    def take(self, rows: NDArray[np.integer[Any]]) -> DaskRows:
        """Some of the rows."""
        return DaskRows(self.partitions, self._rows[rows])

    def binned(self, max_bin: int) -> DaskBins:
        """The rows cut into bins.

        XGBoost's sketch reads a column's values in the order of the rows, so that they are gathered here, a
        few columns at a time.
        """
        at_once = max(1, BYTES_AT_ONCE // (4 * self.n_rows))
        parts = []
        for first in range(0, self.n_features, at_once):
            features = range(first, min(first + at_once, self.n_features))
            parts.append(bin_features(self._gathered(list(features)), max_bin))
        return DaskBins(self, parts)

    def _gathered(self, features: list[int]) -> Columns:
        """Values of some columns."""
        data = np.empty((self.n_rows, len(features)), dtype=np.float32)

        def part(lease: host.Lease) -> Part:
            rows = np.flatnonzero(self.places.are_in(lease))
            return {"rows": self.places.in_lease(lease, rows).tobytes()}

        for leases, answer in self.partitions.answers_of(part, ask="values", features=features):
            for lease in leases:
                values = np.frombuffer(answer["values"][lease.number], dtype=np.float32)
                data[self.places.are_in(lease)] = values.reshape(len(features), -1).T
        return Columns(data, [self.names[feature] for feature in features])

    def sides(self, questions: Sequence[SideQuestion]) -> list[NDArray[np.bool_]]:
        """Which rows go left, question by question."""
        if not questions:
            return []
        rows = np.concatenate([question.rows for question in questions])
        bounds = np.concatenate([[0], np.cumsum([len(question.rows) for question in questions])])
        flags = np.zeros(len(rows), dtype=bool)
        places = self._columns[0]
        rules = [
            (places[q.rule.feature], float(q.rule.threshold), bool(q.rule.default_left)) for q in questions
        ]

        def part(lease: host.Lease) -> Part:
            mine = self.places.are_in(lease, rows)
            starts = np.concatenate([[0], np.cumsum(mine)])[bounds]
            return {
                "rows": self.places.in_lease(lease, rows[mine]).tobytes(),
                "starts": [int(start) for start in starts],
            }

        for leases, answer in self.partitions.answers_of(part, ask="sides", rules=rules):
            for lease in leases:
                mine = self.places.are_in(lease, rows)
                bits = np.frombuffer(answer["sides"][lease.number], dtype=np.uint8)
                flags[mine] = from_bits(bits, int(mine.sum()))
        return np.split(flags, bounds[1:-1])


class DaskBins:
    """Cut columns on a cluster, a few in each of `features`, whose codes are not kept; see `HeldBins`."""

    categorical: frozenset[int] = frozenset()

    def __init__(self, rows: DaskRows, features: list[BinnedFeatures]) -> None:
        self.rows = rows
        self.cuts = [cuts for part in features for cuts in part.cuts]
        self._lower = np.concatenate([part.lower for part in features])
        self._counts = np.concatenate([part.counts() for part in features])
        self.bin_offsets = offsets_of(self.cuts)
        self.number = rows.partitions.remember(self)
        self._known_to: set[int] = set()

    def counts(self) -> NDArray[np.int64]:
        """Rows in each bin of each column, and rows without a value."""
        return self._counts

    def rule(
        self, feature: int, last_left: int, default_left: bool, right: tuple[int, ...] | None = None
    ) -> SplitRule:
        """A split between bins as a rule for values."""
        threshold = float(self.cuts[feature][last_left] if last_left >= 0 else self._lower[feature])
        return SplitRule(feature, threshold, default_left)

    def of_tree(self, columns: NDArray[np.int32], sampled: NDArray[np.bool_]) -> DaskTreeRows:
        """The sampled rows of a tree in its columns."""
        return DaskTreeRows(self, columns, sampled)

    def told(self, lease: host.Lease) -> list[Part]:
        """Parts of the session that a lease has not received."""
        if lease.number in self._known_to:
            return []
        self._known_to.add(lease.number)
        places = self.rows.places
        rows = places.in_lease(lease, np.flatnonzero(places.are_in(lease)))
        cuts = [own.tobytes() for own in self.cuts]
        return [{"view": self.number, "cuts": cuts, "rows": rows.tobytes()}]


class DaskTreeRows:
    """The sampled rows of a tree on a cluster; see `TreeRows`."""

    def __init__(self, bins: DaskBins, columns: NDArray[np.int32], sampled: NDArray[np.bool_]) -> None:
        self._bins, self._columns, self._sampled = bins, columns, sampled
        self._rows = np.flatnonzero(sampled)
        self.bin_offsets = np.concatenate([[0], np.cumsum(np.diff(bins.bin_offsets)[columns])]).astype(
            np.int64
        )
        self._lease = np.zeros(self.n_rows, dtype=np.int32)
        self._place = np.zeros(self.n_rows, dtype=np.int32)
        self._sent: dict[int, dict[int, int]] = {}
        """For each lease that knows of the tree and each group, up to which row ciphertexts were sent."""

    @property
    def n_rows(self) -> int:
        """Number of sampled rows."""
        return len(self._rows)

    def histograms(
        self,
        key: PublicKey,
        sources: Mapping[int, Ciphertexts],
        rows: NDArray[np.int32],
        starts: NDArray[np.int64],
    ) -> Histograms:
        """See `TreeRows`; ciphertexts that workers lack are sent first."""
        n_needed = int(rows.max(initial=-1)) + 1
        partitions = self._bins.rows.partitions
        behind: list[host.Lease] = []

        def hear(lease: host.Lease) -> Part:
            return {"told": self._told(lease, sources, n_needed)}

        def ask(lease: host.Lease) -> Part | None:
            if self._lacks_much(lease, sources, n_needed):
                behind.append(lease)
                return None
            mine = self._lease[rows] == lease.number
            if not mine.any():
                return None
            places = np.concatenate([[0], np.cumsum(mine)])[starts]
            return {
                "told": self._told(lease, sources, n_needed),
                "rows": self._place[rows[mine]].tobytes(),
                "starts": places.astype(np.int64).tobytes(),
            }

        while True:
            while any(self._lacks_much(lease, sources, n_needed) for lease in partitions.present):
                partitions.answers_of(hear, ask="hear")
            answers = partitions.answers_of(
                ask, ask="histograms", view=self._bins.number, key=key.public_bytes(), groups=list(sources)
            )
            if not behind:
                return self._added(key, sources, len(starts) - 1, [answer for _, answer in answers])
            behind.clear()  # a worker was lost, and another one must hear all there is first

    def _added(
        self, key: PublicKey, sources: Mapping[int, Ciphertexts], n_nodes: int, answers: list[host.Answer]
    ) -> Histograms:
        """The sums of all workers' rows."""
        shape = (n_nodes, int(self.bin_offsets[-1]))
        parts = []
        for answer in filter(None, answers):
            counts = np.frombuffer(answer["counts"], dtype=np.int32).reshape(shape)
            sums = [np.frombuffer(own, dtype=np.uint64).reshape(*shape, -1) for own in answer["sums"]]
            parts.append(Histograms(sums, counts))
        return reduce(lambda total, own: total.plus(key, own), parts)

    def _assign(self, lease: host.Lease) -> None:
        """Note which rows a lease has that was not seen before."""
        if lease.number in self._sent:
            return
        mine = self._bins.rows.places.are_in(lease, self._rows)
        self._lease[mine] = lease.number
        self._place[mine] = np.arange(np.count_nonzero(mine))

    def _lacks_much(self, lease: host.Lease, sources: Mapping[int, Ciphertexts], n_needed: int) -> bool:
        """Whether a lease needs more ciphertexts than one message takes."""
        self._assign(lease)
        sent = self._sent.get(lease.number, {})
        size = 0
        for group, source in sources.items():
            lacking = self._lease[sent.get(group, 0) : n_needed] == lease.number
            size += int(np.count_nonzero(lacking)) * source[:1].nbytes
        return size > BYTES_AT_ONCE

    def _told(self, lease: host.Lease, sources: Mapping[int, Ciphertexts], n_needed: int) -> list[Part]:
        """Parts that a lease lacks, with as many ciphertexts as one message takes."""
        self._assign(lease)
        view = self._bins.number
        told = self._bins.told(lease)
        if lease.number not in self._sent:
            self._sent[lease.number] = {}
            sampled = self._sampled[self._bins.rows.places.are_in(lease)]
            columns = self._columns.astype(np.int32).tobytes()
            told.append({"view": view, "columns": columns, "sampled": sampled.tobytes()})
        sent = self._sent[lease.number]
        room = BYTES_AT_ONCE
        for group, source in sources.items():
            first = sent.get(group, 0)
            new = first + np.flatnonzero(self._lease[first:n_needed] == lease.number)
            n_now = min(len(new), room // source[:1].nbytes)
            room -= n_now * source[:1].nbytes
            sent[group] = max(first, n_needed) if n_now == len(new) else int(new[n_now])
            if n_now:
                chosen = source[new[:n_now]].tobytes()
                told.append({"view": view, "group": group, "width": source.shape[1], "ciphertexts": chosen})
        return told
