"""The passive party: columns without labels, answering messages in bytes.

It sees the gradients as ciphertexts under a key that it does not have. It gives away the number of bins of
its columns, encrypted sums of bins with their row counts, and which rows go left at the splits it owns;
names, thresholds and values stay here.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_parties import messages
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.messages import Message, from_bits, to_bits
from gbdt_parties.session import Reply, SessionHandler
from xgb_fed.boosting.features import Columns
from xgb_fed.ciphers.plain import Plain
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.ciphers.residue_key import MIN_KEY_LENGTH, ResidueKey
from xgb_fed.vertical.passive.auditing import PassiveAudit
from xgb_fed.vertical.passive.disclosed_statistics import DisclosedStatistics, nodes_of
from xgb_fed.vertical.passive.explanations import NONE, columns_of_splits, sides_of_rows
from xgb_fed.vertical.passive.held_rows import HeldRows, SideQuestion, held
from xgb_fed.vertical.passive.journal import Journals, ResumptionTerms, SplitsJournal
from xgb_fed.vertical.passive.session import PredictionSession, TrainingSession
from xgb_fed.vertical.passive.told_thresholds import ToldThresholds
from xgb_fed.vertical.protocol import messages as wire
from xgb_fed.vertical.protocol.packing import check_layout
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.trees.routing import MAX_BITMAP_BYTES

logger = logging.getLogger(__name__)

MAX_SESSIONS = 8
"""Sessions side by side."""

MAX_BIN = (1 << 16) - 1
MAX_DEPTH = (1 << 31) - 1
"""Default limits of a party that sets none."""


class PassiveParty(SessionHandler[PredictionSession]):
    """Takes part in training runs and predictions, several of them side by side.

    **Rows and models.**  `columns` are the rows to train on or to predict, `eval_sets` the same columns of
    evaluation rows.  A finished training run adds its splits to `splits_by_model`, by model id; `journals`
    keeps splits as they are found, in memory by default.  `rows_digest` and `eval_digest` tell the rows of
    `columns`, and of all `eval_sets`, from others with the same values, by their names.  `used` are sessions
    that were opened before, here or at other handlers of the same active party.  An `audit` keeps the
    messages of training runs.

    **Consents.**  They are to give its splits away (`allow_export`), to train without
    encryption (`allow_plain`), and to train under a key below 2048 bits (`allow_weak_key`).  By
    `allow_explanations`, one of "none", "per-party" and "per-feature", it tells every row's side at its
    splits, and which of them share a column.

    **Limits.**  A tree has at least `min_rows` sampled rows, a node whose statistics are given at
    least `min_node_rows`; columns have at most `max_bin` bins, trees `max_depth` levels.  All sessions share
    a `memory` allowance.  `given` counts the sums of bins that the active party learns, and `thresholds` the
    thresholds at which it learns sides.  These three are without limit by default.
    """

    opening = (wire.OpenTraining, wire.OpenModel)
    closing = (messages.Finish, messages.Abort)
    max_sessions = MAX_SESSIONS

    def __init__(
        self,
        columns: Columns | HeldRows,
        eval_sets: Sequence[Columns | HeldRows],
        splits_by_model: MutableMapping[bytes, Splits],
        allow_export: bool = False,
        allow_plain: bool = True,
        allow_weak_key: bool = True,
        journals: Journals | None = None,
        min_rows: int = wire.MIN_ROWS,
        min_node_rows: int = wire.MIN_ROWS,
        max_bin: int = MAX_BIN,
        max_depth: int = MAX_DEPTH,
        used: set[bytes] | None = None,
        memory: MemoryAllowance | None = None,
        given: DisclosedStatistics | None = None,
        thresholds: ToldThresholds | None = None,
        rows_digest: str = "",
        eval_digest: str = "",
        allow_explanations: str = NONE,
        audit: PassiveAudit | None = None,
    ) -> None:
        super().__init__(used)
        self.columns = held(columns)
        self.eval_sets = [held(rows) for rows in eval_sets]
        self.splits_by_model = splits_by_model
        self.allow_export = allow_export
        self.allow_plain = allow_plain
        self.allow_weak_key = allow_weak_key
        self.journals = journals if journals is not None else Journals()
        self._min_rows, self.min_node_rows = min_rows, max(min_node_rows, wire.MIN_ROWS)
        self._max_bin, self._max_depth = max_bin, max_depth
        self._memory = MemoryAllowance(sys.maxsize) if memory is None else memory
        self.given = DisclosedStatistics() if given is None else given
        self.thresholds = ToldThresholds() if thresholds is None else thresholds
        self._rows_digest, self._eval_digest = rows_digest, eval_digest
        self.allow_explanations, self._audit = allow_explanations, audit

    def reply(self, envelope: messages.Envelope) -> Reply:
        """See `SessionHandler.reply`."""
        with self._lock:
            opened = self.sessions.get(envelope.session)
            reply = super().reply(envelope)
            opened = opened or self.sessions.get(envelope.session)
            if self._audit is not None and opened is not None and isinstance(opened.kept, TrainingSession):
                self._audit.keep(opened.kept, envelope, reply)
        return reply

    def open(self, message: Message, session: bytes) -> tuple[PredictionSession, Message]:
        """Open a training run, which then has the session's number, or a trained model."""
        assert isinstance(message, (wire.OpenTraining, wire.OpenModel))
        if isinstance(message, wire.OpenTraining) and message.resumes:
            # The sessions of a run that is taken up again end: it may need what they hold.
            model = message.resumes
            self.end_sessions(lambda kept: isinstance(kept, TrainingSession) and kept.model_id == model)
        # Four bytes for each value of the rows selected, and for each bin number, of all rows and of a tree.
        n_values, what = len(message.rows) * self.columns.n_features, "the rows of a session"
        if isinstance(message, wire.OpenModel):
            room = self._memory.reserve(4 * n_values, what)
            kept, answer = self._open_model(message)
        else:
            n_values += 2 * (len(message.rows) or self.columns.n_rows) * self.columns.n_features
            room = self._memory.reserve(4 * n_values, what)
            kept, answer = self._open_training(message, session)
        kept.rooms["rows"] = room
        return kept, answer

    def answer(self, kept: PredictionSession, message: Message) -> Message:
        """Answer a further request."""
        if type(message) not in self._answers:
            raise ProtocolError(f"{type(message).__name__} is not a request")
        if type(message) in self._of_training and not isinstance(kept, TrainingSession):
            raise ProtocolError("not a training session")
        return self._answers[type(message)](self, kept, message)

    def closed(self, kept: PredictionSession) -> None:
        """End what a session does ahead."""
        if isinstance(kept, TrainingSession):
            kept.background.close()

    def _open_training(self, message: wire.OpenTraining, model_id: bytes) -> tuple[TrainingSession, Message]:
        if model_id in self.splits_by_model or self.journals.find(model_id) is not None:
            raise ProtocolError("a training run has the number of this session; it can only be resumed")
        key = read_public_key(message.public_key)
        if isinstance(key, Plain) and not self.allow_plain:
            raise ProtocolError("this party does not train without encryption")
        if isinstance(key, ResidueKey) and key.n.bit_length() < MIN_KEY_LENGTH and not self.allow_weak_key:
            raise ProtocolError(f"this party does not train under a key of {key.n.bit_length()} bits")
        columns = self._selected(message.rows)
        if message.n_rows != columns.n_rows:
            raise InvalidDataError(f"the active party has {message.n_rows} rows, this one {columns.n_rows}")
        own = [columns.n_rows for columns in self.eval_sets]
        if len(message.eval_rows) != len(own):
            raise InvalidDataError(
                f"the active party has {len(message.eval_rows)} evaluation sets, this one {len(own)}"
            )
        if message.eval_rows.tolist() != own:
            raise InvalidDataError(
                f"the active party's evaluation sets have {message.eval_rows.tolist()} rows, this one's {own}"
            )
        for name, value, limit in (
            ("max_bin", message.max_bin, self._max_bin),
            ("max_depth", message.max_depth, self._max_depth),
        ):
            if value > limit:
                raise ProtocolError(f"this party trains with {name} up to {limit}, not {value}")
        # Refused now if it could never be held, and not when the first tree has half arrived.
        self._memory.reserve(columns.n_rows * message.n_groups * key.ciphertext_bytes, "encrypted gradients")
        space = key.plaintext_limit.bit_length() - 1
        check_layout(message.field_bits, message.n_groups, columns.n_rows, key.plaintext_limit)
        bins = columns.binned(message.max_bin)
        session = TrainingSession(
            columns,
            Splits(self.columns.names, categories=columns.categories),
            key,
            bins,
            message.field_bits,
            space // message.field_bits,
            message.n_groups,
            message.max_depth,
            model_id,
            ResumptionTerms(
                key.scheme,
                key.n.bit_length() if isinstance(key, ResidueKey) else space,
                message.max_bin,
                digest_of(self._rows_digest, self._eval_digest, message.rows, columns.n_rows, own),
                digest_of(columns.names, columns.identity, *(e.identity for e in self.eval_sets)),
            ),
            memory=self._memory,
        )
        opened = wire.TrainingOpened(
            n_bins=(np.diff(bins.bin_offsets) - 1).astype(np.int32),
            counts=bins.counts().astype(np.int32),
            min_node_rows=self.min_node_rows,
        )
        if bins.categorical:
            categorical = np.array(sorted(bins.categorical), dtype=np.int32)
            opened = wire.CategoriesOpened(**opened.__dict__, categorical=categorical)
        # The last thing that can be refused: a refused opening gives no counts, and one that is given counts.
        if not message.resumes:
            n_nodes = nodes_of(message.n_trees, message.max_depth, columns.n_rows // self.min_node_rows)
            self.given.check_plan(message.n_trees, n_nodes, session.n_classes, columns.n_rows)
        rows = digest_of(self._rows_digest, message.rows, columns.names, columns.identity, message.max_bin)
        self.given.add_opening(rows, columns.n_rows)
        session.seed = None if self._audit is None else self._audit.seed(model_id)
        return session, opened

    def _resume_training(self, session: TrainingSession, message: wire.ResumeTraining) -> Message:
        if session.journal is not None:
            raise ProtocolError("a training run is resumed before its first tree")
        if len(message.model) != 16:
            raise ProtocolError("not the number of a model")
        kept = self.journals.find(message.model)
        unsplit = Splits(session.columns.names, categories=session.columns.categories)
        terms, splits = (session.terms, unsplit) if kept is None else kept
        if not self._n_finished(message.model) <= message.n_splits <= len(splits):
            raise ProtocolError(f"this party has not kept {message.n_splits} splits of that training run")
        if splits.names != session.columns.names:
            raise ProtocolError("that training run was on other columns")
        terms.check(session.terms)
        session.keep_categories(splits.n_categories)
        taken_up = splits.first(message.n_splits)
        self._count_thresholds(taken_up)
        session.model_id, session.splits = message.model, taken_up
        # From here on, what is left of the interrupted session, under whatever handler, can write no more.
        session.journal = self.journals.start(session.model_id, session.terms, session.splits)
        return messages.Done()

    def _continue_training(self, session: TrainingSession, message: wire.ContinueTraining) -> Message:
        if len(session.splits) or session.last_tree >= 0:
            raise ProtocolError("a model is continued before the first tree")
        earlier = self.splits_by_model.get(message.model)
        if earlier is None or not 0 < message.n_splits <= len(earlier):
            raise ProtocolError(f"this party has not {message.n_splits} splits of that model")
        if earlier.names != session.columns.names or earlier.categories != session.columns.categories:
            raise ProtocolError("that model was trained on other columns, or categories")
        self._count_thresholds(earlier)
        journal = self._journal_of(session)
        session.keep_categories(earlier.n_categories)
        for k in range(message.n_splits):
            session.splits.add(*earlier.rule(k))
        journal.keep()
        return messages.Done()

    def _journal_of(self, session: TrainingSession) -> SplitsJournal:
        """The journal of a training run, which is begun when it is needed first."""
        if session.journal is None:
            session.journal = self.journals.start(session.model_id, session.terms, session.splits)
        return session.journal

    def _n_finished(self, model: bytes) -> int:
        """Splits of a run that has ended here, which the active party may not have heard of; else 0."""
        splits = self.splits_by_model.get(model)
        return 0 if splits is None else len(splits)

    def _open_model(self, message: wire.OpenModel) -> tuple[PredictionSession, Message]:
        splits = self.splits_by_model.get(message.model)
        if splits is None:
            raise ProtocolError("this party has no splits of that model")
        try:
            places = splits.columns_among(self.columns)
        except InvalidDataError:
            self._log_missing_columns()
            raise
        columns = self._selected(message.rows)
        if places is not None:
            columns = columns.of_model(places, splits.names)
        if message.n_rows not in (0, columns.n_rows):
            raise InvalidDataError(
                f"the active party predicts {message.n_rows} rows, this one has {columns.n_rows}"
            )
        kept = PredictionSession(columns.with_categories(splits.categories), splits, memory=self._memory)
        kept.keep_categories(splits.n_categories)
        self._count_thresholds(splits)
        return kept, wire.ModelOpened(columns.n_rows)

    def _log_missing_columns(self) -> None:
        """Say which models need which columns that are gone."""
        models: dict[str, list[str]] = {}
        for number, splits in self.splits_by_model.items():
            for name in splits.needed - set(self.columns.names):
                models.setdefault(name, []).append(number.hex())
        for name, numbers in sorted(models.items()):
            logger.error("column %r is gone, which the models %s need", name, ", ".join(numbers))

    def _count_thresholds(self, splits: Splits) -> None:
        """Count the splits that a session can ask about; those of an earlier release may not be yet."""
        self.thresholds.add(splits.names, map(splits.rule, range(len(splits))))

    def _selected(self, rows: NDArray[np.int32]) -> HeldRows:
        """The rows that a session is about."""
        if not len(rows):
            return self.columns
        if rows.min() < 0 or rows.max() >= self.columns.n_rows or len(np.unique(rows)) != len(rows):
            raise InvalidDataError("row positions must be different and within this party's rows")
        return self.columns.take(rows)

    def _start_tree(self, session: TrainingSession, message: wire.StartTree) -> Message:
        n_rows = session.columns.n_rows
        if message.tree <= session.last_tree:
            raise ProtocolError("trees are grown once, in ascending order")
        session.last_tree = message.tree
        self._journal_of(session)
        everyone = np.ones(n_rows, dtype=bool)
        sampled = from_bits(message.sampled_rows, n_rows) if len(message.sampled_rows) else everyone
        if sampled.sum() < self._min_rows:
            raise ProtocolError(f"a tree needs at least {self._min_rows} sampled rows")
        columns = np.unique(message.columns)
        if not len(columns) or columns[0] < 0 or columns[-1] >= self.columns.n_features:
            raise ProtocolError("the tree's columns are not this party's")
        session.start_tree(columns, sampled)
        return messages.Done()

    def _receive_gradients(self, session: TrainingSession, message: wire.Gradients) -> Message:
        session.receive(message)
        return messages.Done()

    def _find_splits(self, session: TrainingSession, message: wire.FindSplits) -> Message:
        tree = session.growing()
        if not tree.is_complete:
            raise ProtocolError("statistics were asked for before all gradients came")
        if tree.n_levels == session.max_depth:
            raise ProtocolError(f"statistics of more than {session.max_depth} levels were asked for")
        session.background.finish()
        parents = tree.advance(message)
        session.reserve_level()
        nodes = tree.nodes_with_statistics(self.min_node_rows)
        self.given.add(len(nodes.all), session.n_classes, tree.rows.n_rows)
        tree.build(session.key, nodes, parents)
        return session.statistics(nodes.sent)

    def _split_nodes(self, session: TrainingSession, message: wire.SplitNodes) -> Message:
        tree = session.growing()
        parts = (message.columns, message.last_left, message.default_left)
        if {len(part) for part in parts} != {len(message.nodes)}:
            raise ProtocolError("candidates and nodes do not match")
        if len(message.nodes) > tree.partition.n_nodes:
            raise ProtocolError("more candidates than nodes")
        if len(np.unique(message.nodes)) != len(message.nodes) or tree.owned:
            raise ProtocolError("a node is split once")
        questions, room = [], None
        if isinstance(message, wire.SplitCategories):
            # One byte per flag for as long as the request is answered.
            room = self._memory.reserve(8 * len(message.right), "the categories of splits")
            session.keep_categories(int(np.count_nonzero(np.unpackbits(message.right))))
        named = tree.named_splits(message, session.bins.categorical)
        for node, split in zip(message.nodes.tolist(), named, strict=True):
            tree.check_candidate(node, split)
            questions.append(SideQuestion(session.bins.rule(*split), tree.partition.of(node)))
        self.thresholds.add(session.splits.names, [rule for rule, _ in questions])
        split_ids = [session.splits.add(*rule) for rule, _ in questions]
        flags = session.columns.sides(questions)
        tree.owned = dict(zip(message.nodes.tolist(), flags, strict=True))
        self._journal_of(session).keep()
        del room
        return wire.Assignments(
            np.array(split_ids, dtype=np.int32), to_bits(np.concatenate([*flags, np.empty(0, dtype=bool)]))
        )

    def _route_rows(self, session: PredictionSession, message: wire.RouteRows) -> Message:
        splits = session.splits
        sets = [session.columns, *self.eval_sets]
        if not 0 <= message.dataset < len(sets):
            raise ProtocolError("no such data set")
        columns = sets[message.dataset]
        size = -(-columns.n_rows // 8)
        if len(message.split_ids) > len(splits) or len(message.rows) > max(MAX_BITMAP_BYTES, size):
            raise ProtocolError("more splits or row flags than one question has")
        if len(message.rows) != size * len(message.split_ids) or len(message.n_rows) != len(
            message.split_ids
        ):
            raise ProtocolError("rows and splits do not match")
        n_sides = int(message.n_rows.clip(0).sum(dtype=np.int64))
        room = self._memory.reserve(wire.BYTES_PER_SIDE * n_sides, "the sides of rows")
        questions = []
        for k, split in enumerate(message.split_ids.tolist()):
            if not 0 <= split < len(splits):
                raise ProtocolError("no such split")
            rows = np.flatnonzero(from_bits(message.rows[k * size : (k + 1) * size], columns.n_rows))
            if len(rows) != message.n_rows[k]:
                raise ProtocolError("rows and their number do not match")
            questions.append(SideQuestion(splits.rule(split), rows))
        flags = columns.sides(questions)
        routed = wire.Routed(to_bits(np.concatenate([*flags, np.empty(0, dtype=bool)])))
        del room
        return routed

    def _reveal_splits(self, session: PredictionSession, _: wire.RevealSplits) -> Message:
        if not self.allow_export:
            return messages.Refusal("this party does not consent to export its splits", messages.NO_CONSENT)
        return session.splits.revealed()

    def _tell_sides(self, session: PredictionSession, message: wire.TellSides) -> Message:
        return sides_of_rows(session, message, self.allow_explanations, self._memory)

    def _tell_columns(self, session: PredictionSession, message: wire.TellColumns) -> Message:
        return columns_of_splits(session, message, self.allow_explanations)

    def _finish(self, session: PredictionSession, _: messages.Finish) -> Message:
        if isinstance(session, TrainingSession):
            if session.journal is not None:
                session.journal.check_current()
            if len(session.splits) < self._n_finished(session.model_id):
                raise ProtocolError("that training run has ended here with more splits")
            self.splits_by_model[session.model_id] = session.splits
            logger.info("end of the training run: %d splits of the model are kept here", len(session.splits))
        return messages.Done()

    def _abort(self, session: PredictionSession, _: messages.Abort) -> Message:
        return messages.Done()

    _of_training: ClassVar[Mapping[type[Message], Callable[[Any, Any, Any], Message]]] = {
        wire.ResumeTraining: _resume_training,
        wire.ContinueTraining: _continue_training,
        wire.StartTree: _start_tree,
        wire.Gradients: _receive_gradients,
        wire.FindSplits: _find_splits,
        wire.SplitNodes: _split_nodes,
        wire.SplitCategories: _split_nodes,
    }
    _answers: ClassVar[Mapping[type[Message], Callable[[Any, Any, Any], Message]]] = {
        **_of_training,
        wire.RouteRows: _route_rows,
        wire.RevealSplits: _reveal_splits,
        wire.TellSides: _tell_sides,
        wire.TellColumns: _tell_columns,
        messages.Finish: _finish,
        messages.Abort: _abort,
    }
    requests = tuple(_answers)
    """Everything but openings that sessions answer."""
