"""A party's splits of a model, which no other party has."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.sealed import read_sealed, write_sealed
from gbdt_commons.tables.frames import check_names
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.categories import Categories, from_json, to_json
from xgb_fed.boosting.features import MAX_BINS, Columns, SplitRule
from xgb_fed.errors import CorruptDataError
from xgb_fed.vertical.protocol.messages import RevealedCategories, RevealedSplits

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

    They are kept as in a `SplitRule`; `right` has the categories that go right by number of each split of a
    categorical column, and `categories` what the codes of these columns stand for.
    """

    names: list[str]
    features: list[int] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    default_left: list[bool] = field(default_factory=list)
    right: dict[int, tuple[int, ...]] = field(default_factory=dict)
    categories: Categories = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def is_unnamed(self) -> bool:
        """Whether the columns came without names."""
        return self.names == [f"f{k}" for k in range(len(self.names))]

    @property
    def n_categories(self) -> int:
        """Categories that go right, of all splits together."""
        return sum(map(len, self.right.values()))

    def add(
        self, feature: int, threshold: float, default_left: bool, right: tuple[int, ...] | None = None
    ) -> int:
        """Keep a split, given as in a `SplitRule`; returns its number."""
        self.features.append(feature)
        self.thresholds.append(threshold)
        self.default_left.append(default_left)
        if right is not None:
            self.right[len(self) - 1] = right
        return len(self) - 1

    def first(self, count: int) -> Splits:
        """The first splits only; `IndexError` if there are fewer."""
        if not 0 <= count <= len(self):
            raise IndexError(f"{count} splits of {len(self)}")
        splits = Splits(list(self.names), categories=self.categories)
        for split in range(count):
            splits.add(*self.rule(split))
        return splits

    def truncate(self, count: int) -> None:
        """Forget all but the first splits."""
        for values in (self.features, self.thresholds, self.default_left):
            del values[count:]
        self.right = {split: right for split, right in self.right.items() if split < count}

    def goes_left(self, split: int, columns: Columns, rows: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Which rows a split sends left."""
        return columns.goes_left(self.rule(split), rows)

    def rule(self, split: int) -> SplitRule:
        """Rule of a split."""
        right = self.right.get(split)
        return SplitRule(self.features[split], self.thresholds[split], self.default_left[split], right)

    def entries(self, start: int) -> list[list[Any]]:
        """The splits from a number on, for JSON; `check_split` reads one."""
        rules = [self.rule(split) for split in range(start, len(self))]
        return [list(rule if rule.right is not None else rule[:3]) for rule in rules]

    def condition(self, split: int) -> str:
        """Condition to go left, as text."""
        feature, threshold, default_left, right = self.rule(split)
        missing = " or missing" if default_left else ""
        if right is None:
            return f"{self.names[feature]} < {threshold:.9g}{missing}"
        labels = self.categories[feature]
        excluded = [str(code if labels is None else labels[code]) for code in right]
        return f"{self.names[feature]} not in {{{', '.join(excluded)}}}{missing or ' nor missing'}"

    @property
    def needed(self) -> set[str]:
        """Columns that are split."""
        return {self.names[feature] for feature in self.features}

    def columns_among(self, columns: NamedColumns) -> list[int] | None:
        """Where the columns of the splits are among those of data, by name; None if they are where they were.

        A column that is not split may be gone; any other one stands for it. A missing one raises
        `InvalidDataError` without names: its text may go to another party.
        """
        if columns.names == self.names:
            return None
        if columns.names == [f"f{k}" for k in range(columns.n_features)]:
            if columns.n_features == len(self.names):
                return None
            raise InvalidDataError("the data has another number of columns than the model was trained on")
        places = {name: place for place, name in enumerate(columns.names)}
        n_missing = len(self.needed - set(places))
        if n_missing:
            raise InvalidDataError(
                f"{n_missing} columns that the model needs are no longer in the data; the log names them"
            )
        return [places.get(name, 0) for name in self.names]

    def revealed(self) -> RevealedSplits:
        """Column, threshold and default direction of every split, and its categories, as a message.

        A passive party sends it to an active one only if it consents to give its splits away.
        """
        check_names(self.names, InvalidDataError, "the data")
        message = RevealedSplits(
            np.array(self.features, dtype=np.int32),
            np.array(self.thresholds, dtype=np.float32),
            np.array(self.default_left, dtype=np.uint8),
            json.dumps(self.names),
        )
        if not self.categories:
            return message
        right = [self.right.get(split, ()) for split in range(len(self))]
        return RevealedCategories(
            **message.__dict__,
            categorical=np.array(sorted(self.categories), dtype=np.int32),
            n_right=np.array([len(one) for one in right], dtype=np.int32),
            right=np.array([code for one in right for code in one], dtype=np.int32),
        )

    def save(self, path: str | Path) -> None:
        """Write the splits; an existing file is replaced only when the new one is complete."""
        write_sealed(path, {"format": FORMAT, **self.to_dict()})

    def to_dict(self) -> dict[str, Any]:
        """For JSON; without the entries on categories if no column has any."""
        content: dict[str, Any] = {
            "names": self.names,
            "features": self.features,
            "thresholds": self.thresholds,
            "default_left": self.default_left,
        }
        if self.categories:
            right = [[split, list(categories)] for split, categories in self.right.items()]
            content |= {"right": right, "categories": to_json(self.categories)}
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Splits:
        """Read what `to_dict` gave; raises KeyError, TypeError or ValueError if it is anything else."""
        names = content.pop("names")
        if not isinstance(names, list):
            raise TypeError("names")
        check_names(names, ValueError, "names")
        splits = cls(names, categories=from_json(content.pop("categories", []), len(names)))
        right = dict(content.pop("right", []))
        columns = [content.pop(name) for name in ("features", "thresholds", "default_left")]
        if content or not set(right) <= set(range(len(columns[0]))):
            raise ValueError("unknown entries")
        for number, split in enumerate(zip(*columns, strict=True)):
            own = [right[number]] if number in right else []
            splits.add(*check_split([*split, *own], splits))
        return splits

    @classmethod
    def load(cls, path: str | Path) -> Splits:
        """Read what `save` wrote; `CorruptDataError`, without the path, if the file holds no splits."""
        try:
            content = read_sealed(path)
            if content.pop("format") != FORMAT:
                raise CorruptDataError(f"splits in a format version other than {FORMAT}")
            return cls.from_dict(content)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, CorruptDataError):
                raise
            # Without the path: this text may go to another party.
            logger.error("%s does not hold splits of a model", path)
            raise CorruptDataError(
                "a file does not hold a party's splits of a model; the log says which"
            ) from None


def can_split(threshold: float, default_left: bool) -> bool:
    """Whether a split may have such a threshold.

    −∞ sends missing values alone to the left, as splits of XGBoost 3.3 and later do; see
    `gbdt_hosts.xgboost.versions.lowest_bounds_are_infinite`.  Models outlive the version that trained them,
    so it is accepted whatever version is installed.
    """
    return math.isfinite(threshold) or (threshold == -math.inf and default_left)


def check_split(content: Any, splits: Splits) -> SplitRule:
    """A further split as read from a file; raises ValueError or TypeError if it cannot be one."""
    feature, threshold, default_left, *right = content
    if type(feature) is not int or type(threshold) is not float or type(default_left) is not bool:
        raise TypeError("not a split")
    if not (0 <= feature < len(splits.names) and can_split(threshold, default_left)):
        raise ValueError("an impossible split")
    if len(right) != (feature in splits.categories):
        raise ValueError("categories that go right, of a column without, or none")
    if not right:
        return SplitRule(feature, threshold, default_left)
    labels = splits.categories[feature]
    n_categories = MAX_BINS if labels is None else len(labels)
    return SplitRule(feature, threshold, default_left, checked_right(right[0], n_categories))


def checked_right(right: Any, n_categories: int) -> tuple[int, ...]:
    """The categories that a split sends right."""
    if not isinstance(right, list) or not right or not all(type(one) is int for one in right):
        raise TypeError("not categories")
    if right != sorted(set(right)) or right[0] < 0 or right[-1] >= n_categories:
        raise ValueError("impossible categories")
    return tuple(right)


class NamedSplit(NamedTuple):
    """A split as the active party named it to the party that owns it; see `Candidate` for its parts."""

    column: int
    last_left: int
    default_left: bool
    right: tuple[int, ...] | None = None
