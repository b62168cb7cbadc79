"""Folding makes a model's text shorter, and bounds by how much a raw score may change.

A subtree whose leaves differ little becomes one leaf, leaf values are rounded to numbers that LightGBM writes
with few digits, and what no prediction reads is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.lightgbm.text import CATEGORICAL, block_fields, header_lines, tree_blocks

_OF_SPLITS = ("split_feature", "threshold", "decision_type", "internal_count")
"""Lines with a number per split that are kept as they are."""
_UNREAD = ("internal_value", "internal_weight", "leaf_weight")
"""Lines that no prediction reads, and no SHAP value."""

_SHARE_OF_ROUNDING = 0.25
_SHORT = 14
"""Characters of a number that counts as short; LightGBM writes most with 17 digits."""


@dataclass(frozen=True)
class _Tree:
    """A tree of a model text, whose lines are `fields`; children of splits are leaf ``~child`` if negative.

    Leaf values have shape (n_leaves,); the lowest and the highest under each split, and their means by
    counts, have shape (n_leaves - 1,).
    """

    fields: dict[str, str]
    left: list[int]
    right: list[int]
    value: NDArray[np.float64]
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]
    mean: NDArray[np.float64]

    def half_ranges(self) -> NDArray[np.float64]:
        """By how much the leaves under a split change that become one; the root stays a split."""
        return (self.highest[1:] - self.lowest[1:]) / 2


def _read(block: str) -> _Tree:
    fields = block_fields(block)
    left, right = ([int(child) for child in fields[name].split()] for name in ("left_child", "right_child"))
    value, count = (np.array(fields[name].split(), dtype=np.float64) for name in ("leaf_value", "leaf_count"))
    n_splits = len(left)
    lowest, highest, total, weight = (np.zeros(n_splits) for _ in range(4))
    parents_first = [0] if n_splits else []
    for node in parents_first:
        parents_first += [child for child in (left[node], right[node]) if child >= 0]
    for node in reversed(parents_first):
        own = [
            (value[~c], value[~c], count[~c] * value[~c], count[~c])
            if c < 0
            else (lowest[c], highest[c], total[c], weight[c])
            for c in (left[node], right[node])
        ]
        lowest[node], highest[node] = min(own[0][0], own[1][0]), max(own[0][1], own[1][1])
        total[node], weight[node] = own[0][2] + own[1][2], own[0][3] + own[1][3]
    mean = np.where(weight > 0, total / np.maximum(weight, 1), (lowest + highest) / 2)
    return _Tree(fields, left, right, value, lowest, highest, mean)


def folded_text(text: str, tolerance: float) -> str:
    """A model text of fewer leaves and digits; its guarantee, if any, is that of the old trees.

    A raw score may change by the tolerance: the sum, over the trees of an output, of the largest change of a
    leaf value, with all rounding. At 0 no prediction changes. `ValueError` if the model has linear trees.
    """
    trees = [_read(block) for block in tree_blocks(text)]
    if any(tree.fields.get("is_linear", "0").strip() != "0" for tree in trees):
        raise ValueError("the model has linear trees")
    n_outputs = int(header_lines(text)["num_tree_per_iteration"])
    n_iterations = max(1, len(trees) // n_outputs)
    # Adding T numbers rounds by T - 1 times 2^-53 of the sum of their sizes at most; twice, before and after.
    largest = np.array([np.abs(tree.value).max(initial=0) for tree in trees])
    sizes = max(float(largest[k::n_outputs].sum()) for k in range(n_outputs))
    tolerance = max(0.0, tolerance - 2.0**-50 * n_iterations * sizes)
    changes = _changes(trees, n_outputs, (1 - _SHARE_OF_ROUNDING) * tolerance)
    within = _SHARE_OF_ROUNDING * tolerance / n_iterations
    blocks = [_folded_block(tree, change, within) for tree, change in zip(trees, changes, strict=True)]
    return with_blocks(text, blocks)


def moved_text(text: str, factor: float, shift: float) -> str:
    """A model text of one output whose raw scores are multiplied, and then moved by the first tree."""
    blocks = []
    for k, block in enumerate(tree_blocks(text)):
        fields, more = block_fields(block), 0.0 if k else shift
        for name, digits in (("leaf_value", 17), ("internal_value", 6)):
            values = np.array(fields[name].split(), dtype=np.float64) * factor + more
            fields[name] = " ".join(f"{value:.{digits}g}" for value in values.tolist())
        blocks.append(_block(fields))
    return with_blocks(text, blocks)


def _changes(trees: Sequence[_Tree], n_outputs: int, tolerance: float) -> list[float]:
    """The largest change in each tree if subtrees are folded up to a half range that the tolerance allows."""
    ascending = [np.sort(tree.half_ranges()) for tree in trees]
    candidates = np.unique(np.concatenate([np.zeros(1), *ascending]))

    def changes(limit: float) -> list[float]:
        numbers = [int(np.searchsorted(ranges, limit, side="right")) for ranges in ascending]
        return [float(ranges[n - 1]) if n else 0.0 for ranges, n in zip(ascending, numbers, strict=True)]

    low, high = 0, len(candidates)
    while high - low > 1:
        middle = (low + high) // 2
        found = changes(float(candidates[middle]))
        if max(sum(found[k::n_outputs]) for k in range(n_outputs)) <= tolerance:
            low = middle
        else:
            high = middle
    return changes(float(candidates[low]))


def _folded_block(tree: _Tree, change: float, within: float) -> str:
    """Text of a tree whose subtrees of a half range of `change` are leaves, values rounded by `within`."""
    if not tree.left:
        return _block({**tree.fields, "leaf_value": repr(short_number(float(tree.value[0]), within))})
    is_leaf = np.concatenate([[False], tree.half_ranges() <= change])
    folded_value = np.clip(tree.mean, tree.highest - change, tree.lowest + change)
    folded_value = np.clip(folded_value, tree.lowest, tree.highest)
    splits = [0]
    for node in splits:
        splits += [c for c in (tree.left[node], tree.right[node]) if c >= 0 and not is_leaf[c]]
    splits.sort()
    number = {node: i for i, node in enumerate(splits)}
    counts = {name: tree.fields[name].split() for name in ("leaf_count", "internal_count")}
    value, count = [], []

    def place(child: int) -> int:
        if child in number:
            return number[child]
        own = float(tree.value[~child] if child < 0 else folded_value[child])
        value.append(short_number(own, within))
        count.append(counts["leaf_count"][~child] if child < 0 else counts["internal_count"][child])
        return -len(value)

    children = [(place(tree.left[node]), place(tree.right[node])) for node in splits]
    fields: dict[str, list[Any]] = {}
    for name in _OF_SPLITS:
        tokens = tree.fields[name].split()
        fields[name] = [tokens[node] for node in splits]
    gains = tree.fields["split_gain"].split()
    fields["split_gain"] = [f"{float(gains[node]):.3g}" for node in splits]
    fields["left_child"], fields["right_child"] = [c[0] for c in children], [c[1] for c in children]
    fields["leaf_value"], fields["leaf_count"] = [repr(v) for v in value], count
    fields |= {name: [0] * len(value if name == "leaf_weight" else splits) for name in _UNREAD}
    fields["num_leaves"] = [len(value)]
    fields |= _categories(tree, fields["threshold"], fields["decision_type"])
    return _block({**tree.fields, **{name: " ".join(map(str, tokens)) for name, tokens in fields.items()}})


def _categories(tree: _Tree, threshold: list[Any], decision: list[Any]) -> dict[str, list[Any]]:
    """Lines of the sets of categories that are left; `threshold`, which numbers them, is changed in place."""
    if tree.fields.get("num_cat", "0").strip() == "0":
        return {}
    words = tree.fields["cat_threshold"].split()
    bounds = [int(bound) for bound in tree.fields["cat_boundaries"].split()]
    boundaries, kept = [0], []
    for i, kind in enumerate(decision):
        if int(kind) & CATEGORICAL:
            own = int(float(threshold[i]))
            kept += words[bounds[own] : bounds[own + 1]]
            threshold[i] = len(boundaries) - 1
            boundaries.append(len(kept))
    if not kept:
        return {"num_cat": [0], "cat_boundaries": [], "cat_threshold": []}
    return {"num_cat": [len(boundaries) - 1], "cat_boundaries": boundaries, "cat_threshold": kept}


def short_number(value: float, within: float) -> float:
    """The nearest number with few decimals that LightGBM, too, writes with few digits.

    `value` itself if there is none within reach.  Order is kept: of two values the smaller one does not
    become the larger one, so that a monotone model stays one.
    """
    digits = -int(np.floor(np.log10(within / 20))) if within > 0 else _SHORT
    if digits >= _SHORT or not np.isfinite(value):
        return value
    scaled = value * 10.0**digits
    nearest = round(scaled)
    side = 1 if scaled >= nearest else -1
    for i in range(2 * int(within * 10.0**digits) + 1):
        step = side * ((i + 1) // 2) * (1 if i % 2 else -1)
        number = float(f"{nearest + step}e{-digits}")
        if abs(number - value) <= within and len(f"{number:.17g}") <= _SHORT:
            return number
    return value


def _block(fields: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in fields.items() if value or name in _MAY_BE_EMPTY)


_MAY_BE_EMPTY = frozenset({"split_feature", "threshold", "left_child", "right_child"})


def with_blocks(text: str, blocks: Sequence[str]) -> str:
    """A model text with other trees."""
    before, _, after = text.partition("\ntree_sizes=")
    trees = [f"Tree={i}\n{block}\n\n" for i, block in enumerate(blocks)]
    sizes = " ".join(str(len(tree.encode())) for tree in trees)
    return f"{before}\ntree_sizes={sizes}\n\n{''.join(trees)}end of trees{after.partition('end of trees')[2]}"
