"""A party's splits of a model, which nobody else has."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_parties._sealed import read_sealed, write_sealed
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.features import Columns
from xgb_fed.errors import CorruptDataError

logger = logging.getLogger(__name__)
FORMAT = 1


class NamedColumns(Protocol):
    """A matrix as far as its columns go."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""

    @property
    def n_features(self) -> int:
        """Number of columns."""


@dataclass
class Splits:
    """Splits by number, in the order in which they were chosen: equal training runs give equal splits.

    Attributes
    ----------
    names : list of str
        Columns.
    features : list of int
    thresholds : list of float
        ``x < threshold`` goes left.
    default_left : list of bool
        Whether missing values go left.
    """

    names: list[str]
    features: list[int] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    default_left: list[bool] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def is_unnamed(self) -> bool:
        """Whether the columns came without names."""
        return self.names == [f"f{k}" for k in range(len(self.names))]

    def add(self, feature: int, threshold: float, default_left: bool) -> int:
        """Keep a split; returns its number."""
        self.features.append(feature)
        self.thresholds.append(threshold)
        self.default_left.append(default_left)
        return len(self) - 1

    def first(self, count: int) -> Splits:
        """The first splits only; `IndexError` if there are fewer."""
        if not 0 <= count <= len(self):
            raise IndexError(f"{count} splits of {len(self)}")
        return Splits(
            list(self.names), self.features[:count], self.thresholds[:count], self.default_left[:count]
        )

    def truncate(self, count: int) -> None:
        """Forget all but the first splits."""
        for values in (self.features, self.thresholds, self.default_left):
            del values[count:]

    def goes_left(self, split: int, columns: Columns, rows: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Which rows a split sends left."""
        return columns.goes_left(*self.rule(split), rows)

    def rule(self, split: int) -> tuple[int, float, bool]:
        """Column, threshold and side of missing values."""
        return self.features[split], self.thresholds[split], self.default_left[split]

    def condition(self, split: int) -> str:
        """What goes left, as text."""
        feature, threshold, default_left = self.rule(split)
        return f"{self.names[feature]} < {threshold:.9g}{' or missing' if default_left else ''}"

    def check_columns(self, columns: NamedColumns) -> None:
        """Raise `InvalidDataError` unless the columns are named as the splits' are, and as many."""
        if columns.n_features != len(self.names):
            raise InvalidDataError("the data has another number of columns than the model was trained on")
        unnamed = [f"f{k}" for k in range(len(self.names))]
        if columns.names not in (self.names, unnamed):
            # Without names: this text may go to another party.
            raise InvalidDataError("the data's columns have other names than those the model was trained on")

    def save(self, path: str | Path) -> None:
        """Write the splits; an existing file is replaced only when the new one is complete."""
        content = {
            "format": FORMAT,
            "names": self.names,
            "features": self.features,
            "thresholds": self.thresholds,
            "default_left": self.default_left,
        }
        write_sealed(path, content)

    @classmethod
    def load(cls, path: str | Path) -> Splits:
        """Read what `save` wrote.

        Raises
        ------
        CorruptDataError
            If the file does not hold splits; the text does not quote its path.
        """
        try:
            content = read_sealed(path)
            if content.pop("format") != FORMAT:
                raise CorruptDataError(f"splits in a format version other than {FORMAT}")
            names = content.pop("names")
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise TypeError("names")
            splits = cls(names)
            columns = [content.pop(name) for name in ("features", "thresholds", "default_left")]
            if content:
                raise ValueError("unknown entries")
            for split in zip(*columns, strict=True):
                splits.add(*check_split(split, len(names)))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, CorruptDataError):
                raise
            # Without the path: this text may go to another party.
            logger.error("%s does not hold splits of a model", path)
            raise CorruptDataError(
                "a file does not hold a party's splits of a model; the log says which"
            ) from None
        return splits


def check_split(content: Any, n_columns: int) -> tuple[int, float, bool]:
    """Column, threshold and side of missing values, as read from a file.

    Raises
    ------
    ValueError, TypeError
        If they cannot be those of a split.
    """
    feature, threshold, default_left = content
    if type(feature) is not int or type(threshold) is not float or type(default_left) is not bool:
        raise TypeError("not a split")
    if not (0 <= feature < n_columns and math.isfinite(threshold)):
        raise ValueError("a split that cannot be")
    return feature, threshold, default_left
