"""The file of what all organisations declare about their columns before private training.

It is public, and the same at all parties: which columns there are, between which bounds or of which
categories, what the label is, and whose rows belong to one person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import InvalidDataError
from veilboost.plans.entries import PlanError, entry, read_section, shown
from veilboost.plans.files import parsed
from veilboost.plans.tables import kind_of, numbers_of, read_arrow


@dataclass(frozen=True)
class Declared:
    """Declaration of columns, label and unit."""

    label: str = entry("column of labels; for classes, these are numbered from 0")
    bounds: Mapping[str, list[float]] = entry("`[low, high]` of each column of numbers", {})
    categories: Mapping[str, list[Any]] = entry("values of each column of categories: texts or integers", {})
    label_bounds: list[float] | None = entry("`[low, high]` of targets that are numbers, which need it", None)
    max_bin: int = entry("bins of a column", 255)
    spacing: str = entry('`"mixed"` or `"linear"`: how bounds become bins', "mixed")
    weight: str | None = entry("column of weights", None)
    weight_bound: float | None = entry("bound of all weights; needed with `weight`", None)
    groups: str | None = entry(
        "column that tells persons apart; the guarantee then covers all rows of one person", None
    )
    rows_per_group: int | None = entry(
        "rows of one person at one organisation, at most; needed with `groups`", None
    )

    @property
    def columns(self) -> list[str]:
        """The features: columns of numbers, then of categories, as the file has them."""
        return [*self.bounds, *self.categories]

    def arguments(self) -> dict[str, Any]:
        """Arguments of `lgb_dp.federated.Party` that are the same everywhere."""
        given = {
            "bounds": {name: tuple(pair) for name, pair in self.bounds.items()},
            "categories": {name: list(values) for name, values in self.categories.items()},
            "label_bounds": None if self.label_bounds is None else tuple(self.label_bounds),
            "max_bin": self.max_bin,
            "spacing": self.spacing,
            "weight_bound": self.weight_bound,
            "rows_per_group": self.rows_per_group,
        }
        return {name: value for name, value in given.items() if value not in (None, {})}

    def table_of(self, file: str | Path, *, id_column: str | None = None, labelled: bool = True) -> Rows:
        """Read rows of the declared columns from a CSV or Parquet file.

        Raises
        ------
        InvalidDataError
            Naming the file, and the column that is missing or cannot be used.
        """
        path = Path(file)
        kind = kind_of(path)
        texts = [n for n, values in self.categories.items() if any(isinstance(v, str) for v in values)]
        others = [self.label, self.weight, self.groups] if labelled else []
        needed = [name for name in (*self.columns, *others, id_column) if name is not None]
        texts += [name for name in (id_column, self.groups if labelled else None) if name is not None]
        table = read_arrow(path, kind, texts, needed)
        absent = [name for name in needed if name not in table.column_names]
        if absent:
            raise InvalidDataError(f"{path} has no column {absent[0]!r}, which is declared or needed")
        if len(set(table.column_names)) < len(table.column_names):
            raise InvalidDataError(f"{path} has a declared column twice")
        own: dict[str, Any] = {}
        label = None
        if labelled:
            label = numbers_of(table.column(self.label), f"column {self.label!r}", path)
            if self.weight is not None:
                own["weight"] = numbers_of(table.column(self.weight), f"column {self.weight!r}", path)
            if self.groups is not None:
                own["groups"] = np.array(table.column(self.groups).to_pylist(), dtype=object)
        ids = [str(k) for k in range(1, table.num_rows + 1)]
        if id_column is not None:
            ids = table.column(id_column).to_pylist()
        return Rows(table.select(self.columns), label, own, ids)


@dataclass(frozen=True)
class Rows:
    """Rows of an organisation.

    Attributes
    ----------
    features : pyarrow.Table
    label : ndarray of float64, or None
    own : dict
        Weights and groups, as arguments of `lgb_dp.federated.Party`.
    ids : list of str
        Numbers from 1 if the file has none.
    """

    features: Any
    label: NDArray[np.float64] | None
    own: dict[str, Any]
    ids: list[str]


def read_declared(path: str | Path) -> Declared:
    """Read a file of declarations, TOML or YAML.

    Raises
    ------
    PlanError
        Naming the file, and the entry that is missing, unknown, or of another type.
    """
    path = Path(path)
    declared: Declared = read_section(Declared, parsed(path), str(path))
    pairs: dict[str, Any] = dict(declared.bounds)
    if declared.label_bounds is not None:
        pairs["label_bounds"] = declared.label_bounds
    for name, pair in pairs.items():
        if not _is_pair(pair):
            raise PlanError(f"{path}: bounds of {shown(name)} must be [low, high], two numbers")
    for name, values in declared.categories.items():
        if not isinstance(values, list) or not all(_is_category(value) for value in values):
            raise PlanError(f"{path}: categories of {shown(name)} must be a list of texts or of integers")
    twice = [name for name in declared.bounds if name in declared.categories]
    if twice:
        raise PlanError(f"{path}: column {shown(twice[0])} has both bounds and categories")
    if not declared.columns:
        raise PlanError(f"{path}: bounds and categories are missing; they say which columns there are")
    special = {declared.label, declared.weight, declared.groups} & set(declared.columns)
    if special:
        raise PlanError(f"{path}: {min(map(str, special))!r} cannot be a feature as well")
    return declared


def _is_pair(value: Any) -> bool:
    numbers = [isinstance(one, (int, float)) and not isinstance(one, bool) for one in _as_list(value)]
    return len(numbers) == 2 and all(numbers)


def _is_category(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
