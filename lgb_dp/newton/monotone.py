"""Trees whose predictions never fall, or never rise, with chosen features: post-processing of leaf values.

Leaf values follow from what was released, so that changing them costs no privacy.  They are changed before
any score moves, so that later trees see the model as it is.  At every node that splits a constrained feature,
the largest value on the lower side is made at most the smallest on the other one: two rows that differ in
that feature alone part there and nowhere else.  Missing values are on whatever side their split sends them
to and stand outside the order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from gbdt_hosts import lightgbm as host
from lgb_dp.data.bins import PublicBins
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.newton.releases.trees import PublicTree

_TOLERANCE = 1e-12
"""Relative: LightGBM prints leaf values anew when it saves a model."""


class MonotoneConstraints:
    """In which features predictions may only rise, or only fall, by LightGBM's `monotone_constraints`.

    These are 1, -1 or 0 for each feature; none at all means no constraints. Another number of them raises
    `InvalidArgumentError`, and a constraint of a categorical feature `UnsupportedParameterError`.
    """

    def __init__(self, signs: Sequence[int], bins: PublicBins) -> None:
        if signs and len(signs) != len(bins.names):
            raise InvalidArgumentError(
                f"monotone_constraints has {len(signs)} values; data has {len(bins.names)} features"
            )
        self._signs = np.array(signs or [0] * len(bins.names), dtype=np.int8)
        categorical = [bins.names[f] for f in np.flatnonzero((self._signs != 0) & bins.is_categorical)]
        if categorical:
            raise UnsupportedParameterError(
                f"monotone_constraints of the categorical features {categorical} are not supported: their "
                "values have no order"
            )

    def hold(
        self, tree: PublicTree, value: NDArray[np.float64], weight: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Leaf values that keep to the constraints, close to the given ones.

        Trees of one feature get the weighted isotonic regression of their leaves, which lie in the feature's
        order. In others, as by LightGBM's method "basic", every node's children are kept apart by a bound
        halfway between their weighted means, or by their common mean where these are in the wrong order.
        Values and weights, which are positive, have shape (n_leaves, n_outputs).
        """
        sign = self._signs[tree.feature]
        if not sign.any():
            return value
        if (tree.feature == tree.feature[0]).all():
            columns = [
                isotonic_regression(v, sample_weight=w, increasing=bool(sign[0] > 0))
                for v, w in zip(value.T, weight.T, strict=True)
            ]
            return np.column_stack(columns)
        weights, means = [weight], [value]
        while len(weights[0]) > 1:
            both = weights[0][0::2] + weights[0][1::2]
            total = weights[0][0::2] * means[0][0::2] + weights[0][1::2] * means[0][1::2]
            weights.insert(0, both)
            means.insert(0, total / both)
        low = np.full((1, value.shape[1]), -np.inf)
        high = -low
        for level in range(len(means) - 1):
            children = np.clip(means[level + 1], np.repeat(low, 2, axis=0), np.repeat(high, 2, axis=0))
            first, second = children[0::2], children[1::2]
            direction = sign[2**level - 1 : 2 ** (level + 1) - 1, None]
            together = np.clip(means[level], low, high)
            middle = np.where(direction * (second - first) >= 0, (first + second) / 2, together)
            low, high = np.repeat(low, 2, axis=0), np.repeat(high, 2, axis=0)
            rises, falls = direction > 0, direction < 0
            high[0::2] = np.where(rises, np.minimum(high[0::2], middle), high[0::2])
            low[1::2] = np.where(rises, np.maximum(low[1::2], middle), low[1::2])
            low[0::2] = np.where(falls, np.maximum(low[0::2], middle), low[0::2])
            high[1::2] = np.where(falls, np.minimum(high[1::2], middle), high[1::2])
        return np.asarray(np.clip(value, low, high))

    def check_model(self, blocks: Sequence[str]) -> None:
        """Check the trees of a model to continue from, as `gbdt_hosts.lightgbm.tree_blocks` gives them.

        `UnsupportedParameterError` if a tree does not keep to the constraints by the order of its leaves at
        every constrained node.
        """
        if not self._signs.any():
            return
        for number, block in enumerate(blocks):
            if not self._keeps(host.tree_fields(block)):
                raise UnsupportedParameterError(
                    f"monotone_constraints are not supported with this init_model: its tree {number} "
                    "does not keep to them"
                )

    def _keeps(self, fields: host.TreeFields) -> bool:
        sign = self._signs[fields.feature]
        if (sign != 0)[fields.is_categorical].any():
            return False
        if not len(sign):
            return True
        # Children of internal nodes have larger numbers than their parents.
        lowest, highest = np.empty(len(sign)), np.empty(len(sign))

        def range_of(child: int) -> tuple[float, float]:
            if child < 0:
                return float(fields.leaf_value[~child]), float(fields.leaf_value[~child])
            return float(lowest[child]), float(highest[child])

        for node in range(len(sign) - 1, -1, -1):
            left, right = range_of(int(fields.left_child[node])), range_of(int(fields.right_child[node]))
            lowest[node], highest[node] = min(left[0], right[0]), max(left[1], right[1])
            lower, upper = (left, right) if sign[node] > 0 else (right, left)
            if sign[node] and lower[1] > upper[0] + _TOLERANCE * max(abs(lower[1]), abs(upper[0])):
                return False
        return True
