"""A vertically trained model as the active party has it: everything but the passive parties' splits."""

from __future__ import annotations

import json
import os
from bisect import bisect
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from gbdt_commons.files import make_folder
from gbdt_commons.sealed import read_sealed, write_sealed
from gbdt_parties import messages
from gbdt_parties.channel import Channel, Party, check_parties
from gbdt_parties.errors import ProtocolError
from gbdt_parties.traffic import Traffic
from xgb_fed.boosting.features import Columns, read_columns_like
from xgb_fed.boosting.labels import read_base_margin
from xgb_fed.boosting.objectives import XGBoostObjective
from xgb_fed.errors import CorruptDataError, InvalidArgumentError
from xgb_fed.vertical.explaining.contributions import Explanation, ask_columns, contributions_of
from xgb_fed.vertical.explaining.decision_paths import DecisionPaths
from xgb_fed.vertical.explaining.sides import OWN
from xgb_fed.vertical.model.asked_rows import PredictionRows
from xgb_fed.vertical.model.export import pooled_booster, revealed_splits
from xgb_fed.vertical.model.values import check_plain_values, objective_in, restart_in, tree_in
from xgb_fed.vertical.protocol.messages import ModelOpened, OpenModel, RevealedSplits, RevealSplits
from xgb_fed.vertical.protocol.row_names import RowNames, check_rows
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.trees.routing import row_positions
from xgb_fed.vertical.trees.tree import LEAF, ROOT, FederatedTree, add_leaves, check_kind, importances_of
from xgb_fed.vertical.trees.tree_record import Restart


def check_parts(
    trees: Sequence[FederatedTree],
    rounds: list[int],
    splits: Splits,
    parties: Sequence[str],
    party_features: Sequence[int],
) -> None:
    """Raise ValueError unless every tree is well formed and names known parties and splits."""
    if rounds != sorted(rounds) or rounds[0] != 0 or rounds[-1] != len(trees):
        raise ValueError("rounds")
    if not all(0 <= f < len(splits.names) for f in splits.features):
        raise ValueError("features")
    if len(parties) != len(party_features):
        raise ValueError("parties")
    for tree in trees:
        lengths = {len(values) for values in tree.to_dict().values()}
        if lengths != {len(tree)} or not len(tree):
            raise ValueError("nodes")
        if tree.parent[0] != ROOT:
            raise ValueError("root")
        for node, owner in enumerate(tree.owner):
            if owner == LEAF:
                if not tree.left[node] == tree.right[node] == tree.split_id[node] == LEAF:
                    raise ValueError("leaves")
                continue
            children = (tree.left[node], tree.right[node])
            # Children come after their parent, and know it: no walk down or up a tree goes in circles.
            if not all(node < child < len(tree) and tree.parent[child] == node for child in children):
                raise ValueError("children")
            if not 0 <= owner <= len(parties) or tree.split_id[node] < 0:
                raise ValueError("splits")
            if owner == 0 and tree.split_id[node] >= len(splits):
                raise ValueError("splits")
        # Each node but the root is the child of one, so that every node is reached, once.
        reached = [c for pair in zip(tree.left, tree.right, strict=True) for c in pair if c != LEAF]
        if sorted(reached) != list(range(1, len(tree))):
            raise ValueError("children")


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
    objective : XGBoostObjective
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
        Traffic that left each party.
    """

    model_id: bytes
    objective: XGBoostObjective
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
        """Class of a tree; None if its leaves have a value for every class.

        Parameters
        ----------
        tree : int
            Position in `trees`.

        Returns
        -------
        int or None
        """
        if len(self.trees[tree].value[0]) == self.n_classes > 1 or self.n_classes == 1:
            return None if self.n_classes > 1 else 0
        number = bisect(self.rounds, tree) - 1
        start, end = self.rounds[number : number + 2]
        return (tree - start) * self.n_classes // (end - start)

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

    def margins(
        self, leaves: NDArray[np.int32], trees: range, base_margin: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Sum of leaf values in XGBoost's order and precision.

        Parameters
        ----------
        leaves : ndarray of int32, shape (n_rows, n_trees)
            Each row's leaf in each of the trees.
        trees : range
            Positions in `trees`.
        base_margin : ndarray of float32, shape (n_rows, n_classes), optional
            Margins before the first tree, in place of those of the base score.

        Returns
        -------
        ndarray of float32, shape (n_rows, n_classes)
        """
        margin = np.tile(self.base_margin, (len(leaves), 1)) if base_margin is None else base_margin.copy()
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
        pred_contribs: bool = False,
        hide_paths: bool = False,
        iteration_range: tuple[int, int] | None = None,
        rows: Any = None,
        base_margin: Any = None,
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
        pred_contribs : bool
            Contributions of the columns to the margin in place of predictions; see `explain`.
        hide_paths : bool
            Ask parties for every row's side at all their splits, so that they do not learn which rows reach
            which split.  They must consent to explanations, because the active party then learns all sides.
        iteration_range : (int, int), optional
            Rounds to use; up to the best one by default.
        rows : array-like of int, optional
            Positions of the rows in the parties' data, if those have more.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), optional
            Margins before the first tree, in place of those of the base score.
        traffic : Traffic, optional
            Counts the messages.

        Returns
        -------
        ndarray of float32, shape (n_rows,) or (n_rows, n_classes); or of int32, shape (n_rows, n_trees)

        Raises
        ------
        ConsentError
            With `hide_paths` or `pred_contribs`, naming a party that does not consent to explanations.
        RowMismatchError
            If the index of X names other rows than a party's data frame or alignment, or another order.
        InvalidDataError
            If X has not the columns that were trained on, in the same order.
        """
        if pred_contribs:
            if pred_leaf:
                raise InvalidArgumentError("pred_contribs=True and pred_leaf=True ask for different results")
            how = {"iteration_range": iteration_range, "rows": rows, "base_margin": base_margin}
            return self.explain(X, parties, traffic=traffic, **how).contributions
        trees = self._chosen(iteration_range)
        chosen = [self.trees[t] for t in trees]
        with self._ask(X, parties, chosen, rows, traffic) as asked:
            leaves = asked.sides(chosen).leaves(chosen) if hide_paths else asked.leaves(chosen)
        leaves = asked.restored(leaves)
        if pred_leaf:
            return leaves
        start = read_base_margin(base_margin, (len(leaves), self.n_classes), "X")
        margin = self.margins(leaves, trees, start)
        if output_margin:
            return margin if self.n_classes > 1 else margin[:, 0]
        return self.objective.to_prediction(margin)

    def explain(
        self,
        X: Any,
        parties: Any = (),
        *,
        iteration_range: tuple[int, int] | None = None,
        rows: Any = None,
        base_margin: Any = None,
        traffic: Traffic | None = None,
    ) -> Explanation:
        """Tree SHAP values, equal to ``pred_contribs`` of the model trained on the pooled columns.

        Parties are asked about all their splits and all rows, and must consent to that.  Their columns are
        named by positions, or added up, as they consent.

        Parameters
        ----------
        X, parties, iteration_range, rows, base_margin, traffic
            See `predict`.

        Returns
        -------
        Explanation
            Contributions of shape (n_rows, n_columns + 1), or (n_rows, n_classes, n_columns + 1); bias last.

        Raises
        ------
        ConsentError
            Naming a party that does not consent to explanations.
        RowMismatchError, InvalidDataError
            See `predict`.
        """
        trees = self._chosen(iteration_range)
        chosen = [self.trees[t] for t in trees]
        with self._ask(X, parties, None, rows, traffic) as asked:
            columns = ask_columns(chosen, self.splits, self.parties, self.party_features, asked.channels)
            sides = asked.sides(chosen)
        groups = [self.group_of(t) for t in trees]
        values = asked.restored(contributions_of(chosen, groups, self.n_classes, columns, sides))
        start = read_base_margin(base_margin, (len(values), self.n_classes), "X")
        values[:, :, -1] += self.base_margin if start is None else start
        return Explanation(values if self.n_classes > 1 else values[:, 0], columns.names)

    def decision_paths(
        self,
        X: Any,
        parties: Any = (),
        *,
        iteration_range: tuple[int, int] | None = None,
        rows: Any = None,
        traffic: Traffic | None = None,
    ) -> DecisionPaths:
        """The nodes that each row visits, which the active party knows from every prediction.

        Parameters
        ----------
        X, parties, iteration_range, rows, traffic
            See `predict`.

        Returns
        -------
        DecisionPaths
        """
        trees = self._chosen(iteration_range)
        leaves = self.predict(
            X, parties, pred_leaf=True, iteration_range=iteration_range, rows=rows, traffic=traffic
        )
        return DecisionPaths(leaves, [self.trees[t] for t in trees], list(trees), self.splits, self.parties)

    def _ask(
        self, X: Any, parties: Any, trees: list[FederatedTree] | None, rows: Any, traffic: Traffic | None
    ) -> PredictionRows:
        """Open a session about rows, with the parties of some trees or all; arguments are checked."""
        used = self._parties(parties)
        columns, positions = self.own_columns(X), row_positions(rows)
        check_rows(RowNames.of(X), used, "X", positions)
        return PredictionRows.open(self.model_id, self.splits, columns, used, trees, positions, traffic)

    def _parties(self, parties: Any) -> list[Party]:
        """The model's parties in their order."""
        by_name = {party.name: party for party in check_parties(parties)}
        missing = [name for name in self.parties if name not in by_name]
        if missing:
            raise InvalidArgumentError(f"parties lacks {missing}; the model was trained with {self.parties}")
        return [by_name[name] for name in self.parties]

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
        return read_columns_like(X, self.splits.names, self.splits.categories)

    def export_booster(self, parties: Any, *, traffic: Traffic | None = None) -> xgboost.Booster:
        """A native booster, if every party consents.

        Its columns are the active party's, then each passive party's in the order of `parties` at training.

        Parameters
        ----------
        parties : sequence of Party
            Those of the training run, by name.
        traffic : Traffic, optional
            Counts the messages.

        Returns
        -------
        xgboost.Booster

        Raises
        ------
        ConsentError
            Naming the party that does not consent.
        """
        session, counted = os.urandom(16), Traffic() if traffic is None else traffic
        all_splits, names = [self.splits], list(self.splits.names)
        for party in self._parties(parties):
            name = party.name
            channel = Channel(party, session, counted)
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

        Returns
        -------
        dict of str to float
            Names of split columns to their importance.
        """

        def name_of(owner: int, split: int) -> str:
            if owner == OWN:
                return self.splits.names[self.splits.features[split]]
            return f"{self.parties[owner - 1]}: split {split}"

        return importances_of(self.trees, self._times(), kind, name_of)

    def get_score(
        self, parties: Any = (), *, importance_type: str = "weight", traffic: Traffic | None = None
    ) -> dict[str, float]:
        """Importance of every column that splits, equal to that of the exported booster.

        Parameters
        ----------
        parties : sequence of Party
            Those of the training run, by name.  They must consent to explanations: columns are named by their
            positions as in ``"bank: column 3"``, or added up under the party's name, as they consent.
        importance_type : {"weight", "gain", "cover", "total_gain", "total_cover"}
            As for `xgboost.Booster.get_score`.
        traffic : Traffic, optional
            Counts the messages.

        Returns
        -------
        dict of str to float

        Raises
        ------
        ConsentError
            Naming a party that does not consent to explanations.
        """
        check_kind(importance_type)
        used, everyone = self._parties(parties), row_positions(None)
        with PredictionRows.open(self.model_id, self.splits, None, used, None, everyone, traffic) as asked:
            columns = ask_columns(self.trees, self.splits, self.parties, self.party_features, asked.channels)

        def name_of(owner: int, split: int) -> str:
            return columns.names[columns.places[owner, split]]

        return importances_of(self.trees, self._times(), importance_type, name_of)

    def _times(self) -> list[int]:
        """How many trees of a native booster each tree is."""
        groups = [self.group_of(t) for t in range(len(self.trees))]
        return [self.n_classes if group is None else 1 for group in groups]

    def to_json(self) -> str:
        """The active party's part as text, equal for equal runs but for the model id and restarts."""
        return json.dumps(self._content())

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "model_id": self.model_id.hex(),
            "objective": self.objective.to_dict(),
            "base_score": self.base_score,
            "splits": self.splits.to_dict(),
            "parties": self.parties,
            "party_features": self.party_features,
            "trees": [tree.to_dict() for tree in self.trees],
            "rounds": self.rounds,
            "best_iteration": self.best_iteration,
            "best_score": self.best_score,
            "restarts": [asdict(restart) for restart in self.restarts],
        }

    def save(self, directory: str | Path) -> None:
        """Write this party's part; an existing file is replaced only when the new one is complete.

        Parameters
        ----------
        directory : path
            Made if it is missing.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        directory = Path(directory)
        make_folder(directory)
        write_sealed(directory / MODEL_FILE, self._content())

    @classmethod
    def load(cls, directory: str | Path) -> VerticalModel:
        """Read what `save` wrote.

        Parameters
        ----------
        directory : path

        Returns
        -------
        VerticalModel

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
            content["objective"] = objective_in(content["objective"])
            n_classes = content["objective"].n_classes
            check_plain_values(content, n_classes)
            content["splits"] = Splits.from_dict(content["splits"])
            content["trees"] = [tree_in(tree, n_classes) for tree in content["trees"]]
            content["restarts"] = [restart_in(restart) for restart in content["restarts"]]
            if content.keys() & {"evals_result", "traffic"}:
                raise ValueError("unknown entries")
            model = cls(**content)
            check_parts(model.trees, model.rounds, model.splits, model.parties, model.party_features)
            return model
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, CorruptDataError):
                raise
            raise CorruptDataError(f"{path} is not an active party's model: {type(error).__name__}") from None
