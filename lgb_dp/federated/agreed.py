"""Settings that the parties of a run agree on, as one text that all of them read alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from gbdt_hosts.lightgbm import resolve_aliases
from lgb_dp.errors import InvalidArgumentError, PrivateTrainingError, UnsupportedParameterError

SettingsT = TypeVar("SettingsT", bound="AgreedSettings")


@dataclass(frozen=True)
class AgreedSettings:
    """Base of the tasks of runs: settings that are checked by their constructor, and their text."""

    def to_json(self) -> str:
        """The settings as text, the same whatever their order.

        Raises
        ------
        UnsupportedParameterError
            If one cannot be written so, such as a function.
        """
        try:
            return json.dumps(asdict(self), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError):
            raise UnsupportedParameterError(
                "params and declarations must hold numbers and texts that other parties can be sent, no "
                "functions or objects"
            ) from None

    @classmethod
    def from_json(cls: type[SettingsT], text: str) -> SettingsT:
        """Read what `to_json` wrote, checked again.

        Raises
        ------
        InvalidArgumentError, UnsupportedParameterError
            If it is anything else.
        """
        try:
            return cls(**cls._arguments(json.loads(text)))
        except PrivateTrainingError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            raise InvalidArgumentError("the settings of a run are not those of this version") from None

    @classmethod
    def _arguments(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Arguments of the constructor; JSON has lists alone in the place of tuples."""
        return values


def refuse_early_stopping(params: Mapping[str, Any], where: str) -> None:
    """Raise an error if LightGBM's parameters ask for early stopping, by whatever name."""
    if resolve_aliases(params).get("early_stopping_round"):
        raise UnsupportedParameterError(
            f"early_stopping_round is not supported {where}: metrics of held-out rows would be releases of "
            "their own; leave it out"
        )
