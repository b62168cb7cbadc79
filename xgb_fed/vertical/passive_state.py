"""What a passive party keeps while a session is open."""

from __future__ import annotations

from dataclasses import dataclass

from gbdt_parties.errors import ProtocolError

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
    """

    columns: Columns
    splits: Splits


@dataclass
class TrainingSession(PredictionSession):
    """What a passive party keeps from the start of a training run to its end."""

    key: PublicKey
    features: BinnedFeatures
    field_bits: int
    per_ciphertext: int
    n_groups: int
    model_id: bytes
    terms: Terms
    journal: Journal | None = None
    last_tree: int = -1
    tree: GrowingTree | None = None

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
