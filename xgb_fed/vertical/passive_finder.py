"""The active party's view of a passive party's search for splits: encrypted sums in, splits out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import from_bits, to_bits
from numpy.typing import NDArray

from xgb_fed.boosting.params import Settings
from xgb_fed.ciphers.base import Ciphertexts, PrivateKey
from xgb_fed.errors import CipherError
from xgb_fed.vertical.finder import NO_CANDIDATE, BestCandidates, Level, Split
from xgb_fed.vertical.gradients import FixedPointGradients
from xgb_fed.vertical.messages import (
    LEAF,
    SPLIT_BY_OTHERS,
    SPLIT_BY_YOU,
    Assignments,
    FindSplits,
    Gradients,
    SplitNodes,
    SplitStatistics,
    StartTree,
)
from xgb_fed.vertical.packing import unpack_all
from xgb_fed.vertical.partition import Partition


class PassiveFinder:
    """Finds splits in a passive party's columns, under encryption: asks for sums and evaluates the answers.

    Parameters
    ----------
    channel : Channel
    key : PrivateKey
    number : int
        This party's number, from 1.
    settings : Settings
    n_features : int
        Its columns.
    n_splits : int
        Splits that it has from trees already finished.
    """

    def __init__(
        self,
        channel: Channel,
        key: PrivateKey,
        number: int,
        settings: Settings,
        n_features: int,
        n_splits: int = 0,
    ) -> None:
        self.channel = channel
        self.number = number
        self._key = key
        self._split_gain = settings.split_gain
        # A feature has a cut more than max_bin at most, and a cut two candidates: missing left or right.
        self._max_candidates = 2 * n_features * (settings.max_bin + 1)
        self._n_splits = n_splits
        self._tied: dict[int, set[tuple[int, ...]]] = {}
        self._columns = np.empty(0, dtype=np.int64)
        self._gradients: FixedPointGradients

    def use_columns(self, columns: NDArray[np.int64]) -> None:
        """Choose the columns that the next tree may split."""
        self._columns = columns

    def start_tree(self, tree: int, gradients: FixedPointGradients, rows: NDArray[np.bool_]) -> None:
        """See `SplitFinder`; the gradients follow by `send`."""
        self._gradients = gradients
        sample = np.empty(0, dtype=np.uint8) if rows.all() else to_bits(rows)
        self.channel.ask(StartTree(tree, sample, self._columns.astype(np.int32)), messages.Done)

    def send(self, message: Gradients) -> None:
        """Send encrypted gradients of consecutive rows of the sample."""
        self.channel.ask(message, messages.Done)

    def find(self, level: Level) -> dict[int, BestCandidates]:
        """See `SplitFinder`."""
        answer = self.channel.ask(
            FindSplits(*self._assignment_and_flags(level), level.wanted.astype(np.uint8)), SplitStatistics
        )
        wanted = np.flatnonzero(level.wanted).tolist()
        try:
            return dict(self._evaluate(level, wanted, answer))
        except (CipherError, ProtocolError):
            # One error for all causes: a reason would tell the party something about the key.
            raise ProtocolError(
                f"party {self.channel.name!r}: its split statistics fail the checks"
            ) from None

    def _assignment_and_flags(self, level: Level) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """How the level above was split, as far as this party does not know."""
        if level.above is None:
            return np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.uint8)
        assignment = np.full(level.above.n_nodes, LEAF, dtype=np.uint8)
        flags = [np.empty(0, dtype=bool)]
        for node in sorted(level.assignment):
            owner, left = level.assignment[node]
            assignment[node] = SPLIT_BY_YOU if owner == self.number else SPLIT_BY_OTHERS
            if owner != self.number:
                flags.append(left)
        return assignment, to_bits(np.concatenate(flags))

    def _evaluate(
        self, level: Level, wanted: list[int], answer: SplitStatistics
    ) -> Iterator[tuple[int, BestCandidates]]:
        packing, public = self._gradients.packing, self._key.public
        sizes = level.sampled.sizes()[wanted]
        bounds = np.concatenate([[0], np.cumsum(answer.n_candidates.astype(np.int64))])
        if len(answer.n_candidates) != len(wanted) or (answer.n_candidates < 0).any():
            raise ProtocolError("other nodes than those asked about")
        if bounds[-1] != len(answer.counts):
            raise ProtocolError("candidates and counts do not match")
        if (answer.n_candidates > self._max_candidates).any():
            raise ProtocolError("more candidates than its columns can have")
        # Each node's total comes before its candidates.
        is_total = np.zeros(len(answer.counts) + len(wanted), dtype=bool)
        is_total[bounds[:-1] + np.arange(len(wanted))] = True
        counts = np.empty(len(is_total), dtype=np.int64)
        counts[is_total], counts[~is_total] = sizes, answer.counts
        of_node = np.repeat(sizes, answer.n_candidates)
        if ((answer.counts <= 0) | (answer.counts >= of_node)).any():
            raise ProtocolError("a candidate that does not divide its node")
        fields = self._fields(public.from_bytes(answer.sums), len(counts))
        self._check_totals(level, wanted, [[f[i] for i in np.flatnonzero(is_total)] for f in fields])
        self._check_rests(fields, counts, is_total)
        g, h = packing.decode(fields, counts)
        g, h = np.ldexp(g, self._gradients.g_exponent), np.ldexp(h, self._gradients.h_exponent)
        total_g, total_h = self._gradients.to_float(level.sums)
        left_g, left_h = g[~is_total], h[~is_total]
        is_candidate = np.flatnonzero(~is_total)
        self._tied = {}
        for k, node in enumerate(wanted):
            part = slice(bounds[k], bounds[k + 1])
            if bounds[k] == bounds[k + 1]:
                yield node, NO_CANDIDATE
                continue
            change = self._split_gain.loss_changes(
                left_g[part], left_h[part], total_g[:, node], total_h[:, node]
            )
            best = change.max()
            tied = np.flatnonzero(change == best)
            places = is_candidate[part][tied]
            self._tied[node] = {(int(counts[i]), *(values[i] for values in fields)) for i in places}
            yield node, BestCandidates(best, tied.astype(np.int32))

    def _fields(self, received: Ciphertexts, count: int) -> list[list[int]]:
        """Packed sums of every group, decrypted and taken apart."""
        packing = self._gradients.packing
        bits = packing.gh.bits * packing.classes_per_ciphertext
        per = (self._key.public.plaintext_limit.bit_length() - 1) // bits
        n_each = -(-count // per)
        if len(received) != n_each * len(packing.groups):
            raise ProtocolError("another number of ciphertexts than announced")
        plaintexts = self._key.decrypt(received)
        return [
            unpack_all(plaintexts[k * n_each : (k + 1) * n_each], bits, per, count)
            for k in range(len(packing.groups))
        ]

    def _check_totals(self, level: Level, wanted: list[int], totals: list[list[int]]) -> None:
        """The nodes' totals are known here to the last bit."""
        sums, sizes = level.sums[..., wanted], level.sampled.sizes()[wanted]
        if self._gradients.packed_sums(sums, sizes) != totals:
            raise ProtocolError("a node's total is wrong")

    def _check_rests(
        self, fields: list[list[int]], counts: NDArray[np.int64], is_total: NDArray[np.bool_]
    ) -> None:
        """What is right of a candidate must be a possible sum over its rows, as what is left of it."""
        node = np.cumsum(is_total) - 1
        sizes = counts[is_total][node]
        rests = []
        for values in fields:
            totals = [values[i] for i in np.flatnonzero(is_total)]
            rests.append([totals[n] - value for n, value in zip(node, values, strict=True)])
        if any(rest < 0 for group in rests for rest in group):
            raise ProtocolError("a sum is beyond its node's total")
        self._gradients.packing.decode(rests, sizes - counts)

    def split(self, level: Level, chosen: dict[int, BestCandidates]) -> dict[int, Split]:
        """See `SplitFinder`."""
        nodes = sorted(chosen)
        tied = [chosen[node].tied for node in nodes]
        answer = self.channel.ask(
            SplitNodes(
                np.array(nodes, dtype=np.int32),
                np.array([len(t) for t in tied], dtype=np.int32),
                np.concatenate(tied),
            ),
            Assignments,
        )
        sizes = level.partition.sizes()[nodes]
        try:
            together = from_bits(answer.left_rows, int(sizes.sum()))
        except ProtocolError as error:
            raise ProtocolError(f"party {self.channel.name!r}: {error}") from None
        flags = level.partition.split_flags(nodes, together)
        if answer.split_ids.tolist() != list(range(self._n_splits, self._n_splits + len(nodes))):
            raise ProtocolError(f"party {self.channel.name!r} numbers its splits out of turn")
        self._n_splits += len(nodes)
        self._check_left(level, flags)
        return {
            node: Split(int(split_id), flags[node])
            for node, split_id in zip(nodes, answer.split_ids, strict=True)
        }

    def _check_left(self, level: Level, flags: dict[int, NDArray[np.bool_]]) -> None:
        """The rows that go left must add up to the sums of one of the candidates that were asked for."""
        left = level.partition.children(flags)
        own = Partition(left.rows, left.starts).kept(level.rows)
        sums, counts = self._gradients.node_sums(own)
        packed = self._gradients.packed_sums(sums[..., ::2], counts[::2])
        for k, node in enumerate(sorted(flags)):
            if (int(counts[2 * k]), *(values[k] for values in packed)) not in self._tied[node]:
                raise ProtocolError(f"party {self.channel.name!r} sends other rows left than it said")


def send_gradients(
    passive_finders: list[PassiveFinder],
    key: PrivateKey,
    gradients: FixedPointGradients,
    rows: NDArray[np.int32],
    together: Callable[[Callable[[Any], Any], list[Any]], list[Any]],
    rows_at_once: int,
) -> None:
    """Encrypt the gradients of a sample once and send them to all passive parties, piece by piece.

    Parameters
    ----------
    together : callable
        Applies a function to several things at the same time.
    rows_at_once : int
        Rows of a message.
    """
    for group in range(len(gradients.packing.groups)):
        for start in range(0, len(rows), rows_at_once):
            plaintexts = gradients.plaintexts(rows[start : start + rows_at_once])[group]
            values = key.public.to_bytes(key.encrypt(plaintexts))
            together(partial(PassiveFinder.send, message=Gradients(group, start, values)), passive_finders)
