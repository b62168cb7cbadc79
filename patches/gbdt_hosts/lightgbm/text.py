"""Read and write LightGBM's model text (format v4).

The text is a header, one block per tree, and a block of parameters.  A tree's
internal nodes and leaves are numbered apart; a child is an internal node if
not negative, and leaf ``~child`` otherwise.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

CATEGORICAL = 1
DEFAULT_LEFT = 2
MISSING_IS_NAN = 8
"""Bits of a node's decision type.  Missing type "none", never used here, would send NaN the way of zero."""

OURS = "dp_"
"""Prefix of the names of our own parameters.

LightGBM keeps lines it does not know, and warns of them unless their value is empty. Text after a second
colon is not part of the value, so that ours are written ``[name: ]: value``.
"""
GUARANTEE = f"{OURS}guarantee"
"""Parameter that carries the privacy guarantee as JSON."""
COLUMNS = f"{OURS}columns"
"""Parameter that says, as JSON, how the columns of a table become features."""


@dataclass(frozen=True)
class Tree:
    """One regression tree; its arrays have a number for each of its n_leaves - 1 splits, or for each leaf."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]  # ``x <= threshold`` goes left; unused at categorical splits
    left_categories: tuple[NDArray[np.int64] | None, ...]  # those that go left; None at numeric splits
    missing_left: NDArray[np.bool_]  # where NaN goes (at categorical splits always right)
    left_child: NDArray[np.int32]
    right_child: NDArray[np.int32]
    leaf_value: NDArray[np.float64]
    leaf_count: NDArray[np.int64]
    internal_value: NDArray[np.float64]
    internal_count: NDArray[np.int64]
    gain: NDArray[np.float64]
    shrinkage: float  # learning rate, already applied to the values


@dataclass(frozen=True)
class Header:
    """Header of a model file, before its trees."""

    objective: str  # as in the file: ``"binary sigmoid:2"``, ``"multiclass num_class:3"``
    n_trees_per_iteration: int
    feature_names: Sequence[str]
    feature_infos: Sequence[str]  # public range ``[low:high]`` or categories ``0:1:2`` of each
    pandas_categorical: list[list[Any]] | None = None  # of each category column, in column order
    columns: Mapping[str, Any] = field(default_factory=dict)  # how a table's become features


def _numbers(values: Any) -> str:
    """Shortest text that reads back as the same numbers."""
    return " ".join(map(repr, np.asarray(values).tolist()))


def _short_numbers(values: Any) -> str:
    """Six digits, as LightGBM prints what no prediction needs: it then saves the same text that it loads.

    It does not read subnormal numbers as what they are.
    """
    numbers = np.asarray(values)
    numbers = np.where(np.abs(numbers) < np.finfo(np.float64).tiny, 0, numbers)
    return " ".join(f"{value:.6g}" for value in numbers.tolist())


def tree_block(tree: Tree) -> str:
    """Text of one tree, without its ``Tree=`` line."""
    single = np.finfo(np.float32)
    gain = tree.gain.clip(single.min, single.max).astype(np.float32)  # as LightGBM keeps it
    threshold = tree.threshold.astype(np.float64).copy()
    decision_type = np.full(len(tree.feature), MISSING_IS_NAN)
    decision_type[tree.missing_left] |= DEFAULT_LEFT
    boundaries, bitsets = [0], []
    for node, categories in enumerate(tree.left_categories):
        if categories is None:
            continue
        decision_type[node] = CATEGORICAL | MISSING_IS_NAN
        threshold[node] = len(boundaries) - 1
        words = np.zeros(int(categories.max(initial=0)) // 32 + 1, dtype=np.uint32)
        np.bitwise_or.at(words, categories // 32, np.uint32(1) << (categories % 32).astype(np.uint32))
        bitsets += words.tolist()
        boundaries.append(len(bitsets))
    leaf_count, internal_count = _numbers(tree.leaf_count), _numbers(tree.internal_count)
    lines = {
        "num_leaves": str(len(tree.leaf_value)),
        "num_cat": str(len(boundaries) - 1),
        "split_feature": _numbers(tree.feature),
        "split_gain": _short_numbers(gain),
        "threshold": _numbers(threshold),
        "decision_type": _numbers(decision_type),
        "left_child": _numbers(tree.left_child),
        "right_child": _numbers(tree.right_child),
    }
    if bitsets:
        lines |= {"cat_boundaries": _numbers(boundaries), "cat_threshold": _numbers(bitsets)}
    lines |= {
        "leaf_value": _numbers(tree.leaf_value),
        "leaf_weight": leaf_count,
        "leaf_count": leaf_count,
        "internal_value": _short_numbers(tree.internal_value),
        "internal_weight": _short_numbers(tree.internal_count),
        "internal_count": internal_count,
        "is_linear": "0",
        "shrinkage": _short_numbers([float(tree.shrinkage)]),
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def model_text(header: Header, blocks: Sequence[str], parameters: Mapping[str, str]) -> str:
    """Text of a whole model: trees as `tree_block` writes them, iteration by iteration, then parameters."""
    trees = [f"Tree={i}\n{block}\n\n" for i, block in enumerate(blocks)]
    sizes = " ".join(str(len(tree.encode())) for tree in trees)
    top = (
        "tree\nversion=v4\n"
        f"num_class={header.n_trees_per_iteration}\n"
        f"num_tree_per_iteration={header.n_trees_per_iteration}\n"
        "label_index=0\n"
        f"max_feature_idx={len(header.feature_names) - 1}\n"
        f"objective={header.objective}\n"
        f"feature_names={' '.join(header.feature_names)}\n"
        f"feature_infos={' '.join(header.feature_infos)}\n"
        f"tree_sizes={sizes}\n\n"
    )
    if header.columns:
        parameters = {**parameters, COLUMNS: json.dumps(header.columns)}
    lines = "".join(_parameter_line(key, value) for key, value in parameters.items())
    categories = json.dumps(header.pandas_categorical, default=_plain_number)
    return (
        f"{top}{''.join(trees)}end of trees\n\nfeature_importances:\n\n"
        f"parameters:\n{lines}\nend of parameters\n\npandas_categorical:{categories}\n"
    )


def _parameter_line(key: str, value: str) -> str:
    return f"[{key}: ]: {value}\n" if key.startswith(OURS) else f"[{key}: {value}]\n"


def _plain_number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def text_lines(text: str) -> list[str]:
    """Lines as LightGBM splits them, after LF, CR LF and CR.

    `str.splitlines` knows more separators: of a line that holds one, we would read what LightGBM does not.
    """
    return _with_newlines(text).split("\n")


def _with_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def without_tree_sizes(text: str) -> str:
    """A model text that LightGBM reads tree by tree, as we do.

    With the sizes, it jumps to where the trees would be, and one that is elsewhere ends the process.
    """
    top, mark, trees = _with_newlines(text).partition("\nTree=")
    lines = [line for line in top.split("\n") if not line.startswith("tree_sizes")]
    return "\n".join(lines) + mark + trees


def tree_blocks(text: str) -> list[str]:
    """The trees of a model text, as `tree_block` would write them."""
    body = _with_newlines(text).split("\nend of trees", 1)[0]
    return [part.partition("\n")[2].strip("\n") + "\n" for part in body.split("\nTree=")[1:]]


def block_fields(block: str) -> dict[str, str]:
    """The lines of a tree by name."""
    return dict(line.partition("=")[::2] for line in text_lines(block) if line)


@dataclass(frozen=True)
class TreeFields:
    """Structure and leaf values of a tree that was read from a model text; a negative child is a leaf."""

    feature: NDArray[np.int64]
    left_child: NDArray[np.int64]
    right_child: NDArray[np.int64]
    is_categorical: NDArray[np.bool_]
    leaf_value: NDArray[np.float64]


def tree_fields(block: str) -> TreeFields:
    """Read a tree's structure and leaf values."""
    fields = block_fields(block)
    feature, left, right, decision = (
        np.array(fields.get(name, "").split(), dtype=np.int64)
        for name in ("split_feature", "left_child", "right_child", "decision_type")
    )
    leaf_value = np.array(fields.get("leaf_value", "").split(), dtype=np.float64)
    return TreeFields(feature, left, right, (decision & CATEGORICAL) > 0, leaf_value)


def header_lines(text: str) -> dict[str, str]:
    """Entries above the trees of a model text, by name."""
    top = _with_newlines(text).split("\nTree=", 1)[0].split("\nend of trees", 1)[0]
    return {name: value.strip() for name, _, value in (line.partition("=") for line in text_lines(top))}


def settings_in(text: str) -> dict[str, str]:
    """The parameters in a model text, without our own lines."""
    return {key: value for key, value in parameter_lines(text).items() if not key.startswith(OURS)}


def parameter_lines(text: str) -> dict[str, str]:
    """The parameter block of a model text."""
    _, _, after = _with_newlines(text).partition("\nparameters:")
    # At the beginning of a line: a category may be called so.
    block = after.partition("\nend of parameters")[0]
    pairs = (line[1:].partition(": ") for line in text_lines(block) if line.startswith("["))
    return {key: value[3:] if value.startswith("]: ") else value[:-1] for key, _, value in pairs}


def guarantee_line(guarantee: Mapping[str, Any]) -> dict[str, str]:
    """The guarantee as a line of the parameter block."""
    return {GUARANTEE: json.dumps(guarantee)}


def guarantee_in(text: str) -> dict[str, Any] | None:
    """The guarantee in a model text, None without one; `ValueError` if it is not JSON."""
    line = parameter_lines(text).get(GUARANTEE)
    return None if line is None else _object_in(line)


def columns_in(text: str) -> dict[str, Any]:
    """How a table's columns become features; empty if the text does not say, `ValueError` unless JSON."""
    return _object_in(parameter_lines(text).get(COLUMNS, "{}"))


def _object_in(line: str) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except RecursionError:
        raise ValueError("JSON with too many brackets") from None


def with_guarantee(text: str, guarantee: Mapping[str, Any]) -> str:
    """A model text with another guarantee, for the header and the trees it has."""
    before, _, after = text.partition(f"[{GUARANTEE}: ")
    if not after:
        raise ValueError("the model text holds no guarantee to replace")
    digests = {"header": header_digest(text), "trees": [tree_digest(block) for block in tree_blocks(text)]}
    line = _parameter_line(GUARANTEE, guarantee_line({**guarantee, **digests})[GUARANTEE])
    return before + line + after.partition("\n")[2]


_HEADER = (
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "objective",
    "average_output",
    "feature_names",
    "monotone_constraints",
    "feature_infos",
)
"""Lines of the header that stay as they are when LightGBM loads, truncates and saves a model."""


def header_digest(text: str) -> str:
    """Digest of what a model text says beside its trees, for the same purpose as `tree_digest`.

    It covers the objective, the features with their ranges, and how columns become features; not the sizes of
    the trees, which change when a model is truncated, or the format's version.
    """
    fields = header_lines(text)
    known = {name: fields[name] for name in _HEADER if name in fields}
    covered = json.dumps([known, columns_in(text)], sort_keys=True)
    return hashlib.sha256(covered.encode()).hexdigest()[:32]


_FLOATS = (
    "threshold",
    "leaf_value",
    "leaf_weight",
    "split_gain",
    "internal_value",
    "internal_weight",
    "shrinkage",
)
_INTEGERS = (
    "split_feature",
    "decision_type",
    "left_child",
    "right_child",
    "cat_boundaries",
    "cat_threshold",
    "leaf_count",
    "internal_count",
    "is_linear",
)


_MAX_LINES = 22
_FIELD = re.compile(r"[a-z_]+=(?=[-+.0-9A-Za-z ]*\Z)")
"""A name, and numbers as both read them: float() knows more digits, and underscores among them."""


def tree_digest(block: str) -> str:
    """Digest of everything in a tree.

    Numbers are compared as numbers: LightGBM prints them anew when it saves. It tells an accident or a
    careless edit, not a forgery. `ValueError` if LightGBM might read the block otherwise than `block_fields`:
    it stops at an empty line and after `_MAX_LINES`, and takes a line without "=" for the beginning of the
    next one's name.
    """
    lines = text_lines(block.strip("\n"))
    names = [_FIELD.match(line) for line in lines]
    if len(lines) > _MAX_LINES or None in names or len({name[0] for name in names if name}) < len(lines):
        raise ValueError("a tree has lines that LightGBM does not write")
    fields = block_fields(block)
    hasher = hashlib.sha256()
    for name in _FLOATS:
        values = [float(v) for v in fields.get(name, "").split()]
        hasher.update(name.encode() + struct.pack(f"<{len(values)}d", *values))
    for name in _INTEGERS:
        hasher.update(f"{name}={fields.get(name, '').strip()}".encode())
    return hasher.hexdigest()[:32]
