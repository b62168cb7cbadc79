"""A vertically trained model as the active party has it: everything but the passive parties' splits."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from gbdt_parties import messages
from gbdt_parties._files import make_folder
from gbdt_parties._sealed import read_sealed, write_sealed
from gbdt_parties.channel import Channel, Party, check_parties
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.traffic import Traffic
from xgb_fed.boosting.features import Columns, read_columns
from xgb_fed.boosting.objectives import Objective
from xgb_fed.errors import CorruptDataError, InvalidArgumentError
from xgb_fed.vertical.export import pooled_booster, revealed_splits
from xgb_fed.vertical.messages import ModelOpened, OpenModel, RevealedSplits, RevealSplits
from xgb_fed.vertical.routing import MAX_ROWS, Router, ascending, route, row_positions
from xgb_fed.vertical.row_names import RowNames, check_rows
from xgb_fed.vertical.splits import Splits
from xgb_fed.vertical.tree import LEAF, FederatedTree, add_leaves
from xgb_fed.vertical.tree_record import Restart

FORMAT = 1
MODEL_FILE = "active.model.json"


@dataclass
class VerticalModel:
    """The active party's part of the model that `xgb_fed.train` returns.

    It has every tree, but of the other parties' splits only their numbers: predictions need the parties.

    Attributes
    ----------
    model_id : bytes
        16 bytes under which passive parties keep their splits.
    objective : Objective
    base_score : list of float
        XGBoost's parameter, one for all classes or one per class.
    trees : list of FederatedTree
    rounds : list of int
        Where each boosting round's trees start, and where the last one's end.
    splits : Splits
        The active party's splits.
    parties : list of str
        Passive parties' names, in the order of the pooled columns.
    party_features : list of int
        How many columns each has.
    best_iteration, best_score : int, float or None
        Round, from 0, and metric that early stopping found best; None without early stopping.
    evals_result : dict
        Lists with one number per round, by evaluation set and metric.
    restarts : list of Restart
        Trees that were grown again after a party had been told its splits and was lost before it answered.
    traffic : Traffic
        What left each party.
    """

    model_id: bytes
    objective: Objective
    base_score: list[float]
    splits: Splits
    parties: list[str]
    party_features: list[int]
    trees: list[FederatedTree] = field(default_factory=list)
    rounds: list[int] = field(default_factory=lambda: [0])
    best_iteration: int | None = None
    best_score: float | None = None
    evals_result: dict[str, Any] = field(default_factory=dict)
    restarts: list[Restart] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def n_classes(self) -> int:
        """Margins of a row."""
        return self.objective.n_classes

    @property
    def base_margin(self) -> NDArray[np.float32]:
        """Margin of a row before the first tree, one per class."""
        margin = self.objective.to_margin(np.array(self.base_score, dtype=np.float32))
        return np.broadcast_to(margin, (self.n_classes,)).astype(np.float32)

    def num_boosted_rounds(self) -> int:
        """Rounds trained."""
        return len(self.rounds) - 1

    def group_of(self, tree: int) -> int | None:
        """Class of a tree; None if its leaves have a value for every class."""
        if len(self.trees[tree].value[0]) == self.n_classes > 1 or self.n_classes == 1:
            return None if self.n_classes > 1 else 0
        start = max(first for first in self.rounds if first <= tree)
        return tree - start

    def _chosen(self, iteration_range: tuple[int, int] | None) -> range:
        """Trees of some rounds; of all up to the best one by default."""
        rounds = self.num_boosted_rounds()
        if iteration_range is None:
            iteration_range = (0, rounds if self.best_iteration is None else self.best_iteration + 1)
        first, last = iteration_range
        last = last or rounds
        if not 0 <= first <= last <= rounds:
            raise InvalidArgumentError(f"iteration_range={iteration_range} must lie in 0 to {rounds}")
        return range(self.rounds[first], self.rounds[last])

    def margins(self, leaves: NDArray[np.int32], trees: range) -> NDArray[np.float32]:
        """Sum of leaf values in XGBoost's order and precision, shape (n_rows, n_classes)."""
        margin = np.tile(self.base_margin, (len(leaves), 1))
        for k, tree in enumerate(trees):
            add_leaves(margin, self.trees[tree].values()[leaves[:, k]], self.group_of(tree))
        return margin

    def predict(
        self,
        X: Any,
        parties: Any = (),
        *,
        output_margin: bool = False,
        pred_leaf: bool = False,
        iteration_range: tuple[int, int] | None = None,
        rows: Any = None,
        traffic: Traffic | None = None,
    ) -> NDArray[Any]:
        """Predict rows whose columns the parties hold, in the same order.

        Parameters
        ----------
        X : matrix of shape (n_rows, n_features), or None if the active party has no columns
        parties : sequence of Party
            Those of the training run, by name, with their columns of these rows.
        output_margin : bool
            Margins in place of probabilities.
        pred_leaf : bool
            Each tree's leaf number in place of predictions.
        iteration_range : (int, int), optional
            Rounds to use; up to the best one by default.
        rows : array-like of int, optional
            Positions of the rows in the parties' data, if those have more.
        traffic : Traffic, optional
            Counts the messages.

        Returns
        -------
        ndarray of float32, shape (n_rows,) or (n_rows, n_classes); or of int32, shape (n_rows, n_trees)

        Raises
        ------
        RowMismatchError
            If the index of X names other rows than a party's data frame or alignment, or another order.
        InvalidDataError
            If X has not the columns that were trained on, in the same order.
        """
        by_name = {party.name: party for party in check_parties(parties)}
        missing = [name for name in self.parties if name not in by_name]
        if missing:
            raise InvalidArgumentError(f"parties lacks {missing}; the model was trained with {self.parties}")
        columns = self.own_columns(X)
        used = [by_name[name] for name in self.parties]
        positions = row_positions(rows)
        check_rows(RowNames.of(X), used, "X", positions)
        trees = self._chosen(iteration_range)
        order, positions = ascending(positions, columns.n_rows if columns is not None else None)
        if len(order) and columns is not None:
            columns = columns.take(order)
        leaves = self._route(columns, used, trees, positions, traffic)
        leaves = leaves[np.argsort(order)] if len(order) else leaves
        if pred_leaf:
            return leaves
        margin = self.margins(leaves, trees)
        if output_margin:
            return margin if self.n_classes > 1 else margin[:, 0]
        return self.objective.to_prediction(margin)

    def own_columns(self, X: Any) -> Columns | None:
        """The active party's columns of some rows, checked.

        Parameters
        ----------
        X : matrix of shape (n_rows, n_features), or None if the active party has no columns

        Returns
        -------
        Columns or None

        Raises
        ------
        InvalidDataError
            Naming the columns that are missing, too many, or in another order.
        """
        if X is None and not self.splits.names:
            return None
        columns = read_columns(X)
        columns.check_names(self.splits.names, "X")
        return columns

    def _route(
        self,
        columns: Columns | None,
        parties: list[Party],
        trees: range,
        positions: NDArray[np.int32],
        traffic: Traffic | None,
    ) -> NDArray[np.int32]:
        session = os.urandom(16)
        traffic = traffic if traffic is not None else Traffic()
        used = {owner for t in trees for owner in self.trees[t].owner}
        n_rows = columns.n_rows if columns is not None else len(positions)
        channels = {}
        for k, party in enumerate(parties, start=1):
            if k in used or columns is None:
                channels[k] = Channel(party, session, traffic)
                opened = channels[k].ask(OpenModel(self.model_id, n_rows, positions), ModelOpened)
                if not 0 < opened.n_rows < MAX_ROWS:
                    raise ProtocolError(f"party {party.name!r} says it has {opened.n_rows} rows")
                if n_rows not in (0, opened.n_rows):
                    raise InvalidDataError(f"party {party.name!r} has {opened.n_rows} rows, others {n_rows}")
                n_rows = opened.n_rows
        router = Router(self.splits, columns, channels, dataset=0)
        leaves = route([self.trees[t] for t in trees], n_rows, router)
        for channel in channels.values():
            channel.ask(messages.Finish(), messages.Done)
        return leaves

    def export_booster(self, parties: Any) -> xgboost.Booster:
        """A native booster, if every party consents.

        Its columns are the active party's, then each passive party's in the order of `parties` at training.

        Raises
        ------
        ConsentError
            Naming the party that does not consent.
        """
        by_name = {party.name: party for party in check_parties(parties)}
        session, traffic = os.urandom(16), Traffic()
        all_splits, names = [self.splits], list(self.splits.names)
        for name in self.parties:
            if name not in by_name:
                raise InvalidArgumentError(
                    f"parties lacks {name!r}; the model was trained with {self.parties}"
                )
            channel = Channel(by_name[name], session, traffic)
            channel.ask(OpenModel(self.model_id, 0, row_positions(None)), ModelOpened)
            answer = channel.ask(RevealSplits(), RevealedSplits)
            channel.ask(messages.Finish(), messages.Done)
            splits = revealed_splits(answer, channel.name, self.party_features[len(all_splits) - 1])
            all_splits.append(splits)
            names += [f"{name}:{column}" if column in names else column for column in splits.names]
        for tree in self.trees:
            for owner, split in zip(tree.owner, tree.split_id, strict=True):
                if owner != LEAF and not 0 <= split < len(all_splits[owner]):
                    raise ProtocolError(f"party {self.parties[owner - 1]!r} did not reveal all its splits")
        return pooled_booster(self, all_splits, names)

    def importances(self, kind: str = "gain") -> dict[str, float]:
        """Importance of every split column, by XGBoost's definitions.

        Columns of passive parties are anonymous: each of their splits counts by its number, as
        ``"bank: split 3"``; after `export_booster`, ask the booster.

        Parameters
        ----------
        kind : {"gain", "weight", "cover", "total_gain", "total_cover"}
        """
        if kind not in ("gain", "weight", "cover", "total_gain", "total_cover"):
            raise InvalidArgumentError(
                f"importance_type={kind!r} must be gain, weight, cover, total_gain or total_cover"
            )
        times: dict[str, float] = {}
        total: dict[str, float] = {}
        for tree in self.trees:
            for node, owner in enumerate(tree.owner):
                if owner == LEAF:
                    continue
                split = tree.split_id[node]
                name = (
                    self.splits.names[self.splits.features[split]]
                    if owner == 0
                    else f"{self.parties[owner - 1]}: split {split}"
                )
                amount = tree.sum_hessian[node] if "cover" in kind else tree.loss_change[node]
                times[name] = times.get(name, 0.0) + 1
                total[name] = total.get(name, 0.0) + amount
        if kind == "weight":
            return times
        return total if kind.startswith("total") else {name: total[name] / times[name] for name in total}

    def to_json(self) -> str:
        """The active party's part as text.

        Equal training runs give equal texts, except for the model id and restarts.
        """
        return json.dumps(self._content())

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "model_id": self.model_id.hex(),
            "objective": self.objective.__dict__,
            "base_score": self.base_score,
            "splits": self.splits.__dict__,
            "parties": self.parties,
            "party_features": self.party_features,
            "trees": [tree.to_dict() for tree in self.trees],
            "rounds": self.rounds,
            "best_iteration": self.best_iteration,
            "best_score": self.best_score,
            "restarts": [asdict(restart) for restart in self.restarts],
        }

    def save(self, directory: str | Path) -> None:
        """Write this party's part; an existing file is replaced only when the new one is complete."""
        directory = Path(directory)
        make_folder(directory)
        write_sealed(directory / MODEL_FILE, self._content())

    def _check(self) -> None:
        """Raise ValueError unless trees are trees, and name parties and splits that exist."""
        splits, n_trees = self.splits, len(self.trees)
        if self.rounds != sorted(self.rounds) or self.rounds[0] != 0 or self.rounds[-1] != n_trees:
            raise ValueError("rounds")
        if not all(0 <= f < len(splits.names) for f in splits.features):
            raise ValueError("features")
        if len(self.parties) != len(self.party_features):
            raise ValueError("parties")
        for tree in self.trees:
            lengths = {len(values) for values in tree.to_dict().values()}
            if lengths != {len(tree)} or not len(tree):
                raise ValueError("nodes")
            for node, owner in enumerate(tree.owner):
                if owner == LEAF:
                    continue
                children = (tree.left[node], tree.right[node])
                # Children come after their parent: no walk down a tree goes in circles.
                if not all(node < child < len(tree) for child in children):
                    raise ValueError("children")
                if not 0 <= owner <= len(self.parties) or (owner == 0 and tree.split_id[node] >= len(splits)):
                    raise ValueError("splits")

    @classmethod
    def load(cls, directory: str | Path) -> VerticalModel:
        """Read what `save` wrote.

        Raises
        ------
        CorruptDataError
            If the file is not such a model, or was altered.
        """
        path = Path(directory) / MODEL_FILE
        try:
            content = read_sealed(path)
            if content.pop("format") != FORMAT:
                raise CorruptDataError(f"{path} is of another format version than {FORMAT}")
            content["model_id"] = bytes.fromhex(content["model_id"])
            content["objective"] = Objective(**content["objective"])
            content["splits"] = Splits(**content["splits"])
            content["trees"] = [FederatedTree(**tree) for tree in content["trees"]]
            content["restarts"] = [Restart(**restart) for restart in content["restarts"]]
            model = cls(**content)
            model._check()
            return model
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, CorruptDataError):
                raise
            raise CorruptDataError(f"{path} is not an active party's model: {type(error).__name__}") from None
