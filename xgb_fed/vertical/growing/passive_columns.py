"""The active party's view of a passive party's search for splits: encrypted sums in, splits out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_parties import messages
from gbdt_parties.channel import Channel, blaming
from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import from_bits, to_bits
from xgb_fed.boosting.candidates import Candidate, CandidateWalk
from xgb_fed.boosting.categories import DEFAULT_RULES, CategoryRules
from xgb_fed.boosting.split_gain import SplitGain
from xgb_fed.ciphers.base import PrivateKey
from xgb_fed.errors import CipherError
from xgb_fed.vertical.growing.bin_sums import AgreedColumns, BinSums
from xgb_fed.vertical.growing.finder import Split, TreeLevel
from xgb_fed.vertical.growing.row_places import RowPlaces
from xgb_fed.vertical.protocol import messages as wire
from xgb_fed.vertical.protocol.packing import MultiClassPacking, normalised
from xgb_fed.vertical.protocol.splits import NamedSplit
from xgb_fed.vertical.trees.partition import NodesWithStatistics, Partition
from xgb_fed.vertical.trees.tree_record import TreeRecord


class PassiveFinder:
    """Finds splits in a passive party's columns, under encryption: asks for sums and evaluates the answers.

    The party has a number, from 1, and columns as it announced them before training.  `record` is that of the
    tree under way, `places` the knowledge about the party's columns from its splits.  `named` has its splits
    from trees already finished, as they were named; those of further trees are added.  The first of them has
    the number `first_split`: splits of a model that is continued come before.
    """

    def __init__(
        self,
        channel: Channel,
        key: PrivateKey,
        number: int,
        split_gain: SplitGain,
        agreed: AgreedColumns,
        record: TreeRecord,
        places: RowPlaces,
        named: list[NamedSplit],
        category_rules: CategoryRules = DEFAULT_RULES,
        first_split: int = 0,
    ) -> None:
        self.channel = channel
        self.number = number
        self._key = key
        self._split_gain = split_gain
        self._agreed = agreed
        self._record = record
        self._places = places
        self._named = named
        self._category_rules = category_rules
        self._first_split = first_split
        self._depth, self._bins, self._split_here = -1, BinSums.of_no_node(), dict[int, Candidate]()
        self.use_columns(np.empty(0, dtype=np.int64))

    def use_columns(self, columns: NDArray[np.int64]) -> None:
        """Choose the columns that the next tree may split."""
        self.columns, agreed = columns, self._agreed
        n_bins = agreed.n_bins[columns]
        self.walk = CandidateWalk(columns, n_bins, agreed.categorical, self._category_rules)

    def start_tree(self, tree: int, rows: NDArray[np.bool_]) -> None:
        """See `SplitFinder`; the gradients follow by `send`."""
        self._depth, self._bins, self._split_here = -1, BinSums.of_no_node(), {}
        sample = np.empty(0, dtype=np.uint8) if rows.all() else to_bits(rows)
        self.channel.ask(wire.StartTree(tree, sample, self.columns.astype(np.int32)), messages.Done)

    def send(self, message: wire.Gradients) -> None:
        """Send encrypted gradients of consecutive rows of the sample."""
        self.channel.ask(message, messages.Done)

    def find(self, level: TreeLevel) -> dict[int, Candidate]:
        """See `SplitFinder`."""
        nodes = NodesWithStatistics.of(level.sampled.sizes(), self._agreed.min_node_rows)
        if not len(nodes.all):
            # Those below are smaller still: the party is not asked about this tree any more.
            return {}
        self._record.settle()
        answer = self.channel.ask(wire.FindSplits(*self._assignment_and_flags(level)), wire.SplitStatistics)
        self._depth += 1
        try:
            sent = self._read(nodes.sent.tolist(), answer, level.gradients.packing)
            siblings = self._siblings(level, sent)
            bins = sent.with_nodes(siblings, nodes.all.tolist())
            self.check(level, siblings, bins)
            self._record.check(self.channel.name, self._depth, bins.digest())
        except (CipherError, ProtocolError):
            # One error for all causes: a reason would tell the party something about the key.
            raise ProtocolError(
                f"party {self.channel.name!r}: its split statistics fail the checks"
            ) from None
        self._bins, self._split_here = bins, {}
        return {
            node: self.walk.best(
                bins.sums[..., place, :],
                bins.counts[place],
                level.sums[..., node],
                level.gradients,
                self._split_gain,
                level.terms_of(node, self.number),
            )
            for place, node in enumerate(bins.nodes)
        }

    def _assignment_and_flags(self, level: TreeLevel) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """How the level above was split, as far as this party does not know."""
        if level.above is None:
            return np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.uint8)
        assignment = np.full(level.above.n_nodes, wire.LEAF, dtype=np.uint8)
        flags = [np.empty(0, dtype=bool)]
        for node in sorted(level.assignment):
            owner, left = level.assignment[node]
            assignment[node] = wire.SPLIT_BY_YOU if owner == self.number else wire.SPLIT_BY_OTHERS
            if owner != self.number:
                flags.append(left)
        return assignment, to_bits(np.concatenate(flags))

    def _read(self, nodes: list[int], answer: wire.SplitStatistics, packing: MultiClassPacking) -> BinSums:
        """The statistics that were sent, decrypted and taken apart."""
        public = self._key.public
        bits = packing.gh.bits * packing.classes_per_ciphertext
        per_ciphertext = (public.plaintext_limit.bit_length() - 1) // bits
        received = public.from_bytes(bytes(answer.sums))
        n_each = -(-np.count_nonzero(answer.counts) // per_ciphertext)
        if len(received) != n_each * len(packing.groups):
            raise ProtocolError("another number of ciphertexts than announced")
        decrypted = self._key.decrypt(received)
        plaintexts = [decrypted[k * n_each : (k + 1) * n_each] for k in range(len(packing.groups))]
        n_bins = int(self.walk.bin_offsets[-1])
        return BinSums.read(nodes, answer.counts, plaintexts, per_ciphertext, n_bins, packing)

    def _siblings(self, level: TreeLevel, sent: BinSums) -> BinSums:
        """The statistics that follow from those sent and from the level above."""
        if level.above is None:
            return BinSums([], sent.counts[:0], sent.sums[..., :0, :])
        split = sorted(level.assignment)
        return sent.siblings([split[node // 2] for node in sent.nodes], self._bins)

    def check(self, level: TreeLevel, siblings: BinSums, bins: BinSums) -> None:
        """Raise `ProtocolError` unless these sums fit the node, the level above and the columns agreed on.

        Sums of siblings are checked whether the sibling is large enough to have statistics or not.  That both
        are sent, and have to add up to their parent, would refuse no more: if they add up, the one sent here
        determines the other, so each pair that passes there has a statement that passes here, and conversely.
        """
        siblings.check_possible(level.gradients.packing)
        sizes = level.sampled.sizes()
        bins.check_totals(self.walk.bin_offsets, sizes[bins.nodes], level.sums[..., bins.nodes])
        if level.above is None:
            n_left_out = len(level.rows) - int(sizes[0])
            bins.check_root(self._agreed.counts_of(self.columns), n_left_out)
            return
        split = sorted(level.assignment)
        for place, node in enumerate(bins.nodes):
            candidate = self._split_here.get(split[node // 2])
            if candidate is not None:
                goes_left = self.walk.goes_left(candidate)
                elsewhere = goes_left if node % 2 else ~goes_left
                if bins.counts[place, self.walk.bins_of(candidate.column)][elsewhere].any():
                    raise ProtocolError("a child has rows in bins that went to the other side")

    def split(self, level: TreeLevel, chosen: dict[int, Candidate]) -> dict[int, Split]:
        """See `SplitFinder`."""
        nodes = sorted(chosen)
        self._split_here = dict(chosen)
        self._record.telling(self.channel.name, self._depth)
        answer = self.channel.ask(self._request(nodes, chosen), wire.Assignments)
        self._record.answered(self.channel.name, self._depth)
        sizes = level.partition.sizes()[nodes]
        with blaming(self.channel.name):
            all_flags = from_bits(answer.left_rows, int(sizes.sum()))
        flags = level.partition.split_flags(nodes, all_flags)
        first = self._first_split + len(self._named)
        if answer.split_ids.tolist() != list(range(first, first + len(nodes))):
            raise ProtocolError(f"party {self.channel.name!r} numbers its splits out of turn")
        self.check_left(level, flags)
        self._place(level, chosen, flags)
        return {
            node: Split(int(split_id), flags[node])
            for node, split_id in zip(nodes, answer.split_ids, strict=True)
        }

    def _request(self, nodes: list[int], chosen: dict[int, Candidate]) -> wire.SplitNodes:
        """Request that tells the party where to split."""
        vectors = (
            np.array(nodes, dtype=np.int32),
            np.array([chosen[node].column for node in nodes], dtype=np.int32),
            np.array([chosen[node].last_left for node in nodes], dtype=np.int32),
            np.array([chosen[node].default_left for node in nodes], dtype=np.uint8),
        )
        categorical = [chosen[node] for node in nodes if chosen[node].right is not None]
        if not categorical:
            return wire.SplitNodes(*vectors)
        right = [~self.walk.goes_left(candidate)[:-1] for candidate in categorical]
        return wire.SplitCategories(*vectors, to_bits(np.concatenate(right)))

    def _place(
        self, level: TreeLevel, chosen: dict[int, Candidate], flags: dict[int, NDArray[np.bool_]]
    ) -> None:
        """The rows that go left must fit all splits of the column so far, in whatever tree."""
        for node in sorted(flags):
            best = chosen[node]
            split = NamedSplit(best.column, best.last_left, bool(best.default_left), best.right)
            with blaming(self.channel.name):
                self._places.note(split, level.partition.of(node), flags[node])
            self._named.append(split)

    def check_left(self, level: TreeLevel, flags: dict[int, NDArray[np.bool_]]) -> None:
        """The rows that go left must add up to the sums of the candidate that was asked for."""
        left = level.partition.children(flags)
        own = Partition(left.rows, left.starts).kept(level.rows)
        sums, counts = level.gradients.node_sums(own)
        sums = normalised(sums)
        for k, node in enumerate(sorted(flags)):
            candidate = self._split_here[node]
            bins, goes_left = self.walk.bins_of(candidate.column), self.walk.goes_left(candidate)
            n_left, sums_left = self._bins.left_of(node, bins, goes_left)
            if counts[2 * k] != n_left or (sums[..., 2 * k] != sums_left).any():
                raise ProtocolError(f"party {self.channel.name!r} sends other rows left than it said")
