"""Settings that the parties of a private run agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gbdt_commons.errors import VeilboostError
from gbdt_hosts.lightgbm import resolve_aliases
from gbdt_parties import agreed
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError


@dataclass(frozen=True)
class AgreedSettings(agreed.AgreedSettings):
    """Base of the tasks of private runs."""

    error: ClassVar[type[VeilboostError]] = InvalidArgumentError

    def to_json(self) -> str:
        """The settings as text, the same whatever their order.

        Raises
        ------
        UnsupportedParameterError
            If one cannot be written so, such as a function.
        """
        try:
            return super().to_json()
        except (TypeError, ValueError):
            raise UnsupportedParameterError(
                "params and declarations must hold numbers and texts that other parties can be sent, no "
                "functions or objects"
            ) from None


def refuse_early_stopping(params: Mapping[str, Any], where: str) -> None:
    """Raise an error if LightGBM's parameters ask for early stopping, by whatever name."""
    if resolve_aliases(params).get("early_stopping_round"):
        raise UnsupportedParameterError(
            f"early_stopping_round is not supported {where}: metrics of held-out rows would be releases of "
            "their own; leave it out"
        )
