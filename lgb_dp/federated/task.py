"""Task of a private training run across organisations: the settings that all parties agree on."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from gbdt_commons.errors import VeilboostError
from gbdt_commons.quoting import shown
from gbdt_parties.agreed import AgreedSettings, Whole
from gbdt_parties.secure_sum.messages import MAX_PARTIES, OpenRun
from lgb_dp.accounting.shares import CLOSENESS_SHARE
from lgb_dp.boosting.params import refuse_early_stopping
from lgb_dp.checks import checked_integer
from lgb_dp.data.dataset import Dataset
from lgb_dp.errors import InvalidArgumentError, PartiesDifferError, UnsupportedParameterError
from lgb_dp.newton.trainer import NewtonBoost

_OF_ONE_PROCESS = ("subsample", "random_state", "public_init_model", "budget")
"""Settings of `NewtonBoost` that have no meaning here, or that would have to be secret from the parties."""

MAX_ATTEMPTS = 100_000
"""Releases that a run may be planned for: every party plans them all before the first one."""

MAX_TREES_PER_ROUND = 1024
"""Beyond, steps are too short to explain anything."""

_HELD_OUT = ("validation_fraction", "by")
"""Settings of runs that hold rows out, and of no others."""

_SETTINGS = tuple(
    name
    for name in inspect.signature(NewtonBoost).parameters
    if name not in (*_OF_ONE_PROCESS, *_HELD_OUT, "rounds")
)


class OpenPrivateRun(OpenRun, kind=213):
    """Coordinator to party: takes up a private training run, new or known."""


@dataclass(frozen=True)
class FederatedTask(AgreedSettings):
    """The public settings of a run.

    `params` are LightGBM's, `settings` `NewtonBoost`'s. `n_rounds` trees (times classes) are trained; noise
    is planned for `max_attempts` releases of leaf sums, those included that are repeated because a party was
    lost. The noise of `colluding` parties counts as known, `min_parties` must take part in every sum, and
    `parties_per_person` may have rows of one person. `trees_per_round` trees (times classes) share gradients,
    and their sums are asked for together.
    """

    params: Mapping[str, Any]
    settings: Mapping[str, Any]
    n_rounds: Annotated[int, Whole(1, MAX_ATTEMPTS)]
    max_attempts: Annotated[int, Whole(1, MAX_ATTEMPTS)]
    colluding: Annotated[int, Whole(1, MAX_PARTIES)]
    min_parties: Annotated[int, Whole(2, MAX_PARTIES)]
    parties_per_person: Annotated[int, Whole(1, MAX_PARTIES)]
    trees_per_round: Annotated[int, Whole(1, MAX_TREES_PER_ROUND)] = 1

    error: ClassVar[type[VeilboostError]] = InvalidArgumentError
    argument_names = {"n_rounds": "num_boost_round"}  # noqa: RUF012

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_integer("max_attempts", self.max_attempts, self.n_rounds, MAX_ATTEMPTS)
        checked_integer("min_parties", self.min_parties, self.colluding + 1)
        refuse_early_stopping(self.params, "across parties")
        expected = (*_SETTINGS, *(_HELD_OUT if self.holds_out else ()))
        unknown = set(self.settings) ^ set(expected)
        if unknown:
            raise InvalidArgumentError(
                f"the settings of a run are not those of NewtonBoost: {shown(sorted(unknown))}"
            )
        self.trainer_arguments()

    def trainer_arguments(self) -> dict[str, Any]:
        """Every party's `NewtonBoost` arguments, with ε and δ less the share for discrete noise."""
        checked = NewtonBoost(**self.settings, rounds=self.max_attempts)
        if checked.epsilon == float("inf"):
            raise InvalidArgumentError("epsilon must be finite for training across parties")
        less = {name: self.settings[name] * (1 - CLOSENESS_SHARE) for name in ("epsilon", "delta")}
        return {**self.settings, **less, "rounds": self.max_attempts}

    @property
    def holds_out(self) -> bool:
        """Whether rows are held out."""
        return "validation_fraction" in self.settings

    @property
    def epsilon(self) -> float:
        """ε that is asked for."""
        return float(self.settings["epsilon"])

    @property
    def delta(self) -> float:
        """δ that is asked for."""
        return float(self.settings["delta"])


def settings_of(trainer: NewtonBoost) -> dict[str, Any]:
    """The settings of a callback that a run has.

    An UnsupportedParameterError names those that only make sense where all rows are in one place.
    """
    defaults = inspect.signature(NewtonBoost).parameters
    for name in (*_OF_ONE_PROCESS, "rounds"):
        if getattr(trainer, name) != defaults[name].default:
            hint = "; pass max_attempts to train instead" if name == "rounds" else ""
            raise UnsupportedParameterError(
                f"{name}={getattr(trainer, name)!r} of NewtonBoost is not supported across parties{hint}"
            )
    names = (*_SETTINGS, *(_HELD_OUT if trainer.validation_fraction > 0 else ()))
    return {name: getattr(trainer, name) for name in names}


def declaration_of(data: Dataset) -> dict[str, str]:
    """A digest of each public declaration that decides what a sum means."""
    bins = data.construct().bins
    parts = {
        "columns": list(bins.names),
        "types": [bins.is_categorical.tolist(), bins.columns.to_dict()],
        "bounds": [[values.tolist() for values in bins.values], list(bins.ranges)],
        "label_bounds": data.label_bounds,
        "weight_bound": None if data.weight is None else data.weight_bound,
        "groups": [data.unit.rows, data.unit.row_costs],
    }
    return {name: hashlib.sha256(_canonical(part)).hexdigest() for name, part in parts.items()}


def check_same(declarations: Mapping[str, Mapping[str, str]]) -> None:
    """Check that all parties, by their names, declare the same.

    A PartiesDifferError names the difference, and two parties that differ.
    """
    first, *others = declarations
    for part in ("columns", "types", "bounds", "label_bounds", "weight_bound", "groups"):
        for other in others:
            if declarations[first].get(part) != declarations[other].get(part):
                raise PartiesDifferError(
                    f"{part} of the parties {first!r} and {other!r} differ; all parties must declare the same"
                )


def statement(task: str, declaration: Mapping[str, str]) -> bytes:
    """32 bytes that stand for everything that the parties of a run must agree on."""
    parts: Sequence[bytes] = (b"veilboost federated run 1", task.encode(), _canonical(dict(declaration)))
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()


def _canonical(values: Any) -> bytes:
    return json.dumps(values, sort_keys=True, default=str).encode()
