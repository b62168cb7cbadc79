"""Contributions of the columns to the predictions of a vertical model: XGBoost's ``pred_contribs``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees.contributions import CoverTree, add_contributions, expected_values
from xgb_fed.vertical.explaining.columns import ModelColumns
from xgb_fed.vertical.explaining.sides import Sides
from xgb_fed.vertical.trees.tree import FederatedTree

BYTES_AT_ONCE = 64 << 20
"""Of contributions in double precision."""


@dataclass(frozen=True)
class Explanation:
    """Contributions of columns to the margins of some rows.

    Attributes
    ----------
    contributions : ndarray of float32, shape (n_rows, n_columns + 1) or (n_rows, n_classes, n_columns + 1)
        As XGBoost's ``pred_contribs=True`` gives them: the last column is the bias, and a row adds up to its
        margin.
    feature_names : list of str
        One per column: the active party's names; ``"bank: column 3"`` for the column at position 3 of a
        passive party's data; ``"bank"`` where that party consents to the sum of its columns only.
    """

    contributions: NDArray[np.float32]
    feature_names: list[str]


def contributions_of(
    trees: Sequence[FederatedTree],
    groups: Sequence[int | None],
    n_classes: int,
    columns: ModelColumns,
    sides: Sides,
) -> NDArray[np.float32]:
    """Path-dependent Tree SHAP values.

    Parameters
    ----------
    trees : sequence of FederatedTree
    groups : sequence of int or None
        Class that each tree belongs to; None if its leaves have a value for every class.
    n_classes : int
    columns : ModelColumns
    sides : Sides

    Returns
    -------
    ndarray of float32, shape (n_rows, n_classes, n_columns + 1)
        The last column is the output of the trees for a row without known values.
    """
    n_columns = len(columns.names)
    first_class = [0 if group is None else group for group in groups]
    cover_trees = [_cover_tree(tree, columns, sides) for tree in trees]
    expected = np.zeros(n_classes)
    for tree, first in zip(cover_trees, first_class, strict=True):
        expected[first : first + tree.value.shape[1]] += expected_values(tree)
    out = np.empty((sides.n_rows, n_classes, n_columns + 1), dtype=np.float32)
    at_once = max(1, BYTES_AT_ONCE // (8 * n_classes * n_columns))
    for start in range(0, sides.n_rows, at_once):
        stop = min(start + at_once, sides.n_rows)
        part = np.zeros((stop - start, n_classes, n_columns))
        for tree, first in zip(cover_trees, first_class, strict=True):
            add_contributions(tree, sides.table, (start, stop), part, first)
        out[start:stop, :, :-1] = part
    out[:, :, -1] = expected
    return out


def _cover_tree(tree: FederatedTree, columns: ModelColumns, sides: Sides) -> CoverTree:
    players, places = columns.of_tree(tree)
    return CoverTree(
        np.array(tree.left, dtype=np.int32),
        np.array(tree.right, dtype=np.int32),
        sides.lines_of(tree),
        players,
        places,
        np.array(tree.sum_hessian, dtype=np.float64),
        tree.values().astype(np.float64),
    )
