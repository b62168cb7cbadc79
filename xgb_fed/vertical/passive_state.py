"""What a passive party keeps while a session is open."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from gbdt_parties.errors import ProtocolError
from gbdt_parties.memory import MemoryAllowance, Room
from xgb_fed.boosting.features import BinnedFeatures, Columns
from xgb_fed.ciphers.base import PublicKey
from xgb_fed.vertical.growing_tree import GrowingTree
from xgb_fed.vertical.journal import Journal, Terms
from xgb_fed.vertical.splits import Splits


@dataclass
class PredictionSession:
    """A session that only sends rows through splits.

    Attributes
    ----------
    columns : Columns
        Of the rows that the session is about.
    splits : Splits
    rooms : dict
        Memory reserved for this session, by what it is for.
    """

    columns: Columns
    splits: Splits
    rooms: dict[str, Room] = field(default_factory=dict, kw_only=True)


@dataclass
class TrainingSession(PredictionSession):
    """What a passive party keeps from the start of a training run to its end."""

    key: PublicKey
    features: BinnedFeatures
    field_bits: int
    per_ciphertext: int
    n_groups: int
    max_depth: int
    model_id: bytes
    terms: Terms
    journal: Journal | None = None
    last_tree: int = -1
    tree: GrowingTree | None = None
    memory: MemoryAllowance = field(default_factory=lambda: MemoryAllowance(sys.maxsize))

    def reserve_gradients(self, n_sampled: int) -> None:
        """Reserve memory for the encrypted gradients of a tree; that of the last tree is given back."""
        self.tree = None
        self.rooms.pop("level", None)
        self.rooms.pop("gradients", None)
        size = n_sampled * self.n_groups * self.key.ciphertext_bytes
        self.rooms["gradients"] = self.memory.reserve(size, "encrypted gradients")

    def reserve_level(self) -> None:
        """Reserve memory for the encrypted histograms of a level, which take as much while they are made."""
        tree = self.growing()
        n_bins = tree.partition.n_nodes * int(tree.features.bin_offsets[-1])
        self.rooms.pop("level", None)
        size = 3 * n_bins * self.n_groups * self.key.ciphertext_bytes
        self.rooms["level"] = self.memory.reserve(size, "statistics of this level")

    def growing(self) -> GrowingTree:
        """The tree that is growing."""
        if self.tree is None:
            raise ProtocolError("no tree is growing")
        return self.tree


def training_session(session: PredictionSession) -> TrainingSession:
    """The session, which must be one that trains; `ProtocolError` if it only predicts."""
    if not isinstance(session, TrainingSession):
        raise ProtocolError("not a training session")
    return session
