"""The plan of a training run's initiator, and the settings of a served party, as TOML or YAML files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from veilboost.plans import exact, private, private_columns, simfl, vertical
from veilboost.plans.entries import PlanError, as_table, beside, check_known, fault_of, read_section, shown
from veilboost.plans.file_forms import faults_of_form
from veilboost.plans.files import parsed
from veilboost.plans.paths import UsedPath, faults_of_paths, paths_of
from veilboost.plans.sections import (
    InitiatorRows,
    OwnRows,
    PartyAddress,
    Plan,
    Served,
    TrainingSection,
    faults_of_budget,
)


def _no_faults(_served: Any, _called: Callable[[str], str]) -> Iterator[str]:
    return iter(())


@dataclass(frozen=True)
class Method:
    """A kind of training: its sections, and what is checked of several entries together."""

    data: type[Any]
    training: type[TrainingSection]
    served: type[Served]
    faults: Callable[[Any], Iterator[str]]
    faults_of_served: Callable[[Any, Callable[[str], str]], Iterator[str]] = _no_faults


METHODS: dict[str, Method] = {
    "vertical": Method(
        vertical.VerticalData,
        vertical.VerticalTraining,
        vertical.VerticalServed,
        vertical.faults,
        vertical.faults_of_served,
    ),
    "exact": Method(exact.ExactData, exact.ExactSection, exact.ExactServed, exact.faults),
    "private": Method(
        private.PrivateData,
        private.PrivateTraining,
        private.PrivateServed,
        private.faults,
        private.faults_of_served,
    ),
    "private-columns": Method(
        private_columns.PrivateColumnsData,
        private_columns.PrivateColumnsTraining,
        private_columns.PrivateColumnsServed,
        private_columns.faults,
        faults_of_budget,
    ),
    "simfl": Method(simfl.SimFLData, simfl.SimFLTraining, simfl.SimFLServed, simfl.faults),
}
"""Vertical training; horizontal training, exact and private; private training with columns apart; SimFL."""

COLUMNS_APART = ("vertical", "private-columns")

ENTRIES = {
    "method": '`"vertical"`, `"exact"`, `"private"`, `"private-columns"` or `"simfl"`; `"vertical"` by '
    "default",
    "tls": "folder with `ca.pem`, `party.pem` and `party.key`; needed",
    "data": "table of this organisation's file; needed with `vertical` and `private-columns`",
    "parties": "list of at least one table, of the other organisations; needed",
    "training": "table of settings of the training run",
    "parameters": "table of XGBoost's parameters, such as `max_depth`, `learning_rate`, `max_bin`, "
    "`eval_metric`; with `private` and `private-columns` LightGBM's, such as `objective`",
}
"""The entries of a plan outside sections, and its sections."""


def read_plan(path: str | Path) -> Plan[Any, Any]:
    """Read the plan of a run's initiator; PlanError names the file and the entry that is refused."""
    path = Path(path)
    content = parsed(path)
    check_known(content, ENTRIES, str(path))
    method = method_of(content, path)
    if not isinstance(content.get("tls"), str):
        raise PlanError(f"{path}: tls must be the folder of certificates")
    parties = content.get("parties")
    if not isinstance(parties, list) or not parties:
        raise PlanError(f"{path}: parties must be a list of at least one")
    plan = Plan(
        method,
        path.parent,
        content["tls"],
        [read_section(PartyAddress, party, f"{path}: parties[{k}]") for k, party in enumerate(parties)],
        dict(as_table(content.get("parameters", {}), f"{path}: parameters")),
        read_section(
            METHODS[method].data,
            content.get("data", {} if issubclass(METHODS[method].data, OwnRows) else None),
            f"{path}: data",
        ),
        read_section(METHODS[method].training, content.get("training", {}), f"{path}: training"),
    )
    for fault in (*_faults(plan), *faults_of_paths([UsedPath("the plan", path), *plan.paths])):
        raise PlanError(f"{path}: {fault}")
    return plan


def method_of(content: Mapping[str, Any], path: Path) -> str:
    """The kind of training that a file is for."""
    method = content.get("method", "vertical")
    if not isinstance(method, str) or method not in METHODS:
        raise PlanError(f"{path}: method={shown(method)} must be one of {list(METHODS)}")
    return method


def module_of(method: str, package: str) -> Any:
    """The module of a package that holds a kind of training, with the libraries that it needs."""
    return import_module(f"{package}.{method.replace('-', '_')}")


def _faults(plan: Plan[Any, Any]) -> Iterator[str]:
    """Faults of a plan, as sentences."""
    for name, section in (("data", plan.data), ("training", plan.training)):
        fault = fault_of(section, f"{name}.{{}}".format)
        if fault is not None:
            yield fault
    yield from faults_of_columns(plan.data, "data.{}".format)
    yield from _faults_of_form(plan.method, plan.data, "data.{}".format)
    if isinstance(plan.data, OwnRows):
        yield from _faults_of_own_rows(plan.data, plan.parties)
    yield from METHODS[plan.method].faults(plan)


def faults_of_columns(section: Any, called: Callable[[str], str]) -> Iterator[str]:
    """Columns that are two things at once, or that are encoded and not used."""
    roles = dict[str, str]()
    for role in ("label", "id", "drop", "one_hot", "categorical"):
        given = getattr(section, role, None) or []
        for name in [given] if isinstance(given, str) else given:
            if roles.setdefault(name, role) != role:
                yield f"{called(role)} has {shown(name)}, which is {called(roles[name])} as well"
    columns = getattr(section, "columns", None)
    if columns is None:
        return
    for name, role in roles.items():
        if (name in columns) != (role in ("one_hot", "categorical")):
            what = "has" if name in columns else "lacks"
            yield f"{called('columns')} {what} {shown(name)}, which is {called(role)}"


def _faults_of_form(method: str, section: Any, called: Callable[[str], str]) -> Iterator[str]:
    """The form of files, and rows left out where they would be found by their places."""
    yield from faults_of_form(section, called)
    if method in COLUMNS_APART and section.exclude is not None and section.id is None:
        yield f"{called('exclude')} needs {called('id')}: the other party's rows would be in other places"


def _faults_of_own_rows(data: OwnRows, parties: list[PartyAddress]) -> Iterator[str]:
    """Rows of a coordinator that lack labels, or other parties."""
    holds_rows = data.file is not None or getattr(data, "valid", None) is not None
    if isinstance(data, InitiatorRows) and data.label is None and holds_rows:
        yield "data.label is missing; it names the column of labels"
    if len(parties) + (data.file is not None) < 2:
        yield "parties has one party and data.file is missing; training needs at least two parties"


def read_served(path: str | Path) -> tuple[str, Served]:
    """Settings of a party that ``serve`` starts, from its kind and options; errors as `read_plan`."""
    path = Path(path)
    content = dict(parsed(path))
    method = method_of(content, path)
    content.pop("method", None)
    served: Served = beside(read_section(METHODS[method].served, content, str(path)), path.parent)
    for fault in faults_of_served(method, served, str):
        raise PlanError(f"{path}: {fault}")
    return method, served


def faults_of_served(method: str, served: Served, called: Callable[[str], str]) -> Iterator[str]:
    """Sentences on settings that admit nothing or contradict; `called` gives an entry's name."""
    fault = fault_of(served, called)
    if fault is not None:
        yield fault
    yield from faults_of_columns(served, called)
    yield from _faults_of_form(method, served, called)
    yield from faults_of_paths(paths_of(served, Path(), called))
    yield from METHODS[method].faults_of_served(served, called)
