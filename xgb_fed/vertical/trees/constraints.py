"""Monotone and interaction constraints over the columns of all parties, and what they leave of each node.

Only the active party knows them: it gets every party's sums of all columns, and passes over the candidates
that a constraint forbids.  A passive party's columns are named by the party and their position in its data:
``"bank:3"``, or ``"bank: column 3"`` as in explanations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from xgb_fed.boosting.candidates import NodeTerms
from xgb_fed.boosting.constraint_params import Column
from xgb_fed.boosting.params import Settings
from xgb_fed.boosting.sampling import TreeColumns
from xgb_fed.boosting.split_gain import NodeBounds
from xgb_fed.errors import InvalidArgumentError


@dataclass(frozen=True)
class PooledColumns:
    """All parties' columns, the active one's first; `counts` of each passive party, or None yet."""

    own_names: Sequence[str]
    parties: Sequence[str]
    counts: Sequence[int] | None = None

    @property
    def first(self) -> NDArray[np.int64]:
        """Number of each party's first column, and how many columns there are in all."""
        return np.cumsum([0, len(self.own_names), *(self.counts or [])]).astype(np.int64)

    def number(self, column: Column, parameter: str) -> int:
        """Number of a column among all, −1 if not known yet; `InvalidArgumentError` without it."""
        if isinstance(column, int):
            if column < 0 or (self._is_complete and column >= self.first[-1]):
                known = f"{self.first[-1]} columns" if self._is_complete else "columns from 0"
                raise InvalidArgumentError(f"{parameter} names column {column}; there are {known}")
            return column
        if column in self.own_names:
            return list(self.own_names).index(column)
        party, _, number = column.rpartition(":")
        number = number.removeprefix(" column ")
        if party not in self.parties or not (number.isdecimal() and number.isascii()):
            examples = ", ".join(f"{name}:0" for name in self.parties)
            raise InvalidArgumentError(
                f"{parameter} names column {column!r}, which is not one of {list(self.own_names)}"
                + (f" nor a passive party's, as {examples} would be" if examples else "")
            )
        if self.counts is None:
            return -1
        owner = list(self.parties).index(party)
        if int(number) >= self.counts[owner]:
            raise InvalidArgumentError(
                f"{parameter} names column {column!r}; party {party!r} has {self.counts[owner]} columns, "
                f"{party}:0 to {party}:{self.counts[owner] - 1}"
            )
        return int(self.first[owner + 1]) + int(number)

    @property
    def _is_complete(self) -> bool:
        return self.counts is not None or not self.parties


@dataclass(frozen=True)
class Constraints:
    """The constraints of a training run, by the columns' numbers among those of all parties.

    `directions`, shape (n_columns,), are those of `monotone_constraints`; either is None without such.
    """

    directions: NDArray[np.int8] | None = None
    interactions: tuple[frozenset[int], ...] | None = None

    @classmethod
    def of(cls, settings: Settings, columns: PooledColumns) -> Constraints:
        """Columns that the settings name; `InvalidArgumentError` for a parameter with an unknown column."""
        directions = interactions = None
        if settings.monotone_constraints is not None:
            name = "monotone_constraints"
            numbers = [(columns.number(c, name), sign) for c, sign in settings.monotone_constraints]
            directions = np.zeros(int(columns.first[-1]), dtype=np.int8)
            for number, sign in numbers:
                if 0 <= number < len(directions):
                    directions[number] = sign
        if settings.interaction_constraints is not None:
            name = "interaction_constraints"
            interactions = tuple(
                frozenset(columns.number(c, name) for c in group)
                for group in settings.interaction_constraints
            )
        return cls(directions, interactions)

    def permitted(self, path: frozenset[int]) -> Iterable[int] | None:
        """Columns that may split a node below splits of these columns; None means all."""
        if self.interactions is None or not path:
            return None
        return path.union(*(group for group in self.interactions if path <= group))


@dataclass(frozen=True)
class NodeRules:
    """Rules that a node inherits: monotone bounds, and the split columns above for interactions."""

    bounds: NodeBounds | None = None
    path: frozenset[int] = field(default_factory=frozenset)


class TreeRules:
    """Rules for the candidates of one tree's nodes; `first` is that of `PooledColumns`."""

    def __init__(self, constraints: Constraints, first: NDArray[np.int64], columns: TreeColumns) -> None:
        self._constraints, self._first, self._columns = constraints, first, columns

    def root(self) -> NodeRules:
        """Rules of the root."""
        return NodeRules(None if self._constraints.directions is None else NodeBounds())

    def children(
        self, rules: NodeRules, owner: int, column: int, left: np.float32, right: np.float32
    ) -> tuple[NodeRules, NodeRules]:
        """Rules that the children of a split inherit from those of the node.

        `column` is the number at its owner of the column that splits it; `left` and `right` are the
        children's weights.
        """
        constraints, number = self._constraints, int(self._first[owner]) + column
        path = rules.path if constraints.interactions is None else rules.path | {number}
        if rules.bounds is None or constraints.directions is None:
            return (NodeRules(None, path),) * 2
        own = rules.bounds.own
        below = own.of_children(int(constraints.directions[number]), left, right)
        return NodeRules(NodeBounds(below[0], own), path), NodeRules(NodeBounds(below[1], own), path)

    def next_level(self, nodes: Sequence[NodeRules]) -> dict[int, list[NodeTerms]]:
        """Constraints on the next level's nodes, by party, or empty; its columns are drawn here."""
        constraints = self._constraints
        drawn = self._columns.of_nodes(len(nodes))
        if drawn is None and constraints.directions is None and constraints.interactions is None:
            return {}
        terms: dict[int, list[NodeTerms]] = {}
        for k, node in enumerate(nodes):
            allowed = self._allowed(constraints.permitted(node.path), None if drawn is None else drawn[k])
            for party, (start, end) in enumerate(pairwise(self._first)):
                one = NodeTerms(
                    None if allowed is None else allowed[start:end],
                    node.bounds,
                    None if constraints.directions is None else constraints.directions[start:end],
                )
                terms.setdefault(party, []).append(one)
        return terms

    def _allowed(
        self, permitted: Iterable[int] | None, drawn: NDArray[np.int64] | None
    ) -> NDArray[np.bool_] | None:
        """Which of all columns may split a node; None means all."""
        if permitted is None and drawn is None:
            return None
        allowed = np.full(int(self._first[-1]), drawn is None)
        if drawn is not None:
            allowed[drawn] = True
        if permitted is not None:
            others = np.ones(len(allowed), dtype=bool)
            others[sorted(permitted)] = False
            allowed[others] = False
        return allowed
