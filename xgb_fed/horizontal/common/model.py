"""The trees that every horizontal party has, and the model they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
import xgboost
from numpy.typing import NDArray

from gbdt_commons.quoting import shown
from gbdt_commons.tables.frames import is_table
from gbdt_hosts.xgboost.boosting import max_tree_bytes, read_tree, write_tree
from gbdt_hosts.xgboost.model import ScalarTree, as_json, booster_from_trees
from gbdt_kernels.trees.raw_trees import RawTree, leaf_values
from gbdt_parties.agreed import read_json
from gbdt_parties.errors import ProtocolError
from gbdt_parties.traffic import Traffic
from xgb_fed.boosting.features import Columns, read_columns
from xgb_fed.boosting.objectives import HORIZONTAL, XGBoostObjective
from xgb_fed.boosting.params import Settings, without_vertical_only
from xgb_fed.horizontal.common.introductions import MAX_TEXT
from xgb_fed.horizontal.common.messages import Trees


def read_rows(X: Any, argument: str) -> tuple[Any, list[str]]:
    """Rows as a dense float32 or sorted CSR matrix, and column names if any; errors as `read_columns`."""
    columns = read_columns(X, argument)
    data = columns.data
    if scipy.sparse.issparse(data):
        data = data.tocsr()
        data.sort_indices()
    has_names = isinstance(X, Columns) or is_table(X)
    return data, columns.names if has_names else []


def settings_of(params: str) -> Settings:
    """Read settings from a JSON object of parameters; a ProtocolError says that it is none."""
    try:
        settings = Settings.from_params(read_json(params, MAX_TEXT))
        settings.require_objective(HORIZONTAL)
        return settings
    except (TypeError, AttributeError, ValueError) as error:
        raise ProtocolError(f"parameters: {error}") from None


def check_base_score(objective: XGBoostObjective, base_score: NDArray[np.float64]) -> None:
    """Raise `ProtocolError` for a base score that no training run has."""
    if len(base_score) not in (1, objective.n_classes) or not np.isfinite(base_score).all():
        raise ProtocolError("the base score is malformed")
    if objective.name == "binary:logistic" and not ((base_score > 0) & (base_score < 1)).all():
        raise ProtocolError("the base score is not a probability")


@dataclass
class SharedTrees:
    """Every party's trees as they travelled, round by round, and margins of rows from `base_score`."""

    objective: XGBoostObjective
    n_features: int
    base_score: list[float]
    max_depth: int
    rounds: list[Trees] = field(default_factory=list)

    def start(self, n_rows: int) -> NDArray[np.float32]:
        """Return the margins before the first tree, of shape (n_rows, n_classes)."""
        margin = self.objective.to_margin(np.array(self.base_score, dtype=np.float32))
        return np.tile(np.broadcast_to(margin, (self.objective.n_classes,)), (n_rows, 1)).astype(np.float32)

    def read_round(self, message: Trees) -> list[ScalarTree]:
        """Read and check the trees of a round.

        A round has one spelling only: nothing else than trees can be in the bytes that are kept of it.  A
        ProtocolError says that there is not one tree per class, of the agreed depth and as `write_tree`
        writes it.
        """
        lengths = message.lengths
        if (
            len(lengths) != self.objective.n_classes
            or (lengths < 0).any()
            or lengths.sum() != len(message.models)
        ):
            raise ProtocolError(f"{len(lengths)} trees in a round of {self.objective.n_classes}, or cut off")
        if lengths.max() > max_tree_bytes(self.max_depth):
            # Before it is parsed, which takes many times its length.
            raise ProtocolError(
                f"a round's trees: {lengths.max()} bytes are more than a tree of {self.max_depth} levels has"
            )
        trees = []
        for group, one in enumerate(message.split()):
            try:
                tree = read_tree(one, self.n_features, group)
            except ValueError as error:
                raise ProtocolError(f"a round's trees: {error}") from None
            if write_tree(tree) != one:
                raise ProtocolError(
                    "a round's trees: they are not written as agreed, or hold more than trees"
                )
            if depth_of(tree) > self.max_depth:
                raise ProtocolError(f"a round's trees: a tree is deeper than {self.max_depth} levels")
            trees.append(tree)
        return trees

    def booster(self, names: list[str], best_iteration: int | None) -> xgboost.Booster:
        """Make a native booster of all trees."""
        per_round = self.objective.n_classes
        booster = booster_from_trees(
            (tree for message in self.rounds for tree in self.read_round(message)),
            objective=self.objective.name,
            n_classes=per_round,
            n_features=self.n_features,
            base_score=self.base_score,
            rounds=range(0, len(self.rounds) * per_round + 1, per_round),
            feature_names=names,
        )
        if best_iteration is not None:
            booster.set_attr(best_iteration=str(best_iteration))
        return booster


def depth_of(tree: ScalarTree) -> int:
    """Number of splits on the longest path."""
    depth = [0] * len(tree.left)
    for node, (left, right) in enumerate(zip(tree.left, tree.right, strict=True)):
        if left != -1:
            depth[left] = depth[right] = depth[node] + 1
    return max(depth)


def add_round(margin: NDArray[np.float32], X: Any, trees: list[ScalarTree], n_threads: int = 0) -> None:
    """Add a round's leaf values to margins, in place."""
    for tree in trees:
        raw = RawTree(
            np.asarray(tree.left, dtype=np.int32),
            np.asarray(tree.right, dtype=np.int32),
            np.asarray(tree.feature, dtype=np.int32),
            np.asarray(tree.condition, dtype=np.float32),
            np.asarray(tree.default_left, dtype=np.bool_),
        )
        margin[:, tree.group] += leaf_values(X, raw, n_threads)


@dataclass(repr=False)
class HorizontalModel:
    """The model that `train_simfl` and `train_tfl` return.

    Attributes
    ----------
    booster : xgboost.Booster
        Native model with all trees.  Its attribute ``best_iteration`` is set by early stopping.
    classes : ndarray of shape (n_classes,) or None
        Labels in the order of the booster's classes; None for regression.
    traffic : Traffic
        Traffic that left each party.
    best_iteration, best_score : int, float or None
        Round, from 0, and metric that early stopping found best; None without early stopping.
    evals_result : dict
        Lists with one number per round, by evaluation set and metric.
    cuts : list of ndarray of float32, or None
        Where exact training has cut each column; None for other methods.
    signatures : str
        JSON of the signatures by which all parties of exact training have this booster; empty for other
        methods.  ``veilboost inspect`` checks them.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import xgb_fed, xgboost
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> parties = [(X[:300], y[:300]), (X[300:], y[300:])]
    >>> params = {"objective": "binary:logistic", "max_depth": 3}
    >>> model = xgb_fed.train_simfl(params, parties, 10, verbose_eval=False)
    >>> model.booster.predict(xgboost.DMatrix(X)).shape
    (569,)
    """

    booster: xgboost.Booster
    classes: NDArray[Any] | None
    traffic: Traffic
    best_iteration: int | None = None
    best_score: float | None = None
    evals_result: dict[str, Any] = field(default_factory=dict)
    cuts: list[NDArray[np.float32]] | None = None
    signatures: str = ""

    def __repr__(self) -> str:
        """Rounds, labels, the best round, the last metrics and the traffic: five lines."""
        booster, best = self.booster, "none"
        if self.best_iteration is not None:
            best = f"{self.best_iteration}, {self.best_score:.5g}"
        metrics = [
            f"{of} {name} {values[-1]:.5g}"
            for of, by_name in self.evals_result.items()
            for name, values in by_name.items()
        ]
        return (
            f"HorizontalModel: {booster.num_boosted_rounds()} rounds, {booster.num_features()} columns\n"
            f"classes: {'none, numbers' if self.classes is None else shown(self.classes.tolist())}\n"
            f"best round: {best}\n"
            f"metrics: {', '.join(metrics) or 'none'}\n"
            f"traffic: {sum(flow.bytes for flow in self.traffic.flows.values()):,} bytes"
        )

    def as_json(self) -> bytes:
        """The booster in XGBoost's JSON format."""
        return as_json(self.booster)


AUTO = "auto"
"""Objective "binary:logistic", or "multi:softprob" where a party has more than two classes."""


def of_classes(params: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Parameters with XGBoost's name of the objective, and whether the parties' classes may change it."""
    is_auto = params.get("objective") == AUTO
    return {**params, "objective": "binary:logistic"} if is_auto else dict(params), is_auto


def horizontal_settings(params: Mapping[str, Any]) -> Settings:
    """Settings from XGBoost's parameters; UnsupportedParameterError names those without support."""
    return without_vertical_only(Settings.from_params(params))
