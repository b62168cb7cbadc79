"""Task of one vertical training run: rows, settings, parties, evaluation sets, cipher."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_hosts.xgboost.evaluation import intercept
from gbdt_hosts.xgboost.gradients import CustomObjective
from gbdt_hosts.xgboost.margins import words_of
from gbdt_hosts.xgboost.targets import Targets
from gbdt_hosts.xgboost.versions import installed, warn_of_unknown_version
from gbdt_kernels.residues import arithmetic_is_compiled
from gbdt_parties.channel import check_parties
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.categories import to_json
from xgb_fed.boosting.features import (
    Columns,
    check_names,
    check_weight,
    numeric_vector,
    read_columns,
    read_columns_like,
)
from xgb_fed.boosting.labels import read_base_margin, read_bounds, read_queries
from xgb_fed.boosting.objectives import MIN_HESSIAN
from xgb_fed.boosting.params import TREE_MODES, Settings
from xgb_fed.ciphers.base import Scheme
from xgb_fed.ciphers.plain import Plain
from xgb_fed.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    LabelLeakWarning,
    NotEncryptedWarning,
    UnsupportedParameterError,
)
from xgb_fed.vertical.protocol.row_names import RowNames, check_rows
from xgb_fed.vertical.training.continuation import EarlierModel
from xgb_fed.vertical.training.round_gradients import RoundGradients, has_floor
from xgb_fed.vertical.trees.constraints import Constraints, PooledColumns
from xgb_fed.vertical.trees.routing import ascending, row_positions


@dataclass(frozen=True)
class SearchPlan:
    """Levels at which the passive parties of these numbers search for one tree; all start at the root."""

    active: range
    passive: dict[int, range] = field(default_factory=dict)


@dataclass(frozen=True)
class TreeMode:
    """How the levels of trees are shared out.

    By "default", every party searches at every level, and the best split of all wins; this is lossless.  In
    "mix", parties take turns of `trees_per_party` boosting rounds, and each grows whole trees in its own
    columns. In "layered", passive parties search at the first levels, and the active one at the last
    `active_depth`.
    """

    name: str
    max_depth: int
    trees_per_party: int
    active_depth: int
    n_passive: int
    active_has_features: bool

    def __post_init__(self) -> None:
        """Check what the mode needs."""
        if self.name not in TREE_MODES:
            raise UnsupportedParameterError(f"tree_mode={self.name!r} must be one of {TREE_MODES}")
        if self.name == "layered":
            if not 1 <= self.active_depth < self.max_depth:
                raise InvalidArgumentError(
                    f"active_depth={self.active_depth} must be from 1 to {self.max_depth - 1} "
                    "for tree_mode='layered'"
                )
            if not (self.active_has_features and self.n_passive):
                raise InvalidArgumentError(
                    "tree_mode='layered' needs features at the active party and a passive one"
                )

    @property
    def passive_depth(self) -> int:
        """Levels of a tree at which a passive party searches, at most."""
        return self.max_depth - self.active_depth if self.name == "layered" else self.max_depth

    def n_turns(self, party: int, round_number: int) -> int:
        """Boosting rounds before this one in which a party takes part; 0 is the active party."""
        if self.name != "mix":
            return round_number
        first = (party - (not self.active_has_features)) * self.trees_per_party
        cycle = (self.n_passive + self.active_has_features) * self.trees_per_party
        cycles, rest = divmod(round_number, cycle)
        return cycles * self.trees_per_party + min(max(rest - first, 0), self.trees_per_party)

    def plan(self, round_number: int) -> SearchPlan:
        """Searching parties of each level in the trees of a boosting round."""
        everywhere, nowhere = range(self.max_depth), range(0)
        passive = range(1, self.n_passive + 1)
        if self.name == "layered":
            first = self.max_depth - self.active_depth
            return SearchPlan(range(first, self.max_depth), dict.fromkeys(passive, range(first)))
        if self.name == "mix":
            turns = [*([0] if self.active_has_features else []), *passive]
            turn = turns[round_number // self.trees_per_party % len(turns)]
            return SearchPlan(everywhere) if turn == 0 else SearchPlan(nowhere, {turn: everywhere})
        return SearchPlan(
            everywhere if self.active_has_features else nowhere, dict.fromkeys(passive, everywhere)
        )


_FLOOR_ROOM = 1e7
"""How far `reg_lambda` or `min_child_weight` must be above all rows' smallest hessians together."""


def check_weight_of_rows(settings: Settings, weight: NDArray[np.float32] | None) -> None:
    """Refuse what is not lossless: rows without weight, several classes, and no `min_child_weight`.

    XGBoost floors the hessians of such rows at 1e-16, and the rounding of its float64 sums then decides
    between candidates that differ in them only.
    """
    if weight is None or settings.n_classes == 1 or settings.min_child_weight > 0:
        return
    if weight.min() < np.finfo(np.float64).eps * np.float64(weight.max()):
        raise UnsupportedParameterError(
            f"min_child_weight=0 is not supported for {settings.objective} with weights of "
            f"{weight.min():g} beside {weight.max():g}: set min_child_weight, or leave those rows out"
        )


def check_floor(settings: Settings, n_rows: int) -> None:
    """Refuse what is not lossless: saturated rows in nodes that neither penalty nor minimum holds back.

    A row whose probability is 0 or 1 in float32 has a gradient of 0 and, in XGBoost, a hessian of 1e-16.
    A node of such rows alone has the sum H = n·1e-16 there, by which everything else is divided unless
    `reg_lambda` or `min_child_weight` is far above.
    """
    least = _FLOOR_ROOM * float(MIN_HESSIAN) * n_rows
    if max(settings.reg_lambda, settings.min_child_weight) < least:
        raise UnsupportedParameterError(
            f"reg_lambda={settings.reg_lambda:g} with min_child_weight={settings.min_child_weight:g} is "
            f"not supported for {settings.objective} on {n_rows} rows: one of them must be at "
            f"least {least:g}, or leaf values would depend on how XGBoost rounds hessians near 0"
        )


logger = logging.getLogger(__name__)


@dataclass
class ActiveData:
    """The active party's rows: its columns, the labels, and weights.

    Parameters
    ----------
    data : matrix of shape (n_rows, n_features), or None
        None if the active party has no columns.
    label : array-like of shape (n_rows,)
        None if there are bounds instead.
    weight : array-like of shape (n_rows,), optional
        For ranking, one per query.
    rows : array-like of int of shape (n_rows,), optional
        Positions of these rows in the passive parties' data, if those have more.  Training takes the rows in
        ascending order of these.
    label_lower_bound, label_upper_bound : array-like of shape (n_rows,), optional
        Bounds of the times, infinite where unknown; for ``survival:aft``.
    qid : array-like of int of shape (n_rows,), optional
        The query of every row, for ranking; not descending.
    base_margin : array-like of shape (n_rows,) or (n_rows, n_classes), optional
        Margins before the first tree, in place of those of `base_score`.
    """

    data: Any
    label: Any
    weight: Any = None
    rows: Any = None
    label_lower_bound: Any = None
    label_upper_bound: Any = None
    qid: Any = None
    base_margin: Any = None


@dataclass
class ActiveRows:
    """Checked rows of the active party."""

    columns: Columns | None
    y: NDArray[np.float32]
    weight: NDArray[np.float32] | None
    positions: NDArray[np.int32]
    names: RowNames | None = None
    bounds: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
    qid: NDArray[np.int64] | None = None
    base_margin: NDArray[np.float32] | None = None

    @classmethod
    def read(
        cls, given: ActiveData, settings: Settings, argument: str, trained: Columns | None = None
    ) -> ActiveRows:
        """Check the rows, by argument; `trained` are the columns of the training rows, if others."""
        objective = settings.loss
        bounds = read_bounds(given.label_lower_bound, given.label_upper_bound, objective, argument)
        label = bounds[0] if given.label is None and bounds is not None else given.label
        y = numeric_vector(label, f"label of {argument}")
        columns = _columns_of(given.data, settings, f"data of {argument}", trained)
        if columns is not None and columns.n_rows != len(y):
            raise InvalidDataError(f"{argument} has {columns.n_rows} rows and {len(y)} labels")
        if not len(y):
            raise InvalidDataError(f"{argument} has no rows")
        objective.check_labels(y, f"label of {argument}")
        if bounds is not None and len(bounds[0]) != len(y):
            raise InvalidDataError(f"{argument} has {len(y)} labels and {len(bounds[0])} label_lower_bound")
        qid = read_queries(given.qid, len(y), objective, argument)
        n_weights, what = (len(y), "rows") if qid is None else (len(np.unique(qid)), "queries")
        weight = check_weight(given.weight, n_weights, f"weight of {argument}", what)
        if columns is not None and columns.n_features == 0:
            columns = None
        base_margin = read_base_margin(given.base_margin, (len(y), objective.n_classes), argument)
        positions, names = row_positions(given.rows), RowNames.of(given.data)
        return cls(columns, y, weight, positions, names, bounds, qid, base_margin)

    def ascending(self) -> ActiveRows:
        """The same rows in the order of their positions."""
        order, positions = ascending(self.positions, self.n_rows)
        if not len(order):
            return self
        qid = None if self.qid is None else self.qid[order]
        if qid is not None and (np.diff(qid) < 0).any():
            raise InvalidDataError("qid of active_data must be sorted in the order of its rows too")
        per_row = self.weight is not None and qid is None
        return ActiveRows(
            None if self.columns is None else self.columns.take(order),
            self.y[order],
            self.weight[order] if self.weight is not None and per_row else self.weight,
            positions,
            None if self.names is None else self.names.take(order),
            None if self.bounds is None else (self.bounds[0][order], self.bounds[1][order]),
            qid,
            None if self.base_margin is None else self.base_margin[order],
        )

    @property
    def targets(self) -> Targets:
        """Targets of the rows, as XGBoost receives them."""
        lower, upper = (None, None) if self.bounds is None else self.bounds
        sizes = None if self.qid is None else np.unique(self.qid, return_counts=True)[1]
        return Targets(self.y, self.weight, lower, upper, sizes, self.base_margin)

    @property
    def n_rows(self) -> int:
        """Rows of this set."""
        return len(self.y)


def _columns_of(data: Any, settings: Settings, argument: str, trained: Columns | None) -> Columns | None:
    """The active party's columns of the rows that are trained on, or of others."""
    if data is None:
        return None
    if trained is not None and trained.categories:
        return read_columns_like(data, trained.names, trained.categories, argument)
    columns = read_columns(
        data,
        argument,
        enable_categorical=settings.enable_categorical,
        feature_types=None if trained is not None else settings.feature_types,
    )
    if trained is None:
        settings.check_categories(len(columns.categories), argument)
        columns.check_categories(argument)
    return columns


class TrainingTask:
    """One training run; the arguments are those of `train`."""

    def __init__(
        self,
        settings: Settings,
        active_data: ActiveData,
        parties: Sequence[Any],
        evals: Sequence[tuple[ActiveData, str]],
        cipher: Scheme,
        obj: CustomObjective | None = None,
        xgb_model: Any = None,
    ) -> None:
        warn_of_unknown_version(installed())
        self.settings, self.obj = settings, obj
        self.objective = settings.loss
        self.rows = ActiveRows.read(active_data, settings, "active_data").ascending()
        self.parties = check_parties(parties)
        self.evals = [
            (ActiveRows.read(data, settings, name, self.rows.columns), str(name)) for data, name in evals
        ]
        check_weight_of_rows(settings, self.rows.weight)
        if has_floor(self.objective, obj):
            check_floor(settings, self.rows.n_rows)
        self._check_evals()
        self._check_rows()
        own_names = [] if self.rows.columns is None else self.rows.columns.names
        n_own = len(own_names)
        party_names = [party.name for party in self.parties]
        self.earlier: EarlierModel | None = None
        if xgb_model is not None:
            self.earlier = EarlierModel.read(xgb_model, self.objective, self.rows.columns, party_names)
            self.settings = settings = self.earlier.continued(settings)
        # As far as names go; what depends on the parties' numbers of columns, `Rounds` checks.
        Constraints.of(settings, PooledColumns(own_names, party_names))
        if not self.parties and not n_own:
            raise InvalidDataError("no columns: the active party has none, and there are no parties")
        self.mode = TreeMode(
            settings.tree_mode,
            self.max_depth,
            settings.trees_per_party,
            settings.active_depth,
            len(self.parties),
            n_own > 0,
        )
        if isinstance(cipher, type) or not hasattr(cipher, "generate"):
            raise ArgumentTypeError(
                f"cipher={cipher!r} must be a scheme, such as Paillier() or OkamotoUchiyama()"
            )
        self.cipher = cipher
        self.base_score = self._base_score()
        self.gradients = RoundGradients(
            self.objective, self.rows.targets, self.first_margins(self.rows), self.seed_of_pairs, obj
        )
        if settings.goss is not None and self.parties:
            warnings.warn(
                "goss: passive parties see which rows are sampled; those left out have small gradients. "
                "On imbalanced data this discloses most labels to them",
                LabelLeakWarning,
                stacklevel=4,
            )
        if isinstance(cipher, Plain) and self.parties:
            warnings.warn(
                "cipher=Plain(): gradients, and with them labels, leave this party in CLEAR TEXT",
                NotEncryptedWarning,
                stacklevel=4,
            )

    @property
    def max_depth(self) -> int:
        """Levels of a tree that have splits, at most: what XGBoost's `max_depth`, 0 included, comes to."""
        settings = self.settings
        return settings.max_depth or max(1, (settings.max_leaves or self.rows.n_rows) - 1)

    @property
    def eval_rows(self) -> list[ActiveRows]:
        """Rows of each evaluation set."""
        return [rows for rows, _ in self.evals]

    def first_margins(self, rows: ActiveRows) -> NDArray[np.float32]:
        """Margins of rows before the first tree, shape (n_rows, n_classes)."""
        if rows.base_margin is not None:
            return np.array(rows.base_margin, dtype=np.float32)
        margin = self.objective.to_margin(np.array(self.base_score, dtype=np.float32))
        start: NDArray[np.float32] = np.broadcast_to(margin, (self.objective.n_classes,))
        return np.asarray(np.tile(start, (rows.n_rows, 1)), dtype=np.float32)

    @property
    def seed_of_pairs(self) -> int:
        """The seed of pairs for ranking; XGBoost's own without one, since only the active party sees them."""
        return self.settings.random_state or 0

    @property
    def n_draws_before(self) -> int:
        """Random numbers taken before the first round: XGBoost estimates base scores by gradients."""
        return self.gradients.n_draws if self.earlier is None and self.settings.base_score is None else 0

    def digest(self) -> str:
        """Digest that identifies the training run: equal for equal data, settings, and parties' names."""
        sets = [self.rows, *self.eval_rows]
        arrays = [
            part
            for rows in sets
            for part in (
                None if rows.columns is None else rows.columns.data,
                None if rows.columns is None else to_json(rows.columns.categories) or None,
                rows.y,
                rows.weight,
                rows.positions,
            )
        ]
        others = [part for rows in sets for part in (rows.qid, rows.base_margin, *(rows.bounds or ()))]
        # Without any, the digest is the one that earlier releases kept.
        arrays += others if any(part is not None for part in others) else []
        if self.gradients.digest is not None:
            # A function has no digest, but what it makes of the first margins has one.
            arrays.append(self.gradients.digest)
        if self.earlier is not None:
            arrays.append(self.earlier.model.to_json())
        own = None if self.rows.columns is None else self.rows.columns.names
        names = [party.name for party in self.parties], [name for _, name in self.evals], own
        return digest_of(self.settings, names, *arrays)

    def _base_score(self) -> list[float]:
        """XGBoost's parameter, or what it estimates."""
        settings, targets = self.settings, self.rows.targets
        if self.earlier is not None:
            score = list(self.earlier.model.base_score)
            if settings.base_score is not None and set(score) != {settings.base_score}:
                raise InvalidArgumentError(f"base_score={settings.base_score}: that of xgb_model is {score}")
            return score
        if settings.base_score is not None:
            return [float(settings.base_score)]
        params = {**self.objective.of_xgboost, "seed": self.seed_of_pairs}
        try:
            return [float(value) for value in intercept(params, targets, self.obj is not None)]
        except ValueError as error:
            raise InvalidDataError(
                f"label of active_data, {self.objective.name}: {words_of(error)}"
            ) from error

    def _check_evals(self) -> None:
        names = [name for _, name in self.evals]
        if len(set(names)) != len(names) or any("-" in name for name in names):
            raise InvalidArgumentError(f"evaluation sets must have different names without '-', not {names}")
        own = None if self.rows.columns is None else self.rows.columns.n_features
        for rows, name in self.evals:
            if (None if rows.columns is None else rows.columns.n_features) != own:
                raise InvalidDataError(f"evaluation set {name!r} has other columns than active_data")
            if rows.columns is not None and self.rows.columns is not None:
                check_names(rows.columns.names, self.rows.columns.names, f"evaluation set {name!r}")

    def _check_rows(self) -> None:
        check_rows(self.rows.names, self.parties, "active_data", self.rows.positions)
        for k, (rows, name) in enumerate(self.evals, start=1):
            check_rows(rows.names, self.parties, f"evaluation set {name!r}", rows.positions[:0], k)

    def announced(self) -> str:
        """Text of the progress bar; once, it says that the run waits for the compiler on this machine."""
        if not self.parties or isinstance(self.cipher, Plain) or arithmetic_is_compiled():
            return "federated rounds"
        logger.info("compiling kernels for this machine (once; they are cached)")
        return "federated rounds, the first while kernels are compiled (once)"
