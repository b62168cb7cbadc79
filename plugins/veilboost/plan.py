"""The active party's plan: a TOML or YAML file that says where data, parties and certificates are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from gbdt_kernels.errors import VeilboostError
from xgb_fed.ciphers.base import Scheme
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier

CIPHERS: dict[str, Callable[[int], Scheme]] = {"paillier": Paillier, "okamoto-uchiyama": OkamotoUchiyama}


class PlanError(VeilboostError, ValueError):
    """A plan cannot be read, or has unknown entries."""


@dataclass(frozen=True)
class DataPlan:
    """The active party's file.

    Attributes
    ----------
    file : str
    label : str
    id : str or None
        Column of ids; without it, the parties' files must have the same rows in the same order.
    drop, one_hot : list of str
    aligned : str
        Where `align` writes the ids in common.
    valid : str or None
        File of rows to evaluate the model on after every round, with the same columns; needs `id`.
    aligned_valid : str
        Where `align` writes the ids in common of those.
    """

    file: str
    label: str
    id: str | None = None
    drop: list[str] = field(default_factory=list)
    one_hot: list[str] = field(default_factory=list)
    aligned: str = "aligned.ids"
    valid: str | None = None
    aligned_valid: str = "aligned-valid.ids"


@dataclass(frozen=True)
class PartyPlan:
    """A passive party: its name in the model, its address, and the name its certificate must be for."""

    name: str
    address: str
    server_name: str | None = None


@dataclass(frozen=True)
class TrainingPlan:
    """How to train.

    Attributes
    ----------
    rounds : int
    early_stopping_rounds : int or None
        Stop when the last metric of `DataPlan.valid` has not improved for this many rounds.
    cipher : str
    key_length : int
    timeout : float
        Seconds of silence after which a party is unavailable.
    patience : float
        Seconds to wait for an unavailable party.
    checkpoint, model, record : str
        Folder of the progress, folder of the model, file of the record.
    """

    rounds: int = 100
    early_stopping_rounds: int | None = None
    cipher: str = "paillier"
    key_length: int = 2048
    timeout: float = 30.0
    patience: float = 600.0
    checkpoint: str = "checkpoint"
    model: str = "model"
    record: str = "record.jsonl"

    @property
    def scheme(self) -> Scheme:
        """The cipher, with its key length."""
        return CIPHERS[self.cipher](self.key_length)


@dataclass(frozen=True)
class Plan:
    """A whole plan; its paths are relative to its folder."""

    folder: Path
    tls: str
    data: DataPlan
    parties: list[PartyPlan]
    training: TrainingPlan
    parameters: dict[str, Any]

    def path(self, name: str) -> Path:
        """Resolve a path of the plan."""
        return self.folder / name


def read_plan(path: str | Path) -> Plan:
    """Read a plan.

    Raises
    ------
    PlanError
        Naming the file, and the entry that is missing, unknown, or of another type.
    """
    path = Path(path)
    content = _parsed(path)
    _known(content, {"tls", "data", "parties", "training", "parameters"}, str(path))
    if not isinstance(content.get("tls"), str):
        raise PlanError(f"{path}: tls must be the folder of certificates")
    parties = content.get("parties")
    if not isinstance(parties, list) or not parties:
        raise PlanError(f"{path}: parties must be a list of at least one")
    plan = Plan(
        path.parent,
        content["tls"],
        _section(DataPlan, content.get("data"), f"{path}: data"),
        [_section(PartyPlan, party, f"{path}: parties[{k}]") for k, party in enumerate(parties)],
        _section(TrainingPlan, content.get("training", {}), f"{path}: training"),
        dict(_mapping(content.get("parameters", {}), f"{path}: parameters")),
    )
    if plan.training.cipher not in CIPHERS:
        raise PlanError(f"{path}: training.cipher={plan.training.cipher!r} must be one of {sorted(CIPHERS)}")
    if plan.data.valid is not None and plan.data.id is None:
        raise PlanError(f"{path}: data.valid needs data.id; rows to evaluate are found by their ids")
    if plan.training.early_stopping_rounds is not None and plan.data.valid is None:
        raise PlanError(f"{path}: training.early_stopping_rounds needs data.valid")
    return plan


def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path} cannot be read: {type(error).__name__}") from None
    if path.suffix == ".toml":
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        try:
            return dict(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise PlanError(f"{path}: {error}") from None
    if path.suffix in (".yaml", ".yml"):
        import yaml

        try:
            return _mapping(yaml.safe_load(text), str(path))
        except yaml.YAMLError as error:
            raise PlanError(f"{path}: {error}") from None
    raise PlanError(f"{path}: the name must end in .toml or .yaml")


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PlanError(f"{where} must be a table of names and values")
    return value


def _known(given: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise PlanError(f"{where}: unknown entry {unknown[0]!r}; known are {sorted(known)}")


_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str,),
    "int": (int,),
    "int | None": (int,),
    "float": (int, float),
    "list[str]": (list,),
}


def _section(kind: type[Any], given: Any, where: str) -> Any:
    given = _mapping(given, where)
    known = {f.name: f for f in fields(kind)}
    _known(given, set(known), where)
    for name, f in known.items():
        if name not in given:
            if f.default is MISSING and f.default_factory is MISSING:
                raise PlanError(f"{where}: {name} is missing")
            continue
        value = given[name]
        fits = isinstance(value, _TYPES[str(f.type)]) and not isinstance(value, bool)
        if not fits or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
            raise PlanError(f"{where}: {name}={value!r} must be {f.type}")
    return kind(**given)
