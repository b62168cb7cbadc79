"""Whether everything that a vertical model's file holds is of the kind that a model has.

The file may be somebody else's, with a digest that fits. Values are checked here, once, for all users of the
model; whether the parts fit together is `check_parts`'s question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, fields
from typing import Any

from gbdt_parties.traffic import Flow
from xgb_fed.boosting.objectives import OBJECTIVES, SHARED_PARAMETERS, XGBoostObjective
from xgb_fed.vertical.trees.tree import FederatedTree
from xgb_fed.vertical.trees.tree_record import Restart

_MAX_INTEGER = 2**53
"""Integers at most, in size: float64 has all of them."""
_MAX_CLASSES = 2**20

_INTEGERS = ("left", "right", "parent", "owner", "split_id")
_PER_CLASS = ("weight", "value")


def _is_integer(value: Any) -> bool:
    return type(value) is int and abs(value) <= _MAX_INTEGER


def _is_number(value: Any) -> bool:
    return type(value) is float or _is_integer(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_list(value: Any, is_item: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(is_item, value))


def _check(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(name)


def objective_in(content: Mapping[str, Any]) -> XGBoostObjective:
    """The objective that a file names; raises ValueError or TypeError if it is none of XGBoost's."""
    objective = XGBoostObjective(**content)
    _check(isinstance(objective.name, str) and objective.name in OBJECTIVES, "objective")
    _check(_is_integer(objective.n_classes) and 1 <= objective.n_classes <= _MAX_CLASSES, "n_classes")
    _check(_is_number(objective.scale_pos_weight), "scale_pos_weight")
    _check(isinstance(objective.parameters, dict), "parameters")
    known = {*OBJECTIVES[objective.name], *SHARED_PARAMETERS.get(objective.name, ())}
    for name, value in objective.parameters.items():
        is_plain = _is_number(value) or _is_text(value) or _is_list(value, _is_number)
        _check(name in known and is_plain, "parameters")
    return objective


def tree_in(content: Mapping[str, Any], n_classes: int) -> FederatedTree:
    """A tree; raises a ValueError or a TypeError if its nodes are not those of one."""
    tree = FederatedTree(**content)
    for name in (one.name for one in fields(tree)):
        values = getattr(tree, name)
        if name in _PER_CLASS:
            _check(_is_list(values, lambda of_node: _is_list(of_node, _is_number)), name)
            sizes = {len(of_node) for of_node in values}
            _check(len(sizes) <= 1 and sizes <= {1, n_classes}, name)
        else:
            _check(_is_list(values, _is_integer if name in _INTEGERS else _is_number), name)
    return tree


def restart_in(content: Mapping[str, Any]) -> Restart:
    """A restart; raises a ValueError or a TypeError if it is none."""
    restart = Restart(**content)
    is_one = _is_integer(restart.tree) and _is_integer(restart.level) and _is_text(restart.party)
    _check(is_one, "restarts")
    return restart


def flow_in(key: Any, counts: Any) -> tuple[tuple[str, str, str], Flow]:
    """A flow by sender, receiver and message; raises a ValueError or a TypeError if it is none."""
    flow = Flow(*counts)
    _check(_is_list(key, _is_text) and len(key) == 3, "flows")
    _check(all(_is_integer(count) and count >= 0 for count in astuple(flow)), "flows")
    return (key[0], key[1], key[2]), flow


def n_drawn_in(value: Any) -> int:
    """A number of draws; raises a ValueError if it is none."""
    _check(_is_integer(value) and value >= 0, "n_drawn")
    return int(value)


def check_plain_values(content: Mapping[str, Any], n_classes: int) -> None:
    """ValueError or KeyError, by entry, unless a model file's plain entries are as they must be."""
    base_score = content["base_score"]
    _check(_is_list(base_score, _is_number) and len(base_score) in (1, n_classes), "base_score")
    parties = content["parties"]
    _check(_is_list(parties, _is_text) and len(set(parties)) == len(parties), "parties")
    _check(_is_list(content["party_features"], lambda n: _is_integer(n) and n >= 0), "party_features")
    rounds, best = content["rounds"], content["best_iteration"]
    _check(_is_list(rounds, _is_integer) and bool(rounds), "rounds")
    _check(best is None or (_is_integer(best) and 0 <= best < len(rounds) - 1), "best_iteration")
    _check(content["best_score"] is None or _is_number(content["best_score"]), "best_score")
