"""The model that training continues from, as it was at one moment.

LightGBM's predictor reads a live native model, whose leaves its owner may change at any time. All conclusions
about an initial model, its start scores, its guarantee and its trees, therefore follow from one text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import lightgbm

if TYPE_CHECKING:
    from lightgbm.basic import _InnerPredictor


@dataclass(frozen=True)
class InitialModel:
    """The model that training continues from, as it was when its text was taken from a live predictor's.

    Nothing is predicted by LightGBM's predictor. `pandas_categorical` has the categories of each category
    column of pandas, in column order.
    """

    text: str
    predictor: _InnerPredictor
    pandas_categorical: Sequence[Sequence[Any]] | None = None

    @classmethod
    def of(cls, booster: lightgbm.Booster) -> InitialModel | None:
        """The model that a live booster continues, None without one.

        That of the Dataset may by now be another training run's; the trees of this one are in the booster.
        """
        return cls.behind(booster._Booster__init_predictor)  # type: ignore[attr-defined]

    @classmethod
    def behind(cls, predictor: _InnerPredictor | None) -> InitialModel | None:
        """The model that a predictor reads at this moment, None if there is no predictor."""
        if predictor is None:
            return None
        known = predictor.pandas_categorical
        categories = None if known is None else tuple(map(tuple, known))
        return cls(_text_of(predictor), predictor, categories)

    @cached_property
    def digest(self) -> str:
        """Equal for two models only if they predict the same."""
        return hashlib.sha256(f"{self.pandas_categorical!r}\n{self.text}".encode()).hexdigest()

    def loaded(self) -> lightgbm.Booster:
        """A separate copy of the model to predict with."""
        return lightgbm.Booster(model_str=self.text)


@dataclass(frozen=True)
class _Readable:
    """A native model that another object owns, with all that `Booster.model_to_string` reads of a booster."""

    _handle: Any
    pandas_categorical: None = None
    best_iteration: int = -1


def _text_of(predictor: _InnerPredictor) -> str:
    """Text of the model that a predictor holds."""
    model: Any = _Readable(predictor._handle)
    return lightgbm.Booster.model_to_string(model, num_iteration=-1)
