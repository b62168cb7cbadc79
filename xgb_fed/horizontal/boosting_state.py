"""What a horizontal party keeps from round to round of one training run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.xgboost.boosting import TreeGrower
from xgb_fed.boosting.objectives import Objective
from xgb_fed.boosting.params import Settings
from xgb_fed.horizontal.shared_model import PENALTIES, TREE_PARAMETERS, SharedTrees


@dataclass
class BoostingState:
    """State of a training run at one party.

    Attributes
    ----------
    objective : Objective
    y, weight : ndarray of float32, shape (n_rows,)
    place : int
        This party's place among `party_rows`.
    hashes : ndarray of int32 or None
        Hashes of its own rows.
    similar : dict of ndarray of int32, shape (TIE_DRAWS, n_groups)
        For each other party, the row that a member of each group of own rows is most similar to (this party's
        column of the paper's matrix S).  In each row of the array, members and ties are drawn again.
    margin, others : ndarray of float32, shape (n_rows, n_classes)
        Margins under all trees, and under all trees but those grown here.
    gradients : (g, h) or None
        Gradients and hessians of the present margins.
    label_sums : ndarray of float64, shape (n_groups, n_classes), or None
        What the labels of each group contribute to its sum of gradients, whatever the margins.
    g, h : ndarray of float32, shape (n_classes, n_rows), or None
        Sums of all other parties, received for the tree to grow here.
    """

    settings: Settings
    objective: Objective
    y: NDArray[np.float32]
    weight: NDArray[np.float32]
    place: int
    party_rows: list[int]
    hashes: NDArray[np.int32] | None = None
    similar: dict[int, NDArray[np.int32]] = field(default_factory=dict)
    shared: SharedTrees | None = None
    margin: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 1), dtype=np.float32))
    others: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 1), dtype=np.float32))
    grower: TreeGrower | None = None
    tree_seed: int = 0
    gradients: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
    label_sums: NDArray[np.float64] | None = None
    g: NDArray[np.float32] | None = None
    h: NDArray[np.float32] | None = None

    @property
    def tree_parameters(self) -> dict[str, Any]:
        """Parameters to grow trees by on sums of all parties: penalties are multiplied by N/n.

        XGBoost's penalties are meant for sums of one gradient per row.  Here each of the n own rows holds N/n
        gradients on average, so that a single row would outweigh ``min_child_weight`` and be a leaf.  The
        factor has the same effect as n/N times the sums: −(n/N)G / ((n/N)H + λ) = −G / (H + (N/n)λ), and
        likewise for α, γ and the minimum H of a child.  Without received sums the factor is 1.
        """
        own = self.party_rows[self.place]
        factor = (own + sum(self.party_rows[place] for place in self.similar)) / own
        params = {name: getattr(self.settings, name) for name in TREE_PARAMETERS}
        return params | {name: factor * params[name] for name in PENALTIES}
