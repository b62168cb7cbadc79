"""Modes of trees: the party that finds splits at each level (section 3.2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass, field

from xgb_fed.boosting.params import TREE_MODES
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError


@dataclass(frozen=True)
class Plan:
    """Levels at which parties search, for one tree.

    Attributes
    ----------
    active : range
        Of the active party.
    passive : dict
        Of each passive party that takes part, by number; every one starts at the root.
    """

    active: range
    passive: dict[int, range] = field(default_factory=dict)


@dataclass(frozen=True)
class TreeMode:
    """How the levels of trees are shared out.

    Parameters
    ----------
    name : {"default", "mix", "layered"}
        "default": every party searches at every level, the best split of all wins; lossless.
        "mix": parties take turns, each grows whole trees in its own columns.
        "layered": passive parties search at the first levels, the active one at the last.
    max_depth : int
    trees_per_party : int
        Boosting rounds of a turn; "mix" only.
    active_depth : int
        Last levels, the active party's; "layered" only.
    n_passive : int
    active_has_features : bool
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

    def plan(self, round_number: int) -> Plan:
        """Searching parties of each level in the trees of a boosting round."""
        everywhere, nowhere = range(self.max_depth), range(0)
        passive = range(1, self.n_passive + 1)
        if self.name == "layered":
            first = self.max_depth - self.active_depth
            return Plan(range(first, self.max_depth), dict.fromkeys(passive, range(first)))
        if self.name == "mix":
            turns = [*([0] if self.active_has_features else []), *passive]
            turn = turns[round_number // self.trees_per_party % len(turns)]
            return Plan(everywhere) if turn == 0 else Plan(nowhere, {turn: everywhere})
        return Plan(everywhere if self.active_has_features else nowhere, dict.fromkeys(passive, everywhere))
