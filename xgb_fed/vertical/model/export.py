"""A native booster from a vertical model and the splits that all parties reveal."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import xgboost
from numpy.typing import NDArray

from gbdt_commons.tables.frames import check_names
from gbdt_hosts.xgboost.model import ScalarTree, booster_from_trees
from gbdt_parties.agreed import read_json
from gbdt_parties.errors import ProtocolError
from xgb_fed.boosting.features import MAX_BINS
from xgb_fed.vertical.protocol.messages import RevealedCategories, RevealedSplits
from xgb_fed.vertical.protocol.splits import Splits, can_split
from xgb_fed.vertical.trees.tree import LEAF, FederatedTree


class ModelToExport(Protocol):
    """A vertical model, as far as its native form goes; see `VerticalModel`."""

    trees: list[FederatedTree]
    rounds: list[int]
    base_score: list[float]
    objective: Any
    best_iteration: int | None
    best_score: float | None

    @property
    def n_classes(self) -> int:
        """Margins of a row."""

    def group_of(self, tree: int) -> int | None:
        """Class of a tree; None if its leaves have a value for every class."""


def revealed_splits(answer: RevealedSplits, name: str, n_features: int) -> Splits:
    """A passive party's splits; `ProtocolError` if they cannot be those of a party with so many columns."""
    try:
        names = read_json(answer.names)
        fine = isinstance(names, list) and len(names) == n_features
        check_names(names if fine else [], ValueError, "names")
    except ValueError:
        fine = False
    splits = (answer.features, answer.thresholds, answer.default_left)
    fine = fine and len({len(part) for part in splits}) == 1
    fine = fine and bool(((answer.features >= 0) & (answer.features < n_features)).all())
    if not (fine and all(map(can_split, answer.thresholds, answer.default_left))):
        raise ProtocolError(f"party {name!r} sent malformed splits")
    splits_of_party = Splits(
        names, answer.features.tolist(), answer.thresholds.tolist(), answer.default_left.astype(bool).tolist()
    )
    if isinstance(answer, RevealedCategories):
        splits_of_party.categories = dict.fromkeys(answer.categorical.tolist())
        splits_of_party.right = _revealed_categories(answer, name, n_features)
    return splits_of_party


def _revealed_categories(
    answer: RevealedCategories, name: str, n_features: int
) -> dict[int, tuple[int, ...]]:
    """By split, the categories that go right, checked."""
    columns, n_right, right = answer.categorical, answer.n_right, answer.right
    by_category = np.isin(answer.features, columns)
    fine = len(n_right) == len(answer.features) and bool((np.diff(columns) > 0).all())
    fine = fine and bool(((columns >= 0) & (columns < n_features)).all())
    fine = fine and bool(((n_right > 0) == by_category).all()) and int(n_right.sum()) == len(right)
    fine = fine and bool(((n_right >= 0) & (n_right <= MAX_BINS)).all())
    sets = np.split(right, np.cumsum(n_right.astype(np.int64))) if fine else []
    fine = fine and all((np.diff(one) > 0).all() for one in sets)
    if not (fine and bool(((right >= 0) & (right < MAX_BINS)).all())):
        raise ProtocolError(f"party {name!r} sent malformed splits")
    return {int(split): tuple(sets[split].tolist()) for split in np.flatnonzero(by_category)}


def pooled_booster(model: ModelToExport, all_splits: list[Splits], names: list[str]) -> xgboost.Booster:
    """A native booster of all parties' splits; columns and names are in the order of the parties."""
    first = np.cumsum([0, *(len(splits.names) for splits in all_splits)])
    scalar, rounds = [], [0]
    for begin, end in zip(model.rounds[:-1], model.rounds[1:], strict=True):
        for t in range(begin, end):
            group = model.group_of(t)
            classes = range(model.n_classes) if group is None else [group]
            scalar += [
                _scalar_tree(model.trees[t], all_splits, first, k if group is None else 0, k) for k in classes
            ]
        rounds.append(len(scalar))
    booster = booster_from_trees(
        scalar,
        objective=model.objective.of_xgboost,
        n_classes=model.n_classes,
        n_features=int(first[-1]),
        base_score=model.base_score,
        rounds=rounds,
        feature_names=None if all(splits.is_unnamed for splits in all_splits) else names,
        num_parallel_tree=max(1, rounds[min(1, len(rounds) - 1)] // model.n_classes),
        categorical=[
            int(begin) + k for begin, own in zip(first[:-1], all_splits, strict=True) for k in own.categories
        ],
    )
    if model.best_iteration is not None:
        booster.set_attr(best_iteration=model.best_iteration, best_score=model.best_score)
    return booster


def _scalar_tree(
    tree: FederatedTree, all_splits: list[Splits], first: NDArray[np.int64], output: int, group: int
) -> ScalarTree:
    """One class of a tree, in XGBoost's terms."""
    feature, condition, default_left = [], [], []
    right: dict[int, tuple[int, ...]] = {}
    for node, owner in enumerate(tree.owner):
        if owner == LEAF:
            feature.append(0)
            condition.append(tree.value[node][output])
            default_left.append(False)
        else:
            splits, split = all_splits[owner], tree.split_id[node]
            feature.append(int(first[owner]) + splits.features[split])
            condition.append(splits.thresholds[split])
            default_left.append(splits.default_left[split])
            if split in splits.right:
                right[node] = splits.right[split]
    return ScalarTree(
        tree.left,
        tree.right,
        tree.parent,
        feature,
        condition,
        default_left,
        [weight[output] for weight in tree.weight],
        tree.loss_change,
        tree.sum_hessian,
        group,
        right,
    )
