"""Who finds splits: the active party in its own columns, or a passive one under encryption.

Both get the nodes of a level and give, for every node, its best loss change and
the candidates that reach it; the one whose candidate is chosen then splits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from gbdt_kernels.binning import DenseCodes
from gbdt_kernels.histogram import level_histograms
from gbdt_kernels.layout import BinLayout
from numpy.typing import NDArray

from xgb_fed import messages
from xgb_fed.cipher import Ciphertexts, PrivatePart
from xgb_fed.errors import CipherError, ProtocolError
from xgb_fed.features import BinnedFeatures
from xgb_fed.gradients import FixedPointGradients
from xgb_fed.messages import from_bits, to_bits
from xgb_fed.packing import unpack_all
from xgb_fed.partition import Partition
from xgb_fed.party import Channel
from xgb_fed.regularization import Regularization
from xgb_fed.settings import Settings
from xgb_fed.share import Share

NONE = np.float32(-np.inf)


@dataclass
class Level:
    """The nodes of one level of a tree.

    Attributes
    ----------
    rows : ndarray of bool, shape (n_rows,)
        The sample.
    partition, sampled : Partition
        Rows of every node, all and those of the sample.
    wanted : ndarray of bool, shape (n_nodes,)
        Nodes that may be split.
    sums : ndarray of int64, shape (2, 2, n_classes, n_nodes)
        Exact sums over the sampled rows.
    above : Partition or None
        The level above; None at the root.
    fate : dict
        Of nodes of the level above that were split: by whom, and which rows went left.
    """

    rows: NDArray[np.bool_]
    partition: Partition
    sampled: Partition
    wanted: NDArray[np.bool_]
    sums: NDArray[np.int64]
    above: Partition | None = None
    fate: dict[int, tuple[int, NDArray[np.bool_]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """A finder's best of one node.

    Attributes
    ----------
    loss_change : float32
        −∞ if there is no candidate.
    tied : ndarray of int32
        Candidates with this loss change, in the finder's own numbers.
    """

    loss_change: np.float32
    tied: NDArray[np.int32]


NOTHING = Found(NONE, np.empty(0, dtype=np.int32))


@dataclass(frozen=True)
class Split:
    """A split as the active party knows it: its number at the owner, and which rows go left."""

    split_id: int
    goes_left: NDArray[np.bool_]


class SplitFinder(Protocol):
    """One party's part in growing a tree."""

    def start_tree(self, tree: int, gradients: FixedPointGradients, rows: NDArray[np.bool_]) -> None:
        """A new tree on the rows of a sample."""

    def find(self, level: Level) -> dict[int, Found]:
        """The best candidates of every wanted node."""

    def split(self, level: Level, chosen: dict[int, Found]) -> dict[int, Split]:
        """Split nodes, each at the first of its tied candidates in XGBoost's order."""


class OwnColumns:
    """The active party's search in its own columns, in clear.

    Parameters
    ----------
    features : BinnedFeatures
    share : Share
        Where its splits are kept.
    regularization : Regularization
    """

    def __init__(self, features: BinnedFeatures, share: Share, regularization: Regularization) -> None:
        self.features = features
        self.share = share
        self._regularization = regularization
        self._columns = np.arange(features.n_features)
        self._gradients: FixedPointGradients

    def use_columns(self, columns: NDArray[np.int64]) -> None:
        """Columns that the next tree may split."""
        self._columns = columns

    def start_tree(self, tree: int, gradients: FixedPointGradients, rows: NDArray[np.bool_]) -> None:
        """See `SplitFinder`."""
        self._gradients = gradients
        self._parents: list[NDArray[np.int64]] = []
        n_bins = np.array([len(self.features.cuts[f]) for f in self._columns], dtype=np.int64)
        none = np.zeros((0, int((n_bins + 1).sum())), dtype=bool)
        self._layout = BinLayout(n_bins, np.zeros(len(n_bins), dtype=bool), none)
        codes = self.features.codes
        everything = len(self._columns) == self.features.n_features
        self._codes = DenseCodes(codes if everything else np.ascontiguousarray(codes[:, self._columns]))
        self._order = _walk(self._layout)
        self._tried: dict[int, NDArray[np.int64]] = {}

    def find(self, level: Level) -> dict[int, Found]:
        """See `SplitFinder`."""
        sums, counts = self._histograms(level)
        found = {}
        for node in np.flatnonzero(level.wanted).tolist():
            found[node] = self._best(level, node, sums[..., node, :], counts[node])
        return found

    def _histograms(self, level: Level) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Exact sums, shape (2, 2, n_classes, n_nodes, n_total_bins), and row counts of every bin."""
        halves = self._gradients.halves
        n_classes = halves.shape[2]
        ones = np.ones(halves.shape[-1], dtype=np.int32)
        pairs = [(halves[q, 0, k], halves[q, 1, k]) for q in range(2) for k in range(n_classes)] + [
            (ones, ones)
        ]
        split = sorted(level.fate)
        built = []
        for k, (a, b) in enumerate(pairs):
            parents = self._parents[k][split] if self._parents else None
            built.append(
                level_histograms(
                    self._codes,
                    level.sampled.rows,
                    level.sampled.starts,
                    np.ascontiguousarray(a),
                    np.ascontiguousarray(b),
                    self._layout,
                    parents,
                )
            )
        self._parents = built
        of_gradients = np.stack(built[:-1]).reshape(2, n_classes, *built[0].shape)
        return np.moveaxis(of_gradients, -1, 1), built[-1][..., 0]

    def _best(self, level: Level, node: int, sums: NDArray[np.int64], counts: NDArray[np.int64]) -> Found:
        first, missing, at, default_left = self._order
        # Left-hand sums: running sums from the feature's first bin, plus missing values that go left.
        running = np.zeros((*sums.shape[:-1], sums.shape[-1] + 1), dtype=np.int64)
        np.cumsum(sums, axis=-1, out=running[..., 1:])
        left = running[..., at] - running[..., first]
        left += np.where(default_left, sums[..., missing], 0)
        walked = np.concatenate([[0], np.cumsum(counts)])
        n_left = walked[at] - walked[first] + np.where(default_left, counts[missing], 0)
        moves = np.where(default_left, counts[missing] > 0, True)
        possible = np.flatnonzero(moves & (n_left > 0) & (n_left < level.sampled.sizes()[node]))
        if not len(possible):
            return NOTHING
        g, h = self._gradients.to_float(left[..., possible])
        total_g, total_h = self._gradients.to_float(level.sums[..., node])
        change = self._regularization.loss_changes(g.T, h.T, total_g, total_h)
        best = change.max()
        return Found(best, possible[change == best][:1].astype(np.int32))

    def split(self, level: Level, chosen: dict[int, Found]) -> dict[int, Split]:
        """See `SplitFinder`."""
        first, _, at, default_left = self._order
        splits = {}
        for node, found in chosen.items():
            candidate = int(found.tied[0])
            own = int(np.searchsorted(self._layout.bin_offsets, first[candidate], side="right")) - 1
            feature, last_left = int(self._columns[own]), int(at[candidate] - first[candidate]) - 1
            goes_default = bool(default_left[candidate])
            left = self.features.goes_left(level.partition.of(node), feature, last_left, goes_default)
            threshold = self.features.threshold(feature, last_left)
            splits[node] = Split(self.share.add(feature, threshold, goes_default), left)
        return splits


def _walk(
    layout: BinLayout,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """All candidates in the order XGBoost tries them.

    Returns
    -------
    first, missing : ndarray of int64
        Places of the feature's first bin, and of its missing values.
    at : ndarray of int64
        Place after the last bin that goes left.
    default_left : ndarray of bool
    """
    first, missing, at, default_left = [], [], [], []
    for f in range(layout.n_features):
        start, end = int(layout.bin_offsets[f]), int(layout.bin_offsets[f + 1]) - 1
        upwards, downwards = np.arange(start + 1, end + 1), np.arange(end - 1, start - 1, -1)
        at += [upwards, downwards]
        default_left += [np.zeros(len(upwards), dtype=bool), np.ones(len(downwards), dtype=bool)]
        first.append(np.full(len(upwards) + len(downwards), start))
        missing.append(np.full(len(upwards) + len(downwards), end))
    return tuple(np.concatenate(part) for part in (first, missing, at, default_left))  # type: ignore[return-value]


class PassivePeer:
    """A passive party's search, under encryption: what the active party asks and makes of the answers.

    Parameters
    ----------
    channel : Channel
    key : PrivatePart
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
        key: PrivatePart,
        number: int,
        settings: Settings,
        n_features: int,
        n_splits: int = 0,
    ) -> None:
        self.channel = channel
        self.number = number
        self._key = key
        self._regularization = settings.regularization
        # A feature has a cut more than max_bin at most, and a cut two candidates: missing left or right.
        self._most_candidates = 2 * n_features * (settings.max_bin + 1)
        self._n_splits = n_splits
        self._tied: dict[int, set[tuple[int, ...]]] = {}
        self._columns = np.empty(0, dtype=np.int64)
        self._gradients: FixedPointGradients

    def use_columns(self, columns: NDArray[np.int64]) -> None:
        """Columns that the next tree may split."""
        self._columns = columns

    def start_tree(self, tree: int, gradients: FixedPointGradients, rows: NDArray[np.bool_]) -> None:
        """See `SplitFinder`; the gradients follow by `send`."""
        self._gradients = gradients
        sample = np.empty(0, dtype=np.uint8) if rows.all() else to_bits(rows)
        self.channel.ask(messages.StartTree(tree, sample, self._columns.astype(np.int32)), messages.Done)

    def send(self, message: messages.Gradients) -> None:
        """Encrypted gradients of consecutive rows of the sample."""
        self.channel.ask(message, messages.Done)

    def find(self, level: Level) -> dict[int, Found]:
        """See `SplitFinder`."""
        answer = self.channel.ask(
            messages.FindSplits(*self._news(level), level.wanted.astype(np.uint8)), messages.SplitStatistics
        )
        wanted = np.flatnonzero(level.wanted).tolist()
        try:
            return dict(self._evaluate(level, wanted, answer))
        except (CipherError, ProtocolError):
            # One error for all causes: the reason would answer questions about the key.
            raise ProtocolError(
                f"party {self.channel.name!r}: its split statistics fail the checks"
            ) from None

    def _news(self, level: Level) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """How the level above was split, as far as this party does not know."""
        if level.above is None:
            return np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.uint8)
        fate = np.full(level.above.n_nodes, messages.LEAF, dtype=np.uint8)
        flags = [np.empty(0, dtype=bool)]
        for node in sorted(level.fate):
            owner, left = level.fate[node]
            fate[node] = messages.SPLIT_BY_YOU if owner == self.number else messages.SPLIT_BY_OTHERS
            if owner != self.number:
                flags.append(left)
        return fate, to_bits(np.concatenate(flags))

    def _evaluate(
        self, level: Level, wanted: list[int], answer: messages.SplitStatistics
    ) -> Iterator[tuple[int, Found]]:
        packing, public = self._gradients.packing, self._key.public
        sizes = level.sampled.sizes()[wanted]
        bounds = np.concatenate([[0], np.cumsum(answer.n_candidates.astype(np.int64))])
        if len(answer.n_candidates) != len(wanted) or (answer.n_candidates < 0).any():
            raise ProtocolError("other nodes than those asked about")
        if bounds[-1] != len(answer.counts):
            raise ProtocolError("candidates and counts do not match")
        if (answer.n_candidates > self._most_candidates).any():
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
                yield node, NOTHING
                continue
            change = self._regularization.loss_changes(
                left_g[part], left_h[part], total_g[:, node], total_h[:, node]
            )
            best = change.max()
            tied = np.flatnonzero(change == best)
            places = is_candidate[part][tied]
            self._tied[node] = {(int(counts[i]), *(values[i] for values in fields)) for i in places}
            yield node, Found(best, tied.astype(np.int32))

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

    def split(self, level: Level, chosen: dict[int, Found]) -> dict[int, Split]:
        """See `SplitFinder`."""
        nodes = sorted(chosen)
        tied = [chosen[node].tied for node in nodes]
        answer = self.channel.ask(
            messages.SplitNodes(
                np.array(nodes, dtype=np.int32),
                np.array([len(t) for t in tied], dtype=np.int32),
                np.concatenate(tied),
            ),
            messages.Assignments,
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
    peers: list[PassivePeer],
    key: PrivatePart,
    gradients: FixedPointGradients,
    rows: NDArray[np.int32],
    together: Callable[[Callable[[Any], Any], list[Any]], list[Any]],
    rows_at_once: int,
) -> None:
    """Encrypt the gradients of a sample once and send them to all peers, piece by piece.

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
            together(partial(PassivePeer.send, message=messages.Gradients(group, start, values)), peers)
