"""Settings that the parties of a run agree on, as one text that all of them read alike, within ranges."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import cache
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args, get_type_hints

from gbdt_commons.errors import VeilboostError
from gbdt_commons.quoting import shown
from gbdt_parties.errors import PartyArgumentError
from gbdt_parties.messages import MAX_TEXT_BYTES

TEXT_BYTES = 128
"""Of what is read from a character of a JSON text, and copied once: a mapping takes 240 bytes in seven."""

MAX_PARAMS = 1 << 18
"""Characters of a run's `params`: a number for each of 65,536 columns fits; all are read several times."""

SettingsT = TypeVar("SettingsT", bound="AgreedSettings")


class Whole(NamedTuple):
    """Range of a field that is an integer, in its annotation: both ends are accepted."""

    low: int
    high: int


@dataclass(frozen=True)
class AgreedSettings:
    """Base of the tasks of runs: settings that are checked by their constructor, and their text.

    A class that derives from it calls `__post_init__` before it computes with any value.
    """

    error: ClassVar[type[VeilboostError]] = PartyArgumentError
    """Raised for a value that is not accepted."""

    argument_names: ClassVar[dict[str, str]] = {}
    """Fields that users know by other names."""

    def __post_init__(self) -> None:
        """Check the fields that are `Whole`."""
        cls: Any = type(self)
        for name, (low, high, is_optional) in _ranges(cls).items():
            value = getattr(self, name)
            if value is None and is_optional:
                continue
            if not isinstance(value, Integral) or isinstance(value, bool) or not low <= int(value) <= high:
                said = self.argument_names.get(name, name)
                raise self.error(f"{said} must be an integer between {low} and {high}, got {shown(value)}")

    def to_json(self) -> str:
        """The settings as text, the same whatever their order; raises `error` if one cannot be written so."""
        try:
            return json.dumps(asdict(self), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError):
            raise self.error(
                "params and declarations must hold numbers and texts that other parties can be sent, no "
                "functions or objects"
            ) from None

    @classmethod
    def from_json(cls: type[SettingsT], text: str) -> SettingsT:
        """Read what `to_json` wrote, checked again; raises a `VeilboostError` if it is anything else."""
        try:
            values = read_json(text)
            length = len(json.dumps(values.get("params")))
            if length > MAX_PARAMS:
                raise cls.error(f"params of {length} characters; at most {MAX_PARAMS} are accepted")
            return cls(**cls._arguments(values))
        except VeilboostError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            raise cls.error("the settings of a run are not those of this version") from None

    @classmethod
    def _arguments(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Arguments of the constructor; JSON has lists alone in the place of tuples."""
        return values


@cache
def _ranges(cls: Any) -> dict[str, tuple[int, int, bool]]:
    """Ends of every field that is `Whole`, and whether it may be None."""
    return {
        name: (*end, type(None) in get_args(hint.__origin__))
        for name, hint in get_type_hints(cls, include_extras=True).items()
        for end in getattr(hint, "__metadata__", ())
        if isinstance(end, Whole)
    }


def read_json(text: str, max_characters: int = MAX_TEXT_BYTES) -> Any:
    """Read JSON that another organisation has sent; ValueError if it is none, too long or too deeply nested.

    Every number is an integer of 64 bits or a finite float: a comparison, a text or a logarithm of it, before
    its own range is checked, takes no time to speak of.
    """
    if len(text) > max_characters:
        raise ValueError(f"a text of {len(text)} characters, where {max_characters} are accepted")
    try:
        return json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("a text with too many brackets") from None


def _integer(digits: str) -> int:
    if len(digits) <= 20 and -(2**63) <= (value := int(digits)) < 2**63:
        return value
    raise ValueError("an integer of more than 64 bits")


def _finite(digits: str) -> float:
    if math.isfinite(value := float(digits)):
        return value
    raise ValueError("a number that is not finite")
