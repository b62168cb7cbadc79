"""The size of a training run, as far as its plan and the files beside it say it."""

from __future__ import annotations

from typing import Any

from gbdt_parties.identity.aligned_rows import Alignment
from veilboost.plans.declared import read_declared
from veilboost.plans.sections import Plan
from veilboost.plans.tables import kind_of, names_in, read_arrow, read_table

_SETTINGS = {"max_depth": "depth", "max_bin": "bins", "subsample": "sampled"}
"""Parameters of a plan, and what ``estimate`` calls them."""


def sizes_of(plan: Plan[Any, Any]) -> dict[str, Any]:
    """Sizes of a vertical, exact or private run, by the names that ``estimate`` gives them.

    The rows of a coordinator stand for those of every party.  In vertical training the others' columns are
    not known here, and rows are those in common where they were aligned.

    Raises
    ------
    InvalidDataError, PlanError
        If a file that is there cannot be read.
    """
    data, parameters = plan.data, plan.parameters
    n_parties = len(plan.parties) + (data.file is not None)
    found = {name: parameters[key] for key, name in _SETTINGS.items() if _are_numbers([parameters.get(key)])}
    goss = parameters.get("goss")
    if isinstance(goss, list) and _are_numbers(goss):
        found["sampled"] = sum(goss)
    found |= {"parties": n_parties, "trees": plan.training.rounds}
    if plan.method == "vertical":
        found |= {"cipher": plan.training.cipher, "key_length": plan.training.key_length}
        return {**found, **_rows_in_common(plan)}
    own = _of_private(plan) if plan.method == "private" else _of_exact(plan)
    if "rows" in own:
        own["rows"] *= n_parties
    return {**own, **found}


def _are_numbers(values: list[Any]) -> bool:
    """Whether entries are numbers; others are for training to refuse."""
    return all(isinstance(value, (int, float)) for value in values)


def _rows_in_common(plan: Plan[Any, Any]) -> dict[str, int]:
    aligned, file = plan.path(plan.data.aligned), plan.path(plan.data.file)
    if plan.data.id is not None and aligned.is_file():
        return {"rows": len(Alignment.load(aligned).ids)}
    if not file.is_file():
        return {}
    how = {"one_hot": plan.data.one_hot, "categorical": plan.data.categorical}
    return {"rows": _table(plan, **how).columns.n_rows}


def _of_exact(plan: Plan[Any, Any]) -> dict[str, int]:
    if plan.data.file is None or not plan.path(plan.data.file).is_file():
        return {}
    columns = _table(plan).columns
    return {"rows": columns.n_rows, "columns": columns.n_features}


def _table(plan: Plan[Any, Any], **how: Any) -> Any:
    data = plan.data
    how |= {"id_column": data.id, "label": data.label, "drop": data.drop, "form": plan.form}
    return read_table(plan.path(data.file), **how)


def _of_private(plan: Plan[Any, Any]) -> dict[str, int]:
    if plan.data.declared is None:
        return {}
    declared = read_declared(plan.path(plan.data.declared))
    found = {"columns": len(declared.columns), "bins": declared.max_bin}
    file = None if plan.data.file is None else plan.path(plan.data.file)
    if file is None or not file.is_file():
        return found
    kind = kind_of(file)
    return {
        **found,
        "rows": read_arrow(file, kind, [], names_in(file, kind, plan.form)[:1], plan.form).num_rows,
    }
