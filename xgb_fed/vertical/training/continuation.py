"""The model that a training run continues: its trees come first, and their margins are where the run begins.

The passive parties' splits of that model stay with them: each is asked to put those that the trees use before
the run's own.  The model itself is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xgboost

from gbdt_hosts.xgboost.model import model_content
from gbdt_parties import messages
from gbdt_parties.channel import Channel
from xgb_fed.boosting.features import Columns
from xgb_fed.boosting.objectives import XGBoostObjective
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
from xgb_fed.vertical.model.model import VerticalModel
from xgb_fed.vertical.protocol.messages import ContinueTraining
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.trees.tree import LEAF, FederatedTree


@dataclass(frozen=True)
class EarlierModel:
    """A model that is continued, as it was given, and its trees by the parties' numbers in the new run."""

    model: VerticalModel
    trees: list[FederatedTree]

    @classmethod
    def read(
        cls, given: Any, objective: XGBoostObjective, columns: Columns | None, parties: Sequence[str]
    ) -> EarlierModel:
        """Check the model that was given: a `VerticalModel`, a booster, or an estimator that holds one.

        The objective, the active party's columns and the passive parties are those of the new run.  Raises
        `ArgumentTypeError`, `InvalidArgumentError` or `UnsupportedParameterError` if it cannot continue the
        model.
        """
        own_names = [] if columns is None else columns.names
        if hasattr(given, "model_"):
            given = given.model_
        elif hasattr(given, "get_booster"):
            given = given.get_booster()
        if isinstance(given, xgboost.Booster):
            given = _of_booster(given, objective, own_names)
        if not isinstance(given, VerticalModel):
            raise ArgumentTypeError(
                "xgb_model must be a VerticalModel, a fitted estimator or an xgboost.Booster, not "
                f"{type(given).__name__}"
            )
        if (given.objective.name, given.n_classes) != (objective.name, objective.n_classes):
            raise InvalidArgumentError(
                f"xgb_model was trained for {given.objective.name} with {given.n_classes} outputs, not for "
                f"{objective.name} with {objective.n_classes}"
            )
        if given.splits.names != list(own_names):
            raise InvalidArgumentError(
                f"xgb_model has the columns {given.splits.names} of the active party, not {list(own_names)}"
            )
        if given.splits.categories != ({} if columns is None else columns.categories):
            raise InvalidArgumentError("xgb_model has other categories of the active party's columns")
        missing = [name for name in given.parties if name not in parties]
        if missing:
            raise InvalidArgumentError(f"parties lacks {missing}, that xgb_model was trained with")
        numbers = {LEAF: LEAF, 0: 0}
        numbers |= {k: list(parties).index(name) + 1 for k, name in enumerate(given.parties, start=1)}
        trees = [replace(tree, owner=[numbers[owner] for owner in tree.owner]) for tree in given.trees]
        return cls(given, trees)

    def continued(self, settings: Settings) -> Settings:
        """The settings of a run that continues the model: its forests are as large as the model's.

        XGBoost takes the trees of a forest from a model that has any, whatever `num_parallel_tree` says.
        Raises `InvalidArgumentError` if `num_parallel_tree` is neither that of the model nor the default.
        """
        if not self.trees:
            return settings
        trees_of_forest = self.model.n_classes // len(self.trees[0].value[0])
        size = (self.model.rounds[1] - self.model.rounds[0]) // trees_of_forest
        if settings.num_parallel_tree not in (1, size):
            raise InvalidArgumentError(
                f"num_parallel_tree={settings.num_parallel_tree}: that of xgb_model is {size}, which XGBoost "
                "keeps; accepted is the same number, or none"
            )
        return replace(settings, num_parallel_tree=size)

    @property
    def splits(self) -> Splits:
        """The active party's splits, to which those of the run are added."""
        return self.model.splits.first(len(self.model.splits))

    def n_splits(self, owner: int) -> int:
        """How many of a party's splits come before those of the run."""
        if owner == 0:
            return len(self.model.splits)
        used = [
            split
            for tree in self.trees
            for who, split in zip(tree.owner, tree.split_id, strict=True)
            if who == owner
        ]
        return max(used, default=-1) + 1

    def tell(self, channels: Mapping[int, Channel]) -> None:
        """Ask passive parties to put their splits of the model first."""
        for owner, channel in channels.items():
            count = self.n_splits(owner)
            if count:
                channel.ask(ContinueTraining(self.model.model_id, count), messages.Done)

    def put_before(self, model: VerticalModel) -> None:
        """Make the trees the first ones of a model."""
        model.trees[:0] = self.trees
        model.rounds[:] = self.model.rounds + [len(self.trees) + end for end in model.rounds[1:]]


def _of_booster(
    booster: xgboost.Booster, objective: XGBoostObjective, own_names: Sequence[str]
) -> VerticalModel:
    """A native booster whose columns are all the active party's."""
    content = model_content(booster)
    names = content.feature_names or list(own_names)
    if content.n_features != len(own_names) or names != list(own_names):
        raise UnsupportedParameterError(
            f"xgb_model has {content.n_features} columns {content.feature_names or ''}; a booster is "
            f"continued if its columns are the active party's, {list(own_names)}.  A federated model is "
            "continued as it is, not exported"
        )
    if content.objective != objective.name:
        raise InvalidArgumentError(f"xgb_model was trained for {content.objective}, not {objective.name}")
    splits = Splits(list(own_names))
    trees = [_of_native(tree, splits) for tree in content.trees]
    return VerticalModel(
        b"", objective, content.base_score, splits, [], [], trees=trees, rounds=list(content.rounds)
    )


def _of_native(native: Mapping[str, Any], splits: Splits) -> FederatedTree:
    """One tree of a native booster; its splits are added to the active party's."""
    if any(native["split_type"]) or int(native["tree_param"]["size_leaf_vector"]) > 1:
        raise UnsupportedParameterError("xgb_model has categorical splits or vector leaves")
    tree = FederatedTree(
        left=list(native["left_children"]),
        right=list(native["right_children"]),
        parent=list(native["parents"]),
        weight=[[float(weight)] for weight in native["base_weights"]],
        loss_change=[float(change) for change in native["loss_changes"]],
        sum_hessian=[float(h) for h in native["sum_hessian"]],
    )
    for node, left in enumerate(tree.left):
        is_leaf, condition = left == LEAF, float(np.float32(native["split_conditions"][node]))
        tree.owner.append(LEAF if is_leaf else 0)
        tree.value.append([condition if is_leaf else 0.0])
        rule = int(native["split_indices"][node]), condition, bool(native["default_left"][node])
        tree.split_id.append(LEAF if is_leaf else splits.add(*rule))
    return tree
