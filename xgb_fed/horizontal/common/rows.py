"""One organisation's rows and labels in horizontal training, and what it agrees to."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_commons.tables.frames import as_frame, is_table
from gbdt_commons.tables.numbers import is_missing
from gbdt_parties.channel import ACTIVE
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.quota import CallerLimits
from xgb_fed.boosting.features import check_weight, numeric_vector
from xgb_fed.boosting.labels import label_array, places_among, read_bounds
from xgb_fed.boosting.objectives import BINARY, SOFTMAX
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.common.introductions import MAX_CLASS_CHARACTERS, MAX_CLASSES, read_classes
from xgb_fed.horizontal.common.messages import OpenHorizontal, Trees
from xgb_fed.horizontal.common.model import read_rows

COORDINATOR = "coordinator"
"""The name, in tables, of the coordinator that passes the parties' messages on."""

MIN_SIMILAR = 3
"""Default minimum number of rows whose gradients are sent as one sum."""

MAX_PARTIES = 1000
"""Maximum number of parties of a training run."""

MAX_ROUNDS = 10_000
"""Default maximum number of rounds in which a party takes the trees of others, in all training runs."""

MAX_ROWS = 10_000_000
"""Default maximum number of rows of all parties together."""


@dataclass(frozen=True)
class HorizontalLimits(CallerLimits):
    """Limits of a served horizontal party on each coordinator, beside the terms of its `HorizontalParty`.

    Attributes
    ----------
    max_bin, max_depth : int
        Bins of a column, and levels of a tree, of a training run.
    max_round_bytes : int
        In SimFL, length of the trees of a round that another party has grown.
    """

    max_bin: int = 256
    max_depth: int = 10
    max_round_bytes: int = 16 << 20

    def check(self, settings: Settings) -> None:
        """Refuse settings beyond the limits."""
        for name in ("max_bin", "max_depth"):
            value, limit = getattr(settings, name), getattr(self, name)
            if value > limit:
                raise InvalidDataError(f"{name}={value}; this party accepts at most {limit}")

    def check_size(self, trees: Trees) -> None:
        """Refuse trees that would take too much memory to read."""
        if len(trees.models) > self.max_round_bytes:
            raise InvalidDataError(
                f"{len(trees.models)} bytes of trees in a round; this party accepts {self.max_round_bytes}"
            )


OF_THIS_PROCESS = HorizontalLimits(
    max_models=sys.maxsize, max_bin=65_535, max_depth=30, max_round_bytes=sys.maxsize
)
"""Limits of a party on a coordinator in its own process."""


def _labels(y: Any, argument: str) -> NDArray[Any]:
    """Labels, or bounds of times, of shape (n_rows, 2)."""
    if getattr(y, "shape", ())[1:] != (2,):
        return label_array(y, argument)
    columns = as_frame(y, InvalidDataError, argument) if is_table(y) else y
    sides = [columns[:, k].to_native() if is_table(y) else columns[:, k] for k in range(2)]
    return np.stack([numeric_vector(side, argument) for side in sides], axis=1)


@dataclass(frozen=True)
class HorizontalRows:
    """Checked rows, labels and options, as of `HorizontalParty`; errors of `of` name the argument."""

    name: str
    X: Any
    names: list[str]
    y: NDArray[Any]
    weight: NDArray[np.float32] | None
    categorical_labels: bool
    min_similar: int
    known_features: int
    max_rows: int
    max_rounds: int
    as_published: bool

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        name: str,
        sample_weight: Any,
        categorical_labels: bool,
        min_similar: int,
        known_features: int,
        max_rows: int,
        max_rounds: int,
        as_published: bool = False,
    ) -> HorizontalRows:
        """Check the arguments of a party."""
        if not isinstance(name, str) or not name or name in (ACTIVE, COORDINATOR) or not name.isprintable():
            raise InvalidArgumentError(
                f"name={name!r} must be a printable text other than {ACTIVE!r} and {COORDINATOR!r}"
            )
        rows, names = read_rows(X, f"X of party {name!r}")
        labels = _labels(y, f"y of party {name!r}")
        if labels.ndim == 2 and categorical_labels:
            raise InvalidArgumentError(
                f"categorical_labels=True, and y of party {name!r} has bounds of times"
            )
        if len(labels) != rows.shape[0]:
            raise InvalidDataError(
                f"party {name!r} has {rows.shape[0]} rows and labels of shape {labels.shape}"
            )
        for argument, value, least in (
            ("min_similar", min_similar, 1),
            ("known_features", known_features, 0),
            ("max_rows", max_rows, 1),
            ("max_rounds", max_rounds, 0),
        ):
            if not (isinstance(value, (int, np.integer)) and value >= least):
                raise InvalidArgumentError(f"{argument}={value!r} must be an integer of at least {least}")
        if as_published and min_similar != 1:
            raise InvalidArgumentError(
                f"as_published=True with min_similar={min_similar}: the paper has min_similar=1, with which "
                "other parties can read single labels"
            )
        weight = check_weight(sample_weight, len(labels), f"sample_weight of party {name!r}")
        return cls(
            name,
            rows,
            names,
            labels,
            weight,
            bool(categorical_labels),
            int(min_similar),
            int(known_features),
            int(max_rows),
            int(max_rounds),
            bool(as_published),
        )

    def like(self, X: Any, y: Any, sample_weight: Any = None, *, argument: str) -> HorizontalRows:
        """Check further rows of the same columns and labels; InvalidDataError names the argument."""
        rows, names = read_rows(X, f"{argument} of party {self.name!r}")
        if (rows.shape[1], names) != (self.X.shape[1], self.names):
            raise InvalidDataError(f"{argument} of party {self.name!r} has other columns than its X")
        labels = _labels(y, f"y of {argument} of party {self.name!r}")
        if len(labels) != rows.shape[0]:
            raise InvalidDataError(
                f"{argument} of party {self.name!r} has {rows.shape[0]} rows, labels of shape {labels.shape}"
            )
        weight = check_weight(sample_weight, len(labels), f"weight of {argument} of party {self.name!r}")
        return replace(self, X=rows, y=labels, weight=weight)

    @property
    def weights(self) -> NDArray[np.float32]:
        """Factors of gradients and hessians; ones by default."""
        return np.ones(len(self.y), dtype=np.float32) if self.weight is None else self.weight

    def digest(self) -> str:
        """Names everything that groups of rows depend on."""
        labels = self.y if self.y.dtype != object else repr(self.y.tolist())
        published = ("as published",) if self.as_published else ()
        return digest_of(self.X, labels, self.weight, self.min_similar, *published)

    def classes(self) -> list[Any]:
        """Return the distinct labels, which only a party that has declared them to be classes tells."""
        if not self.categorical_labels:
            raise InvalidDataError(
                "classes are sent only for labels that the party has declared with categorical_labels=True"
            )
        if is_missing(self.y).any():
            raise InvalidDataError("y has missing labels")
        classes: list[Any] = np.unique(self.y).tolist()
        if len(classes) > MAX_CLASSES:
            raise InvalidDataError(f"y has {len(classes)} classes; at most {MAX_CLASSES} are accepted")
        if any(len(str(label)) > MAX_CLASS_CHARACTERS for label in classes):
            raise InvalidDataError(f"y has a class of more than {MAX_CLASS_CHARACTERS} characters")
        return classes

    def counted(self) -> NDArray[np.bool_]:
        """Rows of weights above 0; InvalidDataError if groups of `min_similar` would tell single labels."""
        counted = self.weights > 0
        if counted.sum() < self.min_similar:
            raise InvalidDataError(
                f"{counted.sum()} rows of weights above 0 are fewer than min_similar={self.min_similar}"
            )
        if self.min_similar > 1 and len(np.unique(self.weights[counted])) > 1:
            raise InvalidDataError(
                "sample_weight has different weights above 0, so that a sum can reveal single labels: only "
                "parties with min_similar=1 take part with such weights"
            )
        return counted

    def encoded(self, classes: str, settings: Settings) -> NDArray[np.float32]:
        """The labels as the objective has them, by the agreed classes (a JSON list, empty for numbers).

        Sums of gradients tell how many labels of each class there are.  So classes are what this party has
        declared to be classes, whatever the coordinator calls them.
        """
        if not classes:
            if settings.n_classes > 1:
                raise InvalidDataError(f"objective={settings.objective!r} without a list of classes")
            return numeric_vector(self.y, "y")
        self.classes()  # they are told, so that agreed classes cannot be used to guess at labels
        known = read_classes(classes)
        expected = 2 if settings.objective in BINARY else None
        if settings.objective in SOFTMAX:
            expected = settings.n_classes
        if expected is not None and len(known) != expected:
            raise ProtocolError(f"{len(known)} classes for {settings.objective}, which is for {expected}")
        if isinstance(known[0], str) != isinstance(self.y[0], str):
            raise InvalidDataError("y is text and the agreed classes are numbers, or the other way round")
        place = places_among(known, self.y)
        if (place < 0).any():
            raise InvalidDataError("y has labels that are not among the agreed classes")
        return place.astype(np.float32)

    def bounds(self, settings: Settings) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """Bounds of times, which survival:aft has in place of labels; None for other objectives."""
        has_bounds = self.y.ndim == 2
        if has_bounds != (settings.objective == "survival:aft"):
            raise InvalidDataError(
                f"y has {1 + has_bounds} column(s) for {settings.objective}; accepted are two, the lower and "
                "upper bounds of times, for survival:aft, and one for every other objective"
            )
        return read_bounds(self.y[:, 0], self.y[:, 1], settings.loss, "y") if has_bounds else None

    def check_accepted(self, settings: Settings, opening: OpenHorizontal) -> None:
        """Refuse a training run that this party does not agree to, saying why."""
        place, n_parties = int(opening.place), len(opening.party_rows)
        if n_parties > MAX_PARTIES:
            raise InvalidDataError(f"{n_parties} parties; this party accepts at most {MAX_PARTIES}")
        if not 0 <= place < n_parties or opening.party_rows[place] != len(self.y):
            raise ProtocolError("this party's place or number of rows is wrong")
        if opening.party_rows.min() < 1 or sum(opening.party_rows.tolist()) > self.max_rows:
            raise InvalidDataError(
                f"{sum(opening.party_rows.tolist())} rows of all parties; this party accepts {self.max_rows}"
            )
        if self.min_similar > 1 and settings.scale_pos_weight != 1:
            raise InvalidDataError(
                f"scale_pos_weight={settings.scale_pos_weight} makes gradients depend on labels by another "
                "factor in each row, so that a sum can reveal single labels: only parties with min_similar=1 "
                "accept it"
            )
