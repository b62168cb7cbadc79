"""What a passive party keeps while a session is open."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from gbdt_parties.errors import ProtocolError
from numpy.typing import NDArray

from xgb_fed.boosting.features import BinnedFeatures, Columns
from xgb_fed.ciphers.base import Ciphertexts, PublicKey
from xgb_fed.vertical.candidates import Candidates
from xgb_fed.vertical.histogram import Histograms
from xgb_fed.vertical.journal import Journal, Terms
from xgb_fed.vertical.partition import Partition
from xgb_fed.vertical.splits import Splits


@dataclass
class GrowingTree:
    """What a passive party keeps while a tree grows.

    Attributes
    ----------
    features : BinnedFeatures
        With the codes of the sampled rows and the columns of this tree only.
    columns : ndarray of int32
        Which of the party's columns those are.
    sampled : ndarray of bool, shape (n_rows,)
    position : ndarray of int32, shape (n_rows,)
        Place of each sampled row among the ciphertexts.
    sources : list of ciphertexts
        The encrypted gradients; one array for each ciphertext of a row.
    received : list of int
        Rows of each that have arrived.
    partition : Partition
        All rows, in the nodes of the present level.
    histograms : Histograms or None
        Of the nodes of the present level, at `slots`.
    slots : ndarray of int64
        Where each node's histogram is, −1 if it has none.
    candidates : dict
        Shuffled candidates of the nodes asked about.
    owned : dict
        Of nodes of the present level that this party split: which rows go left.
    """

    features: BinnedFeatures
    columns: NDArray[np.int32]
    sampled: NDArray[np.bool_]
    position: NDArray[np.int32]
    sources: list[Ciphertexts]
    received: list[int]
    partition: Partition
    histograms: Histograms | None = None
    slots: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    candidates: dict[int, Candidates] = field(default_factory=dict)
    owned: dict[int, NDArray[np.bool_]] = field(default_factory=dict)


@dataclass
class PredictionSession:
    """A session that only sends rows through splits.

    Attributes
    ----------
    columns : Columns
        Of the rows that the session is about.
    splits : Splits
    next : int
        Number of the next request.
    """

    columns: Columns
    splits: Splits
    next: int = field(default=1, init=False)


@dataclass
class TrainingSession(PredictionSession):
    """What a passive party keeps from the start of a training to its end."""

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
