"""The plan of a training run's initiator: a TOML or YAML file of data, parties and certificates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from gbdt_commons.errors import VeilboostError
from gbdt_commons.quoting import quoted
from veilboost.plans.sections import (
    CIPHERS,
    DataPlan,
    ExactRowsPlan,
    ExactTrainingPlan,
    OwnRowsPlan,
    PartyPlan,
    PrivateRowsPlan,
    PrivateTrainingPlan,
    RunPlan,
    SimFLPlan,
    TrainingPlan,
)
from xgb_fed.horizontal.exact.cuts import DIGITS

SECUREBOOST, EXACT, SIMFL, PRIVATE = "secureboost", "exact", "simfl", "private"
METHODS = (SECUREBOOST, EXACT, SIMFL, PRIVATE)
"""Vertical training, and horizontal training: exact, by SimFL, and differentially private."""

LABELS = ("classes", "numbers")
"""Kinds of a horizontal party's labels."""


MAX_DEPTH = 16
"""Tables and lists within each other; no entry of any file needs a quarter of it."""


class PlanError(VeilboostError, ValueError):
    """A plan cannot be read, or has unknown entries."""


@dataclass(frozen=True)
class Plan:
    """A whole plan; its paths are relative to its folder."""

    folder: Path
    tls: str
    parties: list[PartyPlan]
    parameters: dict[str, Any]

    def path(self, name: str) -> Path:
        """Resolve a path of the plan."""
        return self.folder / name


@dataclass(frozen=True)
class VerticalPlan(Plan):
    """A plan of vertical training."""

    data: DataPlan
    training: TrainingPlan


@dataclass(frozen=True)
class ExactPlan(Plan):
    """A plan of exact horizontal training."""

    data: ExactRowsPlan
    training: ExactTrainingPlan


@dataclass(frozen=True)
class HorizontalPlan(Plan):
    """A plan of horizontal training by SimFL."""

    data: OwnRowsPlan
    training: SimFLPlan


@dataclass(frozen=True)
class PrivatePlan(Plan):
    """A plan of private training."""

    data: PrivateRowsPlan
    training: PrivateTrainingPlan


SECTIONS: dict[str, dict[str, type[Any]]] = {
    SECUREBOOST: {"data": DataPlan, "parties": PartyPlan, "training": TrainingPlan},
    EXACT: {"data": ExactRowsPlan, "parties": PartyPlan, "training": ExactTrainingPlan},
    SIMFL: {"data": OwnRowsPlan, "parties": PartyPlan, "training": SimFLPlan},
    PRIVATE: {"data": PrivateRowsPlan, "parties": PartyPlan, "training": PrivateTrainingPlan},
}
"""The sections of a plan, by method."""

MAX_SECONDS = 1e7
"""Of `timeout` and `patience`: a third of a year, which every clock can count."""

ENTRIES = ("method", "tls", "data", "parties", "training", "parameters")
"""The entries of a plan outside sections, and its sections."""


def read_plan(path: str | Path) -> VerticalPlan | ExactPlan | HorizontalPlan | PrivatePlan:
    """Read a plan.

    Raises
    ------
    PlanError
        Naming the file, and the entry that is missing, unknown, or of another type.
    """
    path = Path(path)
    content = parsed(path)
    check_known(content, set(ENTRIES), str(path))
    method = content.get("method", SECUREBOOST)
    if method not in METHODS:
        raise PlanError(f"{path}: method={shown(method)} must be one of {list(METHODS)}")
    if not isinstance(content.get("tls"), str):
        raise PlanError(f"{path}: tls must be the folder of certificates")
    parties = content.get("parties")
    if not isinstance(parties, list) or not parties:
        raise PlanError(f"{path}: parties must be a list of at least one")
    sections = SECTIONS[method]
    named = [_section(sections["parties"], party, f"{path}: parties[{k}]") for k, party in enumerate(parties)]
    training = _section(sections["training"], content.get("training", {}), f"{path}: training")
    parameters = dict(_mapping(content.get("parameters", {}), f"{path}: parameters"))
    own = content.get("data", None if method == SECUREBOOST else {})
    data = _section(sections["data"], own, f"{path}: data")
    _check_numbers(path, training)
    if method == PRIVATE:
        _check_private(path, data, training, named)
        return PrivatePlan(path.parent, content["tls"], named, parameters, data, training)
    _check_columns(path, data)
    if method == EXACT:
        _check_own_rows(path, data, named)
        _check_exact(path, data, training)
        return ExactPlan(path.parent, content["tls"], named, parameters, data, training)
    if training.early_stopping_rounds is not None and data.valid is None:
        raise PlanError(f"{path}: training.early_stopping_rounds needs data.valid")
    if method == SIMFL:
        _check_own_rows(path, data, named)
        return HorizontalPlan(path.parent, content["tls"], named, parameters, data, training)
    if training.cipher not in CIPHERS:
        raise PlanError(f"{path}: training.cipher={shown(training.cipher)} must be one of {sorted(CIPHERS)}")
    if data.valid is not None and data.id is None:
        raise PlanError(f"{path}: data.valid needs data.id; rows to evaluate are found by their ids")
    return VerticalPlan(path.parent, content["tls"], named, parameters, data, training)


def _check_numbers(path: Path, training: RunPlan) -> None:
    """Check numbers that are used long after the plan was read."""
    if training.rounds < 1:
        raise PlanError(f"{path}: training.rounds={shown(training.rounds)} must be at least 1")
    if not 0 < training.timeout <= MAX_SECONDS:
        raise PlanError(
            f"{path}: training.timeout={shown(training.timeout)} must be above 0, up to {MAX_SECONDS:g}"
        )
    if not 0 <= training.patience <= MAX_SECONDS:
        raise PlanError(f"{path}: training.patience={shown(training.patience)} must be 0 to {MAX_SECONDS:g}")


def _check_columns(path: Path, data: DataPlan | ExactRowsPlan | OwnRowsPlan) -> None:
    """Check that no column is two things at once."""
    if data.label is not None and data.label == data.id:
        raise PlanError(f"{path}: data.id={shown(data.id)} is the column of labels")
    for name in ("label", "id"):
        column = getattr(data, name)
        if column is not None and column in data.drop:
            raise PlanError(f"{path}: data.drop has {shown(column)}, which is data.{name}")


def _check_own_rows(path: Path, data: ExactRowsPlan | OwnRowsPlan, parties: list[PartyPlan]) -> None:
    """Check what entries of a horizontal plan have to do with each other."""
    if data.labels not in LABELS:
        raise PlanError(f"{path}: data.labels={shown(data.labels)} must be one of {list(LABELS)}")
    if data.label is None and (data.file is not None or data.valid is not None):
        raise PlanError(f"{path}: data.label is missing; it names the column of labels")
    if len(parties) + (data.file is not None) < 2:
        raise PlanError(
            f"{path}: parties has one party and data.file is missing; training needs at least two parties"
        )


def _check_exact(path: Path, data: ExactRowsPlan, training: ExactTrainingPlan) -> None:
    """Check what entries of a plan of exact training have to do with each other."""
    if data.file is not None and not data.allowed:
        raise PlanError(f"{path}: data.file needs data.allowed, the certificates of the other organisations")
    if data.valid is not None and data.file is None:
        raise PlanError(f"{path}: data.valid needs data.file; the parties' servers have their own (--valid)")
    if training.cuts not in DIGITS:
        raise PlanError(f"{path}: training.cuts={shown(training.cuts)} must be one of {sorted(DIGITS)}")


def _check_private(
    path: Path, data: PrivateRowsPlan, training: PrivateTrainingPlan, parties: list[PartyPlan]
) -> None:
    """Check what entries of a plan of private training have to do with each other."""
    if training.early_stopping_rounds is not None:
        raise PlanError(
            f"{path}: training.early_stopping_rounds is not for private training, whose model is written at "
            "the end"
        )
    if data.file is not None and (data.declared is None or not data.allowed):
        raise PlanError(f"{path}: data.file needs data.declared and data.allowed")
    if (data.budget_epsilon is None) != (data.budget_delta is None):
        raise PlanError(f"{path}: data.budget_epsilon and data.budget_delta go together")
    if len(parties) + (data.file is not None) < 2:
        raise PlanError(
            f"{path}: parties has one party and data.file is missing; training needs at least two parties"
        )


def parsed(path: Path) -> Mapping[str, Any]:
    """The content of a TOML or YAML file.

    Raises
    ------
    PlanError
        If it cannot be read, is nested more than `MAX_DEPTH` deep, or is YAML with aliases: a few lines of
        them stand for more values than fit into memory.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path} cannot be read: {type(error).__name__}") from None
    if path.suffix == ".toml":
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        read: Callable[[str], Any] = tomllib.loads
        errors: tuple[type[Exception], ...] = (ValueError,)
    elif path.suffix in (".yaml", ".yml"):
        import yaml

        # Dates that there are not, or numbers of too many digits, are a ValueError.
        read, errors = _read_yaml, (yaml.YAMLError, ValueError)
    else:
        raise PlanError(f"{path}: the name must end in .toml or .yaml")
    try:
        content = read(text)
    except errors as error:
        # They quote the file: YAML's errors on several lines.
        raise PlanError(f"{path}: " + "\n".join(map(quoted, str(error).splitlines()))) from None
    except RecursionError:
        raise _too_deep(path) from None
    if _depth(content) > MAX_DEPTH:
        raise _too_deep(path)
    return _mapping(content, str(path))


def _read_yaml(text: str) -> Any:
    """The content of a YAML document without aliases."""
    import yaml

    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(
                f"the alias *{quoted(event.anchor)} in line {event.start_mark.line + 1} must be written out; "
                "plans have no aliases"
            )
    return yaml.safe_load(text)


def _depth(content: Any) -> int:
    """Tables and lists within each other, at most one more than `MAX_DEPTH`; without recursion."""
    level, depth = [content], 0
    while depth <= MAX_DEPTH:
        holders = [value for value in level if isinstance(value, (Mapping, list))]
        if not holders:
            break
        depth += 1
        level = [x for one in holders for x in (one.values() if isinstance(one, Mapping) else one)]
    return depth


def shown(value: Any) -> str:
    """A value as an error quotes it: cut, and without what a terminal would obey."""
    try:
        return quoted(repr(value))
    except ValueError:
        return "a number of thousands of digits"


def _too_deep(path: Path) -> PlanError:
    return PlanError(f"{path}: tables and lists may be nested {MAX_DEPTH} deep, not deeper")


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PlanError(f"{where} must be a table of names and values")
    return value


def check_known(given: Mapping[Any, Any], known: set[str], where: str) -> None:
    """Refuse entries that a table of a plan does not have."""
    for name in given:
        if name not in known:
            raise PlanError(f"{where}: unknown entry {shown(name)}; known are {sorted(known)}")


_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str,),
    "int": (int,),
    "int | None": (int,),
    "float": (int, float),
    "float | None": (int, float),
    "list[str]": (list,),
}


def _section(kind: type[Any], given: Any, where: str) -> Any:
    given = _mapping(given, where)
    known = {f.name: f for f in fields(kind)}
    check_known(given, set(known), where)
    for name, f in known.items():
        if name not in given:
            if f.default is MISSING and f.default_factory is MISSING:
                raise PlanError(f"{where}: {name} is missing")
            continue
        value = given[name]
        fits = isinstance(value, _TYPES[str(f.type)]) and not isinstance(value, bool)
        if not fits or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
            raise PlanError(f"{where}: {name}={shown(value)} must be {f.type}")
    return kind(**given)
