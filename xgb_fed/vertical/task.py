"""What one vertical training run is about: rows, settings, parties, evaluation sets, cipher."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues import arithmetic_is_compiled
from gbdt_parties._files import digest_of
from gbdt_parties.channel import check_parties
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.features import Columns, check_weight, numeric_vector, read_columns
from xgb_fed.boosting.objectives import MIN_HESSIAN, Objective
from xgb_fed.boosting.params import Settings
from xgb_fed.ciphers.base import Scheme
from xgb_fed.ciphers.plain import Plain
from xgb_fed.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    LabelLeakWarning,
    NotEncryptedWarning,
    UnsupportedParameterError,
)
from xgb_fed.vertical.constraints import Constraints, PooledColumns
from xgb_fed.vertical.routing import ascending, row_positions
from xgb_fed.vertical.row_names import RowNames, check_rows
from xgb_fed.vertical.tree_modes import TreeMode

logger = logging.getLogger(__name__)

_FLOOR_ROOM = 1e7
"""How far `reg_lambda` or `min_child_weight` must be above all rows' smallest hessians together."""


@dataclass
class ActiveData:
    """The active party's rows: its columns, the labels, and weights.

    Parameters
    ----------
    data : matrix of shape (n_rows, n_features), or None
        None if the active party has no columns.
    label : array-like of shape (n_rows,)
    weight : array-like of shape (n_rows,), optional
    rows : array-like of int of shape (n_rows,), optional
        Positions of these rows in the passive parties' data, if those have more.  Training takes the rows in
        ascending order of these.
    """

    data: Any
    label: Any
    weight: Any = None
    rows: Any = None


@dataclass
class ActiveRows:
    """Checked rows of the active party."""

    columns: Columns | None
    y: NDArray[np.float32]
    weight: NDArray[np.float32] | None
    positions: NDArray[np.int32]
    names: RowNames | None = None

    @classmethod
    def read(cls, given: ActiveData, objective: Objective, argument: str) -> ActiveRows:
        """Check what was given; errors name the argument."""
        y = numeric_vector(given.label, f"label of {argument}")
        columns = None if given.data is None else read_columns(given.data, f"data of {argument}")
        if columns is not None and columns.n_rows != len(y):
            raise InvalidDataError(f"{argument} has {columns.n_rows} rows and {len(y)} labels")
        if not len(y):
            raise InvalidDataError(f"{argument} has no rows")
        objective.check_labels(y)
        weight = check_weight(given.weight, len(y), f"weight of {argument}")
        if columns is not None and columns.n_features == 0:
            columns = None
        return cls(columns, y, weight, row_positions(given.rows), RowNames.of(given.data))

    def ascending(self) -> ActiveRows:
        """The same rows in the order of their positions."""
        order, positions = ascending(self.positions, self.n_rows)
        if not len(order):
            return self
        return ActiveRows(
            None if self.columns is None else self.columns.take(order),
            self.y[order],
            None if self.weight is None else self.weight[order],
            positions,
            None if self.names is None else self.names.take(order),
        )

    @property
    def n_rows(self) -> int:
        """Rows of this set."""
        return len(self.y)


class TrainingTask:
    """One training run.

    Parameters
    ----------
    settings : Settings
    active_data : ActiveData
    parties : sequence of Party
    evals : sequence of (ActiveData, str)
    cipher : Scheme
    """

    def __init__(
        self,
        settings: Settings,
        active_data: ActiveData,
        parties: Sequence[Any],
        evals: Sequence[tuple[ActiveData, str]],
        cipher: Scheme,
    ) -> None:
        self.settings = settings
        self.objective = Objective(settings.objective, settings.n_classes, settings.scale_pos_weight)
        self.rows = ActiveRows.read(active_data, self.objective, "active_data").ascending()
        self.parties = check_parties(parties)
        self.evals = [(ActiveRows.read(data, self.objective, name), str(name)) for data, name in evals]
        self._check_weight()
        self._check_floor()
        self._check_evals()
        self._check_rows()
        own_names = [] if self.rows.columns is None else self.rows.columns.names
        n_own = len(own_names)
        # As far as names go; what depends on the parties' numbers of columns, `Rounds` checks.
        Constraints.of(settings, PooledColumns(own_names, [party.name for party in self.parties]))
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

    def digest(self) -> str:
        """Digest that identifies the training run: equal for equal data, settings, and parties' names."""
        sets = [self.rows, *self.eval_rows]
        arrays = [
            part
            for rows in sets
            for part in (
                None if rows.columns is None else rows.columns.data,
                rows.y,
                rows.weight,
                rows.positions,
            )
        ]
        own = None if self.rows.columns is None else self.rows.columns.names
        names = [party.name for party in self.parties], [name for _, name in self.evals], own
        return digest_of(self.settings, names, *arrays)

    def _check_weight(self) -> None:
        """Refuse what is not lossless: rows without weight, several classes, and no `min_child_weight`.

        XGBoost floors the hessians of such rows at 1e-16, and the rounding of its float64 sums then decides
        between candidates that differ in them only.
        """
        weight, settings = self.rows.weight, self.settings
        if weight is None or settings.n_classes == 1 or settings.min_child_weight > 0:
            return
        if weight.min() < np.finfo(np.float64).eps * np.float64(weight.max()):
            raise UnsupportedParameterError(
                f"min_child_weight=0 is not supported for {settings.objective} with weights of "
                f"{weight.min():g} beside {weight.max():g}: set min_child_weight, or leave those rows out"
            )

    def _check_floor(self) -> None:
        """Refuse what is not lossless: saturated rows in nodes that neither penalty nor minimum holds back.

        A row whose probability is 0 or 1 in float32 has a gradient of 0 and, in XGBoost, a hessian of 1e-16.
        A node of such rows alone has the sum H = n·1e-16 there, by which everything else is divided unless
        `reg_lambda` or `min_child_weight` is far above.
        """
        settings = self.settings
        least = _FLOOR_ROOM * float(MIN_HESSIAN) * self.rows.n_rows
        if not self.objective.has_floor:
            return
        if max(settings.reg_lambda, settings.min_child_weight) < least:
            raise UnsupportedParameterError(
                f"reg_lambda={settings.reg_lambda:g} with min_child_weight={settings.min_child_weight:g} is "
                f"not supported for {settings.objective} on {self.rows.n_rows} rows: one of them must be at "
                f"least {least:g}, or leaf values would depend on how XGBoost rounds hessians near 0"
            )

    def _check_evals(self) -> None:
        names = [name for _, name in self.evals]
        if len(set(names)) != len(names) or any("-" in name for name in names):
            raise InvalidArgumentError(f"evaluation sets must have different names without '-', not {names}")
        own = None if self.rows.columns is None else self.rows.columns.n_features
        for rows, name in self.evals:
            if (None if rows.columns is None else rows.columns.n_features) != own:
                raise InvalidDataError(f"evaluation set {name!r} has other columns than active_data")
            if rows.columns is not None and self.rows.columns is not None:
                rows.columns.check_names(self.rows.columns.names, f"evaluation set {name!r}")

    def _check_rows(self) -> None:
        check_rows(self.rows.names, self.parties, "active_data", self.rows.positions)
        for k, (rows, name) in enumerate(self.evals, start=1):
            check_rows(rows.names, self.parties, f"evaluation set {name!r}", rows.positions[:0], k)

    def announced(self) -> str:
        """What the progress bar says; who waits for the compiler on this machine is told so, once."""
        if not self.parties or isinstance(self.cipher, Plain) or arithmetic_is_compiled():
            return "federated rounds"
        logger.info("compiling kernels for this machine (once; they are cached)")
        return "federated rounds, the first while kernels are compiled (once)"
