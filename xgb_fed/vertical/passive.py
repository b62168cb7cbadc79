"""The passive party: columns without labels.  Takes messages as bytes, answers in bytes.

What it sees of the gradients are ciphertexts under a key it does not have.  What
it gives away are encrypted sums with their row counts, and which rows go left at
the splits it owns; columns, thresholds and values stay here.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, MutableMapping
from threading import Lock
from typing import Any

import numpy as np
from gbdt_parties import messages
from gbdt_parties._files import digest_of, is_out_of_room
from gbdt_parties.errors import InvalidDataError, ProtocolError, places_of
from gbdt_parties.messages import Message, from_bits, to_bits
from numpy.typing import NDArray

from xgb_fed.boosting.features import BinnedFeatures, Columns, bin_features
from xgb_fed.ciphers.base import PublicKey
from xgb_fed.ciphers.plain import Plain
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.ciphers.residue_key import SHORTEST_KEY, ResidueKey
from xgb_fed.errors import CipherError
from xgb_fed.vertical.candidates import candidates_of, first_in_order
from xgb_fed.vertical.histogram import Histograms, build_histograms, prefix_sums
from xgb_fed.vertical.journal import Journals, Terms
from xgb_fed.vertical.messages import (
    SPLIT_BY_OTHERS,
    SPLIT_BY_YOU,
    Assignments,
    FindSplits,
    Gradients,
    ModelOpened,
    OpenModel,
    OpenTraining,
    ResumeTraining,
    RevealedSplits,
    RevealSplits,
    Routed,
    RouteRows,
    SplitNodes,
    SplitStatistics,
    StartTree,
    TrainingOpened,
)
from xgb_fed.vertical.partition import Partition
from xgb_fed.vertical.passive_state import GrowingTree, PredictionSession, TrainingSession, training_session
from xgb_fed.vertical.splits import Splits

logger = logging.getLogger(__name__)
MIN_ROWS = 2
"""Sampled rows that a tree, or a node with statistics, has at least."""
MAX_STATISTICS_BYTES = 4 << 30
"""Of the encrypted histograms of one level of a tree: another party's settings must not fill this memory."""
MAX_SESSIONS = 8
"""Sessions side by side; a further one ends the oldest, which a dead active party may have left."""


class PassiveParty:
    """Answers some sessions side by side, one message at a time.

    Parameters
    ----------
    columns : Columns
        Rows to train on, or to predict.
    eval_sets : list of Columns
        The same columns of evaluation rows.
    splits_by_model : dict
        This party's splits of trained models by model id; a finished training run adds its own.
    allow_export : bool
        Whether this party consents to give its splits away.
    allow_plain : bool
        Whether it takes part in training without encryption.
    allow_weak_key : bool
        Whether it takes part under a key below 2048 bits.
    journals : Journals, optional
        Where splits of trainings are kept as they are found; in memory by default.
    min_rows : int
        Fewest sampled rows of a tree.
    used : set of bytes, optional
        Sessions that were opened before, here or at other handlers of the same active party.
    """

    def __init__(
        self,
        columns: Columns,
        eval_sets: list[Columns],
        splits_by_model: MutableMapping[bytes, Splits],
        allow_export: bool = False,
        allow_plain: bool = True,
        allow_weak_key: bool = True,
        journals: Journals | None = None,
        min_rows: int = MIN_ROWS,
        used: set[bytes] | None = None,
    ) -> None:
        self.columns = columns
        self.eval_sets = eval_sets
        self.splits_by_model = splits_by_model
        self.allow_export = allow_export
        self.allow_plain = allow_plain
        self.allow_weak_key = allow_weak_key
        self.journals = journals if journals is not None else Journals()
        self._random = SecretStream()
        self._lock = Lock()
        self._sessions: dict[bytes, TrainingSession | PredictionSession] = {}
        self._min_rows = min_rows
        self._used: set[bytes] = set() if used is None else used
        self._last_request = -math.inf
        self._answers: dict[type[Message], Callable[[Any, Any], Message]] = {
            ResumeTraining: self._resume_training,
            StartTree: self._start_tree,
            Gradients: self._receive_gradients,
            FindSplits: self._find_splits,
            SplitNodes: self._split_nodes,
            RouteRows: self._route_rows,
            RevealSplits: self._reveal_splits,
            messages.Finish: self._finish,
            messages.Abort: self._abort,
        }

    def is_idle(self, seconds: float) -> bool:
        """Whether no session is open, or nobody asked anything for so long."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return not self._sessions or time.monotonic() - self._last_request > seconds
        finally:
            self._lock.release()

    def handle(self, request: bytes) -> bytes:
        """Answer a request; a refusal is an answer too.

        A refusal ends the session: nothing is left half done.
        """
        with self._lock:
            session, sequence = b"\0" * 16, 0
            self._last_request = time.monotonic()
            try:
                envelope = messages.read(request)
                session, sequence = envelope.session, envelope.sequence
                answer = self._answer(envelope)
            except (CipherError, InvalidDataError, ProtocolError) as error:
                self._sessions.pop(session, None)
                answer = messages.Refusal(str(error), messages.OTHER_REASON)
            except OSError as error:
                self._sessions.pop(session, None)
                if is_out_of_room(error):
                    raise
                reason = f"this party cannot keep its splits: {error.strerror}"
                answer = messages.Refusal(reason, messages.OTHER_REASON)
            except Exception as error:
                # A request that no check foresaw: the other side learns no more than that.
                logger.error("a request failed: %s", places_of(error))
                self._sessions.pop(session, None)
                answer = messages.Refusal("internal error", messages.OTHER_REASON)
            return messages.write(session, sequence, answer)

    def _answer(self, envelope: messages.Envelope) -> Message:
        message = envelope.message
        if isinstance(message, (OpenTraining, OpenModel)):
            if envelope.sequence != 0 or envelope.session in self._used:
                raise ProtocolError("a session was opened out of order, or twice")
            self._used.add(envelope.session)
            opened: PredictionSession
            if isinstance(message, OpenTraining):
                opened, answer = self._open_training(message, envelope.session)
            else:
                opened, answer = self._open_model(message)
            while len(self._sessions) >= MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[envelope.session] = opened
            return answer
        if envelope.session not in self._sessions:
            return messages.Refusal("no such session", messages.NO_SESSION)
        session = self._sessions[envelope.session]
        if envelope.sequence != session.next:
            raise ProtocolError(f"message {envelope.sequence} out of order; {session.next} is next")
        session.next += 1
        if type(message) not in self._answers:
            raise ProtocolError(f"{type(message).__name__} is not a request")
        answer = self._answers[type(message)](session, message)
        if isinstance(message, messages.Finish) and isinstance(session, TrainingSession):
            self.splits_by_model[session.model_id] = session.splits
        if isinstance(message, (messages.Finish, messages.Abort)):
            del self._sessions[envelope.session]
        return answer

    def _open_training(self, message: OpenTraining, model_id: bytes) -> tuple[TrainingSession, Message]:
        key = read_public_key(message.public_key)
        if isinstance(key, Plain) and not self.allow_plain:
            raise ProtocolError("this party does not train without encryption")
        if isinstance(key, ResidueKey) and key.n.bit_length() < SHORTEST_KEY and not self.allow_weak_key:
            raise ProtocolError(f"this party does not train under a key of {key.n.bit_length()} bits")
        columns = self._selected(message.rows)
        if message.n_rows != columns.n_rows:
            raise InvalidDataError(f"the active party has {message.n_rows} rows, this one {columns.n_rows}")
        own = [columns.n_rows for columns in self.eval_sets]
        if message.eval_rows.tolist() != own:
            raise InvalidDataError(
                f"the active party's evaluation sets have {message.eval_rows.tolist()} rows, this one's {own}"
            )
        if not (2 <= message.max_bin < 1 << 16 and 1 <= message.n_groups <= 1 << 16):
            raise ProtocolError("max_bin or n_groups is out of range")
        space = key.plaintext_limit.bit_length() - 1
        if not 1 <= message.field_bits <= space:
            raise ProtocolError(f"fields of {message.field_bits} bits do not fit the key's plaintexts")
        session = TrainingSession(
            columns,
            Splits(self.columns.names),
            key,
            bin_features(columns, message.max_bin),
            message.field_bits,
            space // message.field_bits,
            message.n_groups,
            model_id,
            Terms(
                key.scheme,
                key.n.bit_length() if isinstance(key, ResidueKey) else space,
                message.max_bin,
                digest_of(columns.names, columns.data, *(e.data for e in self.eval_sets)),
            ),
        )
        return session, TrainingOpened(self.columns.n_features)

    def _resume_training(self, session: PredictionSession, message: ResumeTraining) -> Message:
        session = training_session(session)
        if session.journal is not None:
            raise ProtocolError("a training is taken up before its first tree")
        kept = self.journals.find(message.model)
        terms, splits = (session.terms, Splits(session.columns.names)) if kept is None else kept
        # A training that ended here, though the active party never heard, ended with all its splits.
        fewest = len(self.splits_by_model[message.model]) if message.model in self.splits_by_model else 0
        if not fewest <= message.n_splits <= len(splits):
            raise ProtocolError(f"this party has not kept {message.n_splits} splits of that training")
        if splits.names != session.columns.names:
            raise ProtocolError("that training was on other columns")
        terms.check(session.terms)
        session.model_id, session.splits = message.model, splits.first(message.n_splits)
        for number, other in list(self._sessions.items()):
            # What is left of the interrupted session would write to the same journal.
            if (
                isinstance(other, TrainingSession)
                and other is not session
                and other.model_id == message.model
            ):
                del self._sessions[number]
        return messages.Done()

    def _open_model(self, message: OpenModel) -> tuple[PredictionSession, Message]:
        splits = self.splits_by_model.get(message.model)
        if splits is None:
            raise ProtocolError("this party has no splits of that model")
        splits.check_columns(self.columns)
        columns = self._selected(message.rows)
        if message.n_rows not in (0, columns.n_rows):
            raise InvalidDataError(
                f"the active party predicts {message.n_rows} rows, this one has {columns.n_rows}"
            )
        return PredictionSession(columns, splits), ModelOpened(columns.n_rows)

    def _selected(self, rows: NDArray[np.int32]) -> Columns:
        """The rows that a session is about."""
        if not len(rows):
            return self.columns
        if rows.min() < 0 or rows.max() >= self.columns.n_rows or len(np.unique(rows)) != len(rows):
            raise InvalidDataError("row positions are not those of different rows of this party")
        return self.columns.take(rows)

    def _start_tree(self, session: PredictionSession, message: StartTree) -> Message:
        session = training_session(session)
        n_rows = session.columns.n_rows
        if message.tree <= session.last_tree:
            raise ProtocolError("trees are grown once, in ascending order")
        session.last_tree = message.tree
        if session.journal is None:
            session.journal = self.journals.start(session.model_id, session.terms, session.splits)
        everyone = np.ones(n_rows, dtype=bool)
        sampled = from_bits(message.sampled_rows, n_rows) if len(message.sampled_rows) else everyone
        if sampled.sum() < self._min_rows:
            raise ProtocolError(f"a tree needs at least {self._min_rows} sampled rows")
        columns = np.unique(message.columns)
        if not len(columns) or columns[0] < 0 or columns[-1] >= self.columns.n_features:
            raise ProtocolError("the tree's columns are not this party's")
        features = session.features
        places = np.diff(features.bin_offsets)[columns]
        of_tree = BinnedFeatures(
            [features.cuts[f] for f in columns],
            features.lower[columns],
            np.ascontiguousarray(features.codes[sampled][:, columns]),
            np.concatenate([[0], np.cumsum(places)]).astype(np.int64),
        )
        session.tree = GrowingTree(
            features=of_tree,
            columns=columns,
            sampled=sampled,
            position=(np.cumsum(sampled) - 1).astype(np.int32),
            sources=[],
            received=[0] * session.n_groups,
            partition=Partition.root(n_rows),
        )
        return messages.Done()

    def _receive_gradients(self, session: PredictionSession, message: Gradients) -> Message:
        session = training_session(session)
        tree = session.growing()
        part = session.key.from_bytes(message.values)
        n_sampled = len(tree.features.codes)
        if not 0 <= message.group < session.n_groups or tree.histograms is not None:
            raise ProtocolError("gradients at a wrong time, or of a wrong group")
        start = tree.received[message.group]
        if message.start != start or start + len(part) > n_sampled:
            raise ProtocolError("gradients of other rows than the next ones")
        if len(tree.sources) == message.group:
            tree.sources.append(np.empty((n_sampled, *part.shape[1:]), dtype=part.dtype))
        if len(tree.sources) <= message.group:
            raise ProtocolError("gradients of a wrong group")
        tree.sources[message.group][start : start + len(part)] = part
        tree.received[message.group] += len(part)
        return messages.Done()

    def _find_splits(self, session: PredictionSession, message: FindSplits) -> Message:
        session = training_session(session)
        tree = session.growing()
        if set(tree.received) != {len(tree.features.codes)}:
            raise ProtocolError("statistics were asked for before all gradients came")
        parents = self._advance(tree, message)
        if len(message.wanted) != tree.partition.n_nodes:
            raise ProtocolError(f"{len(message.wanted)} nodes named, {tree.partition.n_nodes} exist")
        wanted = np.flatnonzero(message.wanted)
        sizes = tree.partition.kept(tree.sampled).sizes()
        if not len(wanted) or (sizes[wanted] < MIN_ROWS).any():
            raise ProtocolError(f"statistics are of nodes with at least {MIN_ROWS} sampled rows")
        self._build(session.key, tree, wanted, parents)
        return self._statistics(session, tree, wanted)

    def _advance(self, tree: GrowingTree, message: FindSplits) -> NDArray[np.int64] | None:
        """Go down to the next level; gives each of its nodes' parent, or None at the root."""
        if tree.histograms is None:
            if len(message.assignment) or len(message.left_rows):
                raise ProtocolError("the root has no level above")
            return None
        if len(message.assignment) != tree.partition.n_nodes:
            raise ProtocolError("every node of the level above has an assignment")
        mine = np.flatnonzero(message.assignment == SPLIT_BY_YOU).tolist()
        others = np.flatnonzero(message.assignment == SPLIT_BY_OTHERS).tolist()
        if set(mine) != set(tree.owned):
            raise ProtocolError("the nodes said to be split here are not those that were")
        if any(tree.slots[node] < 0 for node in others):
            raise ProtocolError("a node was split that nobody asked about")
        flags = from_bits(message.left_rows, int(tree.partition.sizes()[others].sum()))
        goes_left = {**tree.owned, **tree.partition.split_flags(others, flags)}
        if any(left.all() or not left.any() for left in goes_left.values()):
            raise ProtocolError("a split leaves one side without rows")
        tree.partition = tree.partition.children(goes_left)
        tree.owned = {}
        return np.repeat(np.array(sorted(goes_left), dtype=np.int64), 2)

    def _build(
        self,
        key: PublicKey,
        tree: GrowingTree,
        wanted: NDArray[np.int64],
        parents: NDArray[np.int64] | None,
    ) -> None:
        """Histograms of the wanted nodes: the smaller child summed up, the larger one by subtraction."""
        sampled = tree.partition.kept(tree.sampled)
        sizes, above, above_slots = sampled.sizes(), tree.histograms, tree.slots
        summed, derived = wanted, wanted[:0]
        if parents is not None and len(wanted):
            sibling = wanted ^ 1
            larger = (sizes[wanted] > sizes[sibling]) | (
                (sizes[wanted] == sizes[sibling]) & (wanted & 1 == 1)
            )
            derived = wanted[larger]
            summed = np.union1d(wanted[~larger], derived ^ 1)
        size = len(wanted) * int(tree.features.bin_offsets[-1]) * sum(s[:1].nbytes for s in tree.sources)
        if size > MAX_STATISTICS_BYTES:
            raise ProtocolError(
                f"statistics of this level take {size >> 20} MiB, this party keeps at most "
                f"{MAX_STATISTICS_BYTES >> 20}: lower max_bin, max_depth or the number of classes"
            )
        chosen = sampled.selected(summed)
        rows = tree.position[chosen.rows]
        built = build_histograms(
            key, tree.sources, tree.features.codes, rows, chosen.starts, tree.features.bin_offsets
        )
        tree.slots = np.full(tree.partition.n_nodes, -1, dtype=np.int64)
        tree.slots[summed] = np.arange(len(summed))
        if len(derived) and parents is not None and above is not None:
            of_parents = above.take(above_slots[parents[derived]])
            rest = of_parents.less(key, built.take(tree.slots[derived ^ 1]))
            tree.slots[derived] = len(summed) + np.arange(len(derived))
            built = Histograms.joined([built, rest])
        tree.histograms = built

    def _statistics(self, session: TrainingSession, tree: GrowingTree, wanted: NDArray[np.int64]) -> Message:
        """Totals and shuffled candidate sums of the wanted nodes, compressed and re-randomised."""
        assert tree.histograms is not None
        key, layout, histograms = session.key, tree.features.bin_offsets, tree.histograms
        n_total = int(layout[-1])
        tree.candidates = {}
        chains: list[NDArray[np.int64]] = []
        order: list[NDArray[np.int64]] = []
        at = 0
        for node in wanted.tolist():
            slot = int(tree.slots[node])
            counts = histograms.counts[slot]
            canonical = candidates_of(counts, layout)
            shuffle = self._random.permutation(len(canonical))
            tree.candidates[node] = canonical.reordered(shuffle)
            of_first_feature = np.flatnonzero(counts[: layout[1]])
            node_chains = [of_first_feature, *canonical.chains]
            chains += [slot * n_total + chain for chain in node_chains]
            # The first chain's last running sum is the node's total.
            order.append(
                np.concatenate([[at + len(of_first_feature) - 1], at + len(of_first_feature) + shuffle])
            )
            at += sum(len(chain) for chain in node_chains)
        places = np.concatenate(order) if order else np.empty(0, dtype=np.int64)
        parts = []
        for sums in histograms.sums:
            running = prefix_sums(key, sums.reshape(-1, *sums.shape[2:]), chains)
            packed = key.compress(running[places], session.field_bits, session.per_ciphertext)
            parts.append(key.rerandomise(packed))
        tables = [tree.candidates[node] for node in wanted.tolist()]
        counts = [table.counts for table in tables]
        return SplitStatistics(
            n_candidates=np.array([len(table) for table in tables], dtype=np.int32),
            counts=np.concatenate([*counts, np.empty(0, dtype=np.int32)]),
            sums=key.to_bytes(np.concatenate(parts)),
        )

    def _split_nodes(self, session: PredictionSession, message: SplitNodes) -> Message:
        session = training_session(session)
        tree = session.growing()
        bounds = np.concatenate([[0], np.cumsum(message.n_tied)])
        if len(message.nodes) != len(message.n_tied) or bounds[-1] != len(message.tied):
            raise ProtocolError("candidates and nodes do not match")
        if len(np.unique(message.nodes)) != len(message.nodes) or tree.owned:
            raise ProtocolError("a node is split once")
        split_ids, flags = [], []
        for k, node in enumerate(message.nodes.tolist()):
            tied = message.tied[bounds[k] : bounds[k + 1]]
            table = tree.candidates.get(node)
            if table is None or not len(tied) or tied.min() < 0 or tied.max() >= len(table):
                raise ProtocolError("no such candidate")
            best = first_in_order(table, tied)
            f, last_left = int(table.feature[best]), int(table.last_left[best])
            column, default_left = int(tree.columns[f]), bool(table.default_left[best])
            rows = tree.partition.of(node)
            left = session.features.goes_left(rows, column, last_left, default_left)
            tree.owned[node] = left
            threshold = session.features.threshold(column, last_left)
            split_ids.append(session.splits.add(column, threshold, default_left))
            flags.append(left)
        assert session.journal is not None
        session.journal.keep()
        return Assignments(
            np.array(split_ids, dtype=np.int32),
            to_bits(np.concatenate([*flags, np.empty(0, dtype=bool)])),
        )

    def _route_rows(self, session: PredictionSession, message: RouteRows) -> Message:
        splits = session.splits
        sets = [session.columns, *self.eval_sets]
        if not 0 <= message.dataset < len(sets):
            raise ProtocolError("no such data set")
        columns = sets[message.dataset]
        size = -(-columns.n_rows // 8)
        if len(message.rows) != size * len(message.split_ids) or len(message.n_rows) != len(
            message.split_ids
        ):
            raise ProtocolError("rows and splits do not match")
        flags = []
        for k, split in enumerate(message.split_ids.tolist()):
            if not 0 <= split < len(splits):
                raise ProtocolError("no such split")
            rows = np.flatnonzero(from_bits(message.rows[k * size : (k + 1) * size], columns.n_rows))
            if len(rows) != message.n_rows[k]:
                raise ProtocolError("rows and their number do not match")
            flags.append(splits.goes_left(split, columns, rows))
        return Routed(to_bits(np.concatenate([*flags, np.empty(0, dtype=bool)])))

    def _reveal_splits(self, session: PredictionSession, _: RevealSplits) -> Message:
        if not self.allow_export:
            return messages.Refusal("this party does not consent to export its splits", messages.NO_CONSENT)
        splits = session.splits
        return RevealedSplits(
            np.array(splits.features, dtype=np.int32),
            np.array(splits.thresholds, dtype=np.float32),
            np.array(splits.default_left, dtype=np.uint8),
            json.dumps(splits.names),
        )

    def _finish(self, session: PredictionSession, _: messages.Finish) -> Message:
        return messages.Done()

    def _abort(self, session: PredictionSession, _: messages.Abort) -> Message:
        return messages.Done()
