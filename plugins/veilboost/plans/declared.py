"""The file of what organisations declare about their columns before private training.

It is public: names of columns, bounds or categories, the label, and the column that tells persons apart.
With rows apart it is the same at all parties; with columns apart each party has its own, and the label is in
one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import InvalidDataError
from veilboost.plans.entries import PlanError, entry, read_section, shown
from veilboost.plans.file_forms import PLAIN, FileForm, hint_at_separator
from veilboost.plans.files import parsed
from veilboost.plans.tables import (
    LABELS,
    RowNumbers,
    checked_ids,
    kind_of,
    label_columns,
    labels_of,
    names_in,
    numbers_of,
    read_arrow,
)

MAX_UNDECLARED = 0.01
"""Share of the rows that may have a value of a column that is not declared."""


@dataclass(frozen=True, kw_only=True)
class DeclaredColumns:
    """Declaration of columns alone."""

    bounds: Mapping[str, list[float]] = entry("`[low, high]` of each column of numbers or dates", {})
    categories: Mapping[str, list[Any]] = entry("values of each column of categories: texts or integers", {})
    max_bin: int = entry("bins of a column", 255)
    spacing: str = entry('`"mixed"` or `"linear"`: how bounds become bins', "mixed")
    accept_undeclared: list[str] = entry(
        "columns of categories where over 1% of the rows may have other values, which count as missing", []
    )

    @property
    def columns(self) -> list[str]:
        """The features: columns of numbers, then of categories, as the file has them."""
        return [*self.bounds, *self.categories]

    @property
    def others(self) -> list[str]:
        """Declared columns that are no features."""
        return []

    def arguments(self) -> dict[str, Any]:
        """Declarations as arguments of a party of `lgb_dp`."""
        given = {
            "bounds": {name: tuple(pair) for name, pair in self.bounds.items()},
            "categories": {name: list(values) for name, values in self.categories.items()},
            "max_bin": self.max_bin,
            "spacing": self.spacing,
        }
        return {name: value for name, value in given.items() if value != {}}

    def table_of(
        self, file: str | Path, *, id_column: str | None = None, labelled: bool = True, form: FileForm = PLAIN
    ) -> Rows:
        """Read rows of the declared columns from a CSV or Parquet file; `labelled`, with the other columns.

        InvalidDataError names the file, and the column that is missing, cannot be used, or has undeclared
        values in more than `MAX_UNDECLARED` of the rows.
        """
        path = Path(file)
        kind = kind_of(path)
        texts = [n for n, values in self.categories.items() if any(isinstance(v, str) for v in values)]
        others = self.others if labelled else []
        needed = [*self.columns, *others, *([] if id_column is None else [id_column])]
        groups = getattr(self, "groups", None) if labelled else None
        texts += [name for name in (id_column, groups) if name is not None]
        table = read_arrow(path, kind, texts, needed, form)
        absent = [name for name in needed if name not in table.column_names]
        if absent:
            hint = hint_at_separator(names_in(path, kind, form), form) if kind == ".csv" else ""
            raise InvalidDataError(f"{path} has no column {absent[0]!r}, which is declared or needed{hint}")
        ids: Sequence[str] = RowNumbers(table.num_rows)
        if id_column is not None:
            ids = table.column(id_column).to_pylist()
        label, own = self._own_of(table, path) if labelled else (None, {})
        features = table.select(self.columns)
        self._check_values(features, path)
        return Rows(features, label, own, ids)

    def _check_values(self, features: Any, path: Path) -> None:
        # Loaded where there are rows to look at, with LightGBM.
        from lgb_dp.bounds_check import undeclared_shares

        if self.looked_at and features.num_rows:
            self.check_shares(undeclared_shares(features, self.looked_at), path)

    @property
    def looked_at(self) -> dict[str, list[Any]]:
        """Values of the columns in which hardly any others are accepted."""
        return {name: of for name, of in self.categories.items() if name not in self.accept_undeclared}

    def check_shares(self, undeclared: Mapping[str, float | None], path: str | Path) -> None:
        """Refuse undeclared values in too many rows, by their share in each column; None without rows."""
        for name, share in undeclared.items():
            if share is not None and share > MAX_UNDECLARED:
                raise InvalidDataError(
                    f"{path}: column {name!r} has a value that is not declared in {share:.1%} of the rows, "
                    "which would count as missing; correct the file or the declaration, or name the column "
                    "in accept_undeclared"
                )

    def _own_of(self, table: Any, path: Path) -> tuple[NDArray[np.float64] | None, dict[str, Any]]:
        """Labels of a table, and what else is its rows' own."""
        return None, {}


@dataclass(frozen=True, kw_only=True)
class Declared(DeclaredColumns):
    """Declaration of columns, label and unit."""

    label: str = entry(
        "column of labels, classes numbered from 0; for times `lower,upper`, the second empty without event"
    )
    label_bounds: list[float] | None = entry("`[low, high]` of targets that are numbers, which need it", None)
    weight: str | None = entry("column of weights", None)
    weight_bound: float | None = entry("bound of all weights; needed with `weight`", None)
    groups: str | None = entry(
        "column that tells persons apart; the guarantee then covers all rows of one person", None
    )
    rows_per_group: int | None = entry(
        "rows of one person at one organisation, at most; needed with `groups`", None
    )

    @property
    def others(self) -> list[str]:
        """Declared columns that are no features."""
        own = [name for name in (self.weight, self.groups) if name is not None]
        return [*label_columns(self.label, self.columns), *own]

    def arguments(self) -> dict[str, Any]:
        """Declarations as arguments of a party of `lgb_dp`."""
        given = {
            "label_bounds": None if self.label_bounds is None else tuple(self.label_bounds),
            "weight_bound": self.weight_bound,
            "rows_per_group": self.rows_per_group,
        }
        return super().arguments() | {name: value for name, value in given.items() if value is not None}

    def check_classes(self, rows: Rows, file: Path, parameters: Mapping[str, Any]) -> None:
        """Refuse labels that are not the numbers of the classes that a plan's parameters train.

        InvalidDataError names the file and the column, which the library does not know.
        """
        from lgb_dp.boosting.params import training_parameters

        known = training_parameters({**parameters, "max_bin": None}, None)
        n_classes = 2 if known.objective == "binary" and self.label_bounds is None else known.n_outputs
        if n_classes > 1 and not np.isin(np.asarray(rows.label), range(n_classes)).all():
            raise InvalidDataError(
                f"{file}: column {self.label!r} of labels has other values than the classes 0 to "
                f"{n_classes - 1} of {known.objective}; {LABELS}"
            )

    def _own_of(self, table: Any, path: Path) -> tuple[NDArray[np.float64] | None, dict[str, Any]]:
        own: dict[str, Any] = {}
        if self.weight is not None:
            own["weight"] = numbers_of(table.column(self.weight), f"column {self.weight!r}", path)
        if self.groups is not None:
            own["groups"] = np.array(table.column(self.groups).to_pylist(), dtype=object)
        labels = label_columns(self.label, table.column_names)
        return labels_of({name: table.column(name) for name in labels}, path), own


@dataclass(frozen=True)
class Rows:
    """An organisation's rows, with `ids`, or numbers from 1; `own` are weights and groups for a `Party`."""

    features: Any
    label: NDArray[np.float64] | None
    own: dict[str, Any]
    ids: Sequence[str]


def rows_to_align(
    declared: DeclaredColumns, file: str | Path, id_column: str | None, form: FileForm = PLAIN
) -> Rows:
    """Read rows that are found by their ids, which must all be different; errors are those of `table_of`."""
    rows = declared.table_of(file, id_column=id_column, form=form)
    if rows.own:
        raise InvalidDataError(
            f"{' and '.join(rows.own)} of {file} cannot be used with columns apart: leave the declaration out"
        )
    if id_column is not None:
        checked_ids(rows.ids, Path(file))
    return rows


DeclaredT = TypeVar("DeclaredT", bound=DeclaredColumns)


def read_declared(path: str | Path) -> Declared:
    """Declared columns and label from TOML or YAML; PlanError names the file and a wrong entry."""
    return _read(Declared, Path(path))


def read_declared_columns(path: str | Path) -> DeclaredColumns:
    """Read a file of declarations of columns alone, TOML or YAML; errors are those of `read_declared`."""
    return _read(DeclaredColumns, Path(path))


def _read(kind: type[DeclaredT], path: Path) -> DeclaredT:
    declared: DeclaredT = read_section(kind, parsed(path), str(path))
    pairs: dict[str, Any] = dict(declared.bounds)
    label_bounds = getattr(declared, "label_bounds", None)
    if label_bounds is not None:
        pairs["label_bounds"] = label_bounds
    for name, pair in pairs.items():
        if not _is_pair(pair):
            raise PlanError(f"{path}: bounds of {shown(name)} must be [low, high], two numbers or dates")
    for name, values in declared.categories.items():
        if not isinstance(values, list) or not all(_is_category(value) for value in values):
            raise PlanError(f"{path}: categories of {shown(name)} must be a list of texts or of integers")
    twice = [name for name in declared.bounds if name in declared.categories]
    if twice:
        raise PlanError(f"{path}: column {shown(twice[0])} has both bounds and categories")
    for name in declared.accept_undeclared:
        if name not in declared.categories:
            raise PlanError(f"{path}: accept_undeclared names {shown(name)}, which has no categories")
    if not declared.columns:
        raise PlanError(f"{path}: bounds and categories are missing; they say which columns there are")
    special = set(declared.others) & set(declared.columns)
    if special:
        raise PlanError(f"{path}: {min(special)!r} cannot be a feature as well")
    return declared


def _is_pair(value: Any) -> bool:
    pair = _as_list(value)
    kinds = (date,) if all(isinstance(one, date) for one in pair) else (int, float)
    return len(pair) == 2 and all(isinstance(one, kinds) and not isinstance(one, bool) for one in pair)


def _is_category(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
