"""The state of a vertical training run between two trees: key, model and progress."""

from __future__ import annotations

import os
from contextlib import suppress

from gbdt_parties.traffic import Traffic
from xgb_fed.ciphers.base import PrivateKey, Scheme
from xgb_fed.ciphers.plain import Plain
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.errors import CipherError, UnsupportedParameterError
from xgb_fed.vertical.model.model import VerticalModel
from xgb_fed.vertical.protocol.packing import packing_for
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.training.auditing import ProcessSecrets
from xgb_fed.vertical.training.checkpoint import VerticalJournal, VerticalProgress
from xgb_fed.vertical.training.task import TrainingTask
from xgb_fed.vertical.trees.tree_record import TreeRecord


class RunState:
    """A training run between two trees: at its beginning, or at the last tree that a checkpoint has.

    The secrets are all randomness of an auditable run.  Raises `UnsupportedParameterError` if the cipher's
    keys do not encrypt, or are not read by parties, and `CheckpointError` if the checkpoint is damaged, or
    another run's.
    """

    def __init__(
        self, training: TrainingTask, journal: VerticalJournal | None, secrets: ProcessSecrets | None = None
    ) -> None:
        # Without parties nothing is encrypted, and a Paillier key takes seconds.
        key = _key_of(training.cipher) if training.parties else Plain()
        number, seed = os.urandom(16), os.urandom(32)
        if secrets is not None:
            key, number, seed = secrets.key(key), secrets.drawn("number")[:16], secrets.drawn("seed")
        self.key: PrivateKey = key
        self.secrets, self.earlier = secrets, training.earlier
        settings, rows = training.settings, training.rows
        n_classes = settings.n_classes if settings.multi_output else 1
        self.packing = packing_for(rows.n_rows, n_classes, key.public.plaintext_limit)
        names = [] if rows.columns is None else rows.columns.names
        categories = {} if rows.columns is None else rows.columns.categories
        model = VerticalModel(
            number,
            training.objective,
            training.base_score,
            Splits(names, categories=categories) if self.earlier is None else self.earlier.splits,
            [party.name for party in training.parties],
            [],
        )
        model.traffic = Traffic(encrypted=not isinstance(training.cipher, Plain))
        self.progress = _first_progress(training, model, int.from_bytes(seed, "little"))
        self.is_kept = journal is not None and journal.load(self.progress)
        """Whether the progress comes from a checkpoint."""
        under_way = self.progress.under_way
        self.record = TreeRecord(None if journal is None else journal.keep_under_way, under_way)
        """Of the tree under way."""
        model.traffic.restarts = [str(r) for r in [*model.restarts, *self.record.restarts]]
        self._n_made: dict[int, int] = {}
        self.note_splits()

    @property
    def model(self) -> VerticalModel:
        """The model so far."""
        return self.progress.model

    @property
    def traffic(self) -> Traffic:
        """Traffic of the run so far."""
        return self.model.traffic

    def count(self, traffic: Traffic | None, journal: VerticalJournal | None) -> None:
        """Add what left, but for what callers have counted, to a caller's table, and keep that."""
        progress = self.progress
        if traffic is not None:
            traffic.add(self.traffic.less(progress.counted))
            progress.counted = Traffic()
            progress.counted.add(self.traffic)
        if journal is not None and journal.has_begun:
            # A full disk is not to hide why a run has failed.
            with suppress(OSError):
                journal.add_traffic(progress)

    @property
    def n_finished(self) -> int:
        """Rounds whose trees are all there."""
        return self.model.num_boosted_rounds()

    def note_splits(self) -> None:
        """All splits so far are those of finished trees."""
        self._n_made = {owner: len(named) for owner, named in self.progress.named.items()}
        self._n_made[0] = len(self.model.splits)

    def n_splits(self, owner: int) -> int:
        """Splits of one party that were made while the finished trees grew, those that were cut off too."""
        return self._n_made.get(owner, 0)

    def first_split(self, owner: int) -> int:
        """Number of a passive party's first split, after those of a model that is continued."""
        return 0 if self.earlier is None else self.earlier.n_splits(owner)

    def n_known_splits(self, owner: int) -> int:
        """Splits that a passive party has when the run is taken up; none before the first finished tree."""
        return self.first_split(owner) + self.n_splits(owner) if self.model.trees else 0


def _key_of(cipher: Scheme) -> PrivateKey:
    """A new key, which encrypts unless the cipher says that it does not, and which parties read."""
    key = cipher.generate()
    if isinstance(key, Plain) and not isinstance(cipher, Plain):
        raise UnsupportedParameterError(f"cipher={cipher!r} gives a key that does not encrypt")
    try:
        read_public_key(key.public.public_bytes())
    except CipherError as error:
        raise UnsupportedParameterError(
            f"cipher={cipher!r} gives keys that parties do not read; "
            "use Paillier(), OkamotoUchiyama() or Plain()"
        ) from error
    return key


def _first_progress(training: TrainingTask, model: VerticalModel, drawn: int) -> VerticalProgress:
    """No tree, and the margins before the first one."""
    margins = [training.first_margins(rows) for rows in [training.rows, *training.eval_rows]]
    state = training.settings.random_state
    seed = drawn if state is None else int(state)
    n_drawn = training.n_draws_before
    return VerticalProgress(model, seed, margins[0], margins[1:], n_drawn=n_drawn, n_drawn_before=n_drawn)
