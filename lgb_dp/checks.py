"""Checks of arguments: each returns the checked value in its final type, or raises.

Six general functions, `checked_number`, `checked_integer`, `checked_choice`, `checked_flag`,
`checked_numbers` and `checked_vector`, do the work; the others name what several callers check.  Every
message begins with `name`, the argument, and says what is accepted and, unless it is data, the given
`value`: a message never quotes a cell of the data, because messages end up in logs.  A value of the wrong
type raises an `ArgumentTypeError`, any other unacceptable value an `InvalidArgumentError`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gbdt_commons.quoting import shown
from gbdt_commons.tables.numbers import read_numbers
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError

Auto = Literal["auto"]
AUTO: Final[Auto] = "auto"
"""The word that leaves a setting to the trainer."""

_Word = TypeVar("_Word", bound=str)


@dataclass(frozen=True)
class Interval:
    """An interval of numbers; a square bracket includes its end, which may be infinite at the top."""

    low: float
    high: float
    brackets: str = "[]"

    def __contains__(self, value: float) -> bool:
        above = value >= self.low if self.brackets[0] == "[" else value > self.low
        below = value <= self.high if self.brackets[1] == "]" else value < self.high
        return above and below

    def __str__(self) -> str:
        if math.isinf(self.high):
            finite = "" if self.brackets[1] == "]" else " and finite"
            if self.low != 0:
                return f"at least {self.low:g}{finite}"
            return f"positive{finite}" if self.brackets[0] == "(" else f"not negative{finite}"
        return f"in {self.brackets[0]}{self.low:g}, {self.high:g}{self.brackets[1]}"


POSITIVE = Interval(0, math.inf, "()")
POSITIVE_OR_INFINITE = Interval(0, math.inf, "(]")
NOT_NEGATIVE = Interval(0, math.inf, "[)")
NOT_NEGATIVE_OR_INFINITE = Interval(0, math.inf)
PROPER_SHARE = Interval(0, 1, "()")
"""Shares that leave something for the rest."""

SHARE = Interval(0, 1, "(]")


@overload
def checked_number(name: str, value: Any, accepted: Interval) -> float: ...
@overload
def checked_number(name: str, value: Any, accepted: Interval, word: _Word) -> float | _Word: ...
def checked_number(name: str, value: Any, accepted: Interval, word: _Word | None = None) -> float | _Word:
    """A number in an interval, as a float; or the `word` that is accepted instead, as it is.

    Raises ArgumentTypeError unless `value` is a number, which truth values are not, and InvalidArgumentError
    if it is outside the interval or another word.
    """
    if word is not None and isinstance(value, str):
        if value != word:
            raise InvalidArgumentError(f"{name} must be {word!r} or a number {accepted}, got {shown(value)}")
        return word
    instead = "" if word is None else f"{word!r} or "
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ArgumentTypeError(f"{name} must be {instead}a number that is {accepted}, got {shown(value)}")
    if float(value) not in accepted:
        raise InvalidArgumentError(f"{name} must be {instead}{accepted}, got {shown(value)}")
    return float(value)


@overload
def checked_integer(name: str, value: Any, low: int, high: int | None = None) -> int: ...
@overload
def checked_integer(name: str, value: Any, low: int, high: int | None, word: _Word) -> int | _Word: ...
def checked_integer(
    name: str, value: Any, low: int, high: int | None = None, word: _Word | None = None
) -> int | _Word:
    """An integer from `low` to `high`, both accepted, or the `word` that is accepted instead, as it is.

    Raises ArgumentTypeError unless `value` is an integer, which truth values are not, and
    InvalidArgumentError if it is out of range or another word.
    """
    size = f"at least {low}" if high is None else f"between {low} and {high}"
    instead = "" if word is None else f"{word!r} or "
    if word is not None and isinstance(value, str):
        if value != word:
            raise InvalidArgumentError(f"{name} must be {instead}an integer {size}, got {shown(value)}")
        return word
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ArgumentTypeError(f"{name} must be {instead}an integer {size}, got {shown(value)}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise InvalidArgumentError(f"{name} must be {instead}{size}, got {shown(value)}")
    return number


def checked_choice(name: str, value: Any, choices: Sequence[_Word]) -> _Word:
    """One of several words; raises InvalidArgumentError otherwise."""
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    *others, last = map(repr, choices)
    raise InvalidArgumentError(f"{name} must be {', '.join(others)} or {last}, got {shown(value)}")


def checked_flag(name: str, value: Any) -> bool:
    """A truth value; raises ArgumentTypeError for anything else: the text "False" would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentTypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


class Flag:
    """An attribute that holds a truth value, checked whenever it is set."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Flag: ...
    @overload
    def __get__(self, instance: object, owner: type) -> bool: ...
    def __get__(self, instance: object | None, owner: type) -> Flag | bool:
        return self if instance is None else bool(vars(instance)[self._name])

    def __set__(self, instance: object, value: bool) -> None:
        vars(instance)[self._name] = checked_flag(self._name, value)


_FOR_LABELS = "; classes that are text are for DPLGBMClassifier, with fit(classes=[...])"
_REMEDIES = {"label": _FOR_LABELS, "y": _FOR_LABELS}
"""Ends of messages about an argument that does not hold numbers."""


def checked_numbers(name: str, values: Any, remedy: str = "") -> NDArray[np.float64]:
    """Data of any shape as float64, without a copy where it is float64 already.

    Missing values of pandas become NaN. Raises ArgumentTypeError if a value is neither a number nor text, and
    InvalidArgumentError, ending with the `remedy`, for complex numbers, NumPy's times, and text that does not
    read as a number. Messages name the argument and the data type only.
    """
    more = remedy or _REMEDIES.get(name, "")
    return read_numbers(name, values, np.float64, InvalidArgumentError, ArgumentTypeError, more)


def checked_vector(name: str, values: Any, n_rows: int, *, finite: bool = True) -> NDArray[np.float64]:
    """One number per row, as a new array of float64; a matrix of one column is flattened.

    Raises InvalidArgumentError if a value is not a number, there are more or fewer numbers than rows, or one
    is NaN or infinite and `finite` holds.
    """
    vector = np.array(checked_numbers(name, values))
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.shape != (n_rows,):
        raise InvalidArgumentError(f"{name} has shape {vector.shape}; data has {n_rows} rows")
    if finite and not np.isfinite(vector).all():
        raise InvalidArgumentError(f"{name} must be finite, got NaN or infinity")
    return vector


MAX_DELTA = 0.1
"""At such a δ, a tenth of all rows could be published; already one over the number of rows is too much."""


def checked_epsilon(epsilon: Any, accepted: Interval = POSITIVE) -> float:
    """A privacy budget ε in nats, positive and finite unless the caller accepts infinity."""
    return checked_number("epsilon", epsilon, accepted)


def checked_delta(delta: Any) -> float:
    """A δ in (0, `MAX_DELTA`)."""
    return checked_number("delta", delta, Interval(0, MAX_DELTA, "()"))


def checked_budget(budget: Any) -> tuple[float, float] | None:
    """ε and δ of a party's ledger; None if it takes those of its first run."""
    if budget is None:
        return None
    if not isinstance(budget, Sequence) or isinstance(budget, str) or len(budget) != 2:
        raise ArgumentTypeError(f"budget must be two numbers, (epsilon, delta), got {shown(budget)}")
    return checked_epsilon(budget[0]), checked_delta(budget[1])


def delta_note(delta: float, n_rows: float) -> str | None:
    """Warning about a δ, given a released number of rows; None if it is small enough."""
    if delta * n_rows <= 1:
        return None
    return (
        f"delta = {delta:g} is above one over the number of rows, so that a mechanism that publishes a "
        "random row would keep to it; choose a delta far below"
    )


def checked_alpha(alpha: Any) -> float:
    """A parameter of the M-loss, in (0, 1]."""
    return checked_number("alpha", alpha, SHARE)


def checked_learning_rate(value: Any) -> float:
    """A learning rate in (0, 1]; as in LightGBM's parameters, text that reads as a number is accepted."""
    return checked_number("learning_rate", _number_from_text(value), SHARE)


def checked_lambda(value: Any) -> float:
    """A finite λ, not negative; as in LightGBM's parameters, text that reads as a number is accepted."""
    return checked_number("lambda_l2", _number_from_text(value), NOT_NEGATIVE)


def _number_from_text(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def checked_max_bin(max_bin: Any, name: str = "max_bin") -> int:
    """A number of bins that codes of one byte can tell apart."""
    from gbdt_kernels.trees.layout import MAX_BINS  # loaded when it is needed, with a compiler

    return checked_integer(name, max_bin, 2, MAX_BINS)


def checked_probabilities(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Probabilities in an array of any shape; raises InvalidArgumentError if one is NaN or outside [0, 1]."""
    array = checked_numbers(name, values)
    inside = (array >= 0) & (array <= 1)
    if not inside.all():
        raise InvalidArgumentError(f"{name} must be in [0, 1], got {array[~inside].flat[0]!r}")
    return array
