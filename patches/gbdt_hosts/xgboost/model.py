"""XGBoost's JSON model format, written from arrays: versions 2.0 to 3.x read it.

(Format: "Introduction to Model IO" in XGBoost's documentation, and what the installed versions write.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from gbdt_hosts.xgboost.margins import objective_config


@dataclass(frozen=True)
class ScalarTree:
    """One tree; node 0 is the root, children −1 mark leaves."""

    left: Sequence[int]
    right: Sequence[int]
    parent: Sequence[int]
    feature: Sequence[int]  # of splits; 0 at leaves
    condition: Sequence[float]  # threshold of a split (``x < threshold`` goes left), value of a leaf
    default_left: Sequence[bool]
    weight: Sequence[float]
    loss_change: Sequence[float]
    sum_hessian: Sequence[float]
    group: int = 0  # class that the tree belongs to
    categories: Mapping[int, Sequence[int]] = field(default_factory=dict)  # by node, those that go right


def as_json(booster: xgboost.Booster) -> bytes:
    """A booster in XGBoost's JSON format."""
    return bytes(booster.save_raw("json"))


MAX_NESTING = 32
"""Lists and tables within each other in a model's text; XGBoost's own models have 8 at most."""


def booster_from_json(text: str) -> xgboost.Booster:
    """The booster that a text of XGBoost's JSON format is of, which somebody else may have written.

    XGBoost's parser calls itself for every bracket, and ends the process where its stack ends. How many
    brackets Python's own parser accepts depends on its version and on the process's recursion limit.
    `ValueError` if it is no JSON, nested more than `MAX_NESTING` deep, or no model; `RecursionError` if
    Python's parser has refused it for its brackets.
    """
    model = json.loads(text)
    level: list[Any] = [[model]]
    for _ in range(MAX_NESTING + 1):
        holders = (one.values() if isinstance(one, dict) else one for one in level)
        level = [inner for one in holders for inner in one if isinstance(inner, (dict, list))]
    if level:
        raise ValueError(f"a model is nested more than {MAX_NESTING} deep")
    _check_lists(model)
    booster = xgboost.Booster()
    booster.load_model(bytearray(text.encode()))
    return booster


_OF_NODES = (
    "left_children",
    "right_children",
    "parents",
    "split_indices",
    "split_conditions",
    "default_left",
)


def _check_lists(model: Any) -> None:
    """`ValueError` unless each tree's lists are as long as it says: XGBoost reads behind their ends."""
    try:
        grown = model["learner"]["gradient_booster"]
        trees = grown.get("gbtree", grown)["model"]["trees"]
    except (LookupError, TypeError, AttributeError):
        return  # no trees: XGBoost's own errors say so
    try:
        for tree in trees:
            n, n_values = (int(tree["tree_param"][name]) for name in ("num_nodes", "size_leaf_vector"))
            is_whole = all(len(tree[name]) == n for name in _OF_NODES)
            if not is_whole or len(tree["base_weights"]) != n * max(n_values, 1):
                raise ValueError("a tree's lists are not as long as it says")
            if any(not -1 <= child < n for name in _OF_NODES[:2] for child in tree[name]):
                raise ValueError("a tree's children are not among its nodes")
    except (LookupError, TypeError):
        raise ValueError("a tree lacks a list") from None


_TREES = "trees, each written by itself"


def booster_from_trees(
    trees: Iterable[ScalarTree],
    *,
    objective: str | Mapping[str, Any],
    n_classes: int,
    n_features: int,
    base_score: Sequence[float],
    rounds: Sequence[int],
    feature_names: Sequence[str] | None = None,
    num_parallel_tree: int = 1,
    categorical: Sequence[int] = (),
    is_estimated: bool = True,
) -> xgboost.Booster:
    """A native booster of trees, round by round, in a round class by class; they are written one by one.

    The objective is a name, or XGBoost's parameters with its own ones. `n_classes` are those of softprob,
    else 1, and `base_score` is one number for all classes or one per class, as XGBoost's parameter. `rounds`
    says where each round's trees start, and where the last one's end. A round has `num_parallel_tree` trees
    for each class; the values of the features `categorical` are categories.  XGBoost notes in a model whether
    it has estimated the base score.
    """
    texts, groups = [], []
    for number, tree in enumerate(trees):
        texts.append(json.dumps(_tree(number, tree, n_features)))
        groups.append(tree.group)
    types = ["c" if k in set(categorical) else "float" for k in range(n_features)]
    model = {
        "learner": {
            "attributes": {},
            "feature_names": list(feature_names or []),
            "feature_types": types if feature_names or len(categorical) else [],
            "gradient_booster": {
                "model": {
                    "gbtree_model_param": {
                        "num_parallel_tree": str(num_parallel_tree),
                        "num_trees": str(len(texts)),
                    },
                    "iteration_indptr": list(rounds),
                    "tree_info": groups,
                    "trees": _TREES,
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": _base_score(base_score),
                "boost_from_average": str(int(is_estimated)),
                "num_class": str(n_classes if n_classes > 1 else 0),
                "num_feature": str(n_features),
                "num_target": "1",
            },
            "objective": _objective(objective, n_classes),
        },
        "version": [2, 0, 0],
    }
    booster = xgboost.Booster()
    # Without escapes of other alphabets, which XGBoost does not read.  A name may be the placeholder's text,
    # and stands before it.
    before, _, after = json.dumps(model, ensure_ascii=False).rpartition(json.dumps(_TREES))
    booster.load_model(bytearray(f"{before}[{', '.join(texts)}]{after}".encode()))
    return booster


def _base_score(values: Sequence[float]) -> str:
    # The shortest text: 2.0 reads one of more than nine digits as its default, without a word.
    texts = [np.format_float_scientific(np.float32(value)) for value in values]
    return texts[0] if len(set(texts)) == 1 else "[" + ",".join(texts) + "]"


def _objective(given: str | Mapping[str, Any], n_classes: int) -> dict[str, Any]:
    params = {"objective": given} if isinstance(given, str) else dict(given)
    return objective_config(params | ({"num_class": n_classes} if n_classes > 1 else {}))


def _tree(number: int, tree: ScalarTree, n_features: int) -> dict[str, Any]:
    n_nodes = len(tree.left)
    by_category = sorted(tree.categories)
    sizes = [len(tree.categories[node]) for node in by_category]
    return {
        "base_weights": _floats(tree.weight),
        "categories": [int(code) for node in by_category for code in tree.categories[node]],
        "categories_nodes": by_category,
        "categories_segments": [sum(sizes[:k]) for k in range(len(sizes))],
        "categories_sizes": sizes,
        "default_left": [int(flag) for flag in tree.default_left],
        "id": number,
        "left_children": [int(k) for k in tree.left],
        "loss_changes": _floats(tree.loss_change),
        "parents": [int(k) for k in tree.parent],
        "right_children": [int(k) for k in tree.right],
        "split_conditions": _floats(tree.condition),
        "split_indices": [int(k) for k in tree.feature],
        "split_type": [int(node in tree.categories) for node in range(n_nodes)],
        "sum_hessian": _floats(tree.sum_hessian),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(n_nodes),
            "size_leaf_vector": "1",
        },
    }


def _floats(values: Sequence[float]) -> list[float]:
    """The float32 values, in digits that read back to the same."""
    as_float32: NDArray[np.float32] = np.asarray(values, dtype=np.float32)
    return [float(value) for value in as_float32]


@dataclass(frozen=True)
class ModelContent:
    """Content of a native booster of trees."""

    trees: list[dict[str, Any]]  # as XGBoost's JSON has them
    groups: list[int]  # class that each tree belongs to
    rounds: list[int]  # where each round's trees start, and where the last one's end
    objective: str
    n_classes: int  # margins per row
    n_features: int
    feature_names: list[str]  # empty without any
    base_score: list[float]  # one for all classes or one per class


def model_content(booster: xgboost.Booster) -> ModelContent:
    """Read a native booster; `ValueError` if it is not ``gbtree``."""
    learner = json.loads(as_json(booster))["learner"]
    grown, params = learner["gradient_booster"], learner["learner_model_param"]
    if grown["name"] != "gbtree":
        raise ValueError(f"a booster of kind {grown['name']}, not gbtree")
    model, base_score = grown["model"], params["base_score"]
    return ModelContent(
        model["trees"],
        model["tree_info"],
        model["iteration_indptr"],
        learner["objective"]["name"],
        max(1, int(params["num_class"])),
        int(params["num_feature"]),
        list(booster.feature_names or []),
        [float(score) for score in base_score.strip("[]").split(",")],
    )
