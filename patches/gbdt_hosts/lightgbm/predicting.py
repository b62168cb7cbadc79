"""Predictions of LightGBM models by our own kernel: bit for bit LightGBM's, many times as fast for many rows.

LightGBM sends one row after another through all trees, which deep trees push out of the cache.  A
`FastPredictor` reads the trees from the model's text and sums them with `gbdt_kernels.trees.Forest`; LightGBM
itself turns the sums into probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_hosts.lightgbm.text import (
    CATEGORICAL,
    DEFAULT_LEFT,
    MISSING_IS_NAN,
    block_fields,
    header_lines,
    tree_blocks,
)
from gbdt_kernels.trees import Forest, NodeLists, plant

_MISSING_IS_ZERO = 4
_IDENTITIES = frozenset({"regression", "regression_l1", "huber", "fair", "quantile", "mape"})
"""Objectives whose predictions are raw scores, if nothing follows their name."""

_VALUES_AT_ONCE = 2**22
"""Values of a sparse matrix that are made dense at a time."""


@dataclass(frozen=True)
class FastPredictor:
    """The trees of a model, `n_outputs` per iteration, and what becomes of their sums.

    The converter makes predictions of raw scores; None if they are the same.
    """

    forest: Forest
    n_trees: int
    n_outputs: int
    converter: lightgbm.Booster | None

    def predict(
        self, data: Any, start_iteration: int, num_iteration: int, raw_score: bool, n_threads: int
    ) -> NDArray[np.float64]:
        """Predictions of LightGBM for rows that `takes` accepts: shape (n_rows,) or (n_rows, n_outputs).

        Iterations are as in LightGBM's C interface: all from the first one on if `num_iteration` is not
        positive.
        """
        n_iterations = self.n_trees // self.n_outputs
        first = min(max(start_iteration, 0), n_iterations)
        last = min(first + num_iteration, n_iterations) if num_iteration > 0 else n_iterations
        trees = (first * self.n_outputs, last * self.n_outputs, self.n_outputs, n_threads)
        if isinstance(data, np.ndarray):
            # In the precision in which LightGBM reads it.
            data = data if data.dtype in (np.float32, np.float64) else data.astype(np.float32)
            score = self.forest.scores(data, *trees)
        else:
            score = self._sparse_scores(data, trees)
        if not raw_score and self.converter is not None:
            return np.asarray(self.converter.predict(score, num_threads=n_threads))
        return score[:, 0] if self.n_outputs == 1 else score

    def _sparse_scores(self, data: Any, trees: tuple[int, int, int, int]) -> NDArray[np.float64]:
        rows = scipy.sparse.csr_matrix(data)
        score = np.empty((rows.shape[0], self.n_outputs))
        n_at_once = max(1, _VALUES_AT_ONCE // rows.shape[1])
        for first in range(0, rows.shape[0], n_at_once):
            part = slice(first, first + n_at_once)
            score[part] = self.forest.scores(rows[part].toarray(), *trees)
        return score


def takes(data: Any, n_features: int) -> bool:
    """Whether rows are of a kind that `FastPredictor.predict` reads as LightGBM does."""
    if isinstance(data, np.ndarray):
        is_read = data.dtype.kind in "biuf" and data.dtype.isnative
    elif isinstance(data, (scipy.sparse.csr_matrix, scipy.sparse.csc_matrix)):
        is_read = data.dtype in (np.float32, np.float64) and data.has_canonical_format
    else:
        return False
    return bool(is_read and data.ndim == 2 and data.shape[1] == n_features)


def fast_predictor(text: str) -> FastPredictor | None:
    """Read a model's text; None if the model has what only LightGBM predicts.

    That is averaged or linear trees, zeros that count as missing, or more than a `Forest` has room for.
    """
    fields = header_lines(text)
    n_outputs = int(fields.get("num_tree_per_iteration", 0))
    trees = _node_lists([block_fields(block) for block in tree_blocks(text)])
    if n_outputs < 1 or "average_output" in fields or trees is None or len(trees.n_leaves) % n_outputs:
        return None
    forest = plant(trees)
    if forest is None:
        return None
    objective = fields.get("objective", "")
    is_raw = not objective or objective in _IDENTITIES
    converter = None if is_raw else _converter(objective, int(fields["num_class"]), n_outputs)
    return FastPredictor(forest, len(trees.n_leaves), n_outputs, converter)


def _numbers(text: str, dtype: Any) -> NDArray[Any]:
    return np.fromstring(text, dtype=dtype, sep=" ")


def _node_lists(trees: Sequence[dict[str, str]]) -> NodeLists | None:
    """Trees of a model text, None if one has what `NodeLists` has not."""

    def all_of(name: str, dtype: Any) -> NDArray[Any]:
        return _numbers(" ".join(tree.get(name, "") for tree in trees), dtype)

    n_leaves, n_sets = all_of("num_leaves", np.int64), all_of("num_cat", np.int64)
    decision = all_of("decision_type", np.int64)
    is_set = decision & CATEGORICAL > 0
    if (decision[~is_set] & _MISSING_IS_ZERO).any() or all_of("is_linear", np.int64).any():
        return None
    threshold = all_of("threshold", np.float64)
    default_left = np.where(decision & MISSING_IS_NAN > 0, decision & DEFAULT_LEFT > 0, threshold >= 0)
    tree_of_split = np.repeat(np.arange(len(trees)), n_leaves - 1)
    # Each tree numbers its sets from 0 on, and their words.
    category_set = np.where(is_set, threshold + (np.cumsum(n_sets) - n_sets)[tree_of_split], -1)
    lengths = [np.diff(_numbers(tree.get("cat_boundaries", ""), np.int64)) for tree in trees]
    return NodeLists(
        n_leaves=n_leaves,
        feature=all_of("split_feature", np.int64),
        threshold=threshold,
        missing_left=default_left & ~is_set,
        left_child=all_of("left_child", np.int64),
        right_child=all_of("right_child", np.int64),
        category_set=category_set.astype(np.int64),
        set_words=all_of("cat_threshold", np.uint32),
        set_offsets=np.concatenate([[0], np.cumsum(np.concatenate([[], *lengths]))]).astype(np.int64),
        leaf_value=all_of("leaf_value", np.float64),
    )


_COPY = (
    "num_leaves=1\nnum_cat=0\nsplit_feature=\nsplit_gain=\nthreshold=\ndecision_type=\nleft_child=\n"
    "right_child=\nleaf_value=0\nleaf_weight=0\nleaf_count=1\ninternal_value=\ninternal_weight=\n"
    "internal_count=\nis_linear=1\nleaf_const=0\nnum_features=1\nleaf_features={k}\nleaf_coeff=1\nshrinkage=1\n"
)
"""A linear tree whose value is a feature's."""


def _converter(objective: str, n_classes: int, n_outputs: int) -> lightgbm.Booster:
    """A model whose raw scores are its features, to have LightGBM itself apply the objective's function."""
    trees = [f"Tree={k}\n{_COPY.format(k=k)}\n\n" for k in range(n_outputs)]
    return lightgbm.Booster(
        model_str=(
            f"tree\nversion=v4\nnum_class={n_classes}\nnum_tree_per_iteration={n_outputs}\nlabel_index=0\n"
            f"max_feature_idx={n_outputs - 1}\nobjective={objective}\n"
            f"feature_names={' '.join(f'score_{k}' for k in range(n_outputs))}\n"
            f"feature_infos={' '.join(['[-1:1]'] * n_outputs)}\n"
            f"tree_sizes={' '.join(str(len(tree)) for tree in trees)}\n\n{''.join(trees)}"
            "end of trees\n\nfeature_importances:\n\nparameters:\n\nend of parameters\n\n"
            "pandas_categorical:[]\n"
        )
    )
