"""Descriptions of the parties' rows, columns and labels, read strictly by every receiver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.quoting import quoted
from gbdt_commons.tables.frames import check_names
from gbdt_parties.agreed import read_json
from gbdt_parties.errors import InvalidDataError, ProtocolError
from xgb_fed.boosting.objectives import BINARY
from xgb_fed.horizontal.common.messages import HorizontalOpened, RowShape

MAX_CLASSES = 256
"""Maximum number of distinct labels that are exchanged and trained with."""

MAX_CLASS_CHARACTERS = 200
"""Maximum number of characters of a class: in an array all labels are as long as the longest."""

MAX_TEXT = 1 << 20
"""Maximum number of characters of a text that holds JSON."""


def read_classes(text: str) -> list[Any]:
    """Read a JSON list of classes: different texts, or different finite numbers, in ascending order.

    A ProtocolError says that it is anything else, has more than `MAX_CLASSES` items or one of more than
    `MAX_CLASS_CHARACTERS`.
    """
    try:
        classes = read_json(text, MAX_TEXT)
    except ValueError:
        classes = None
    if not (isinstance(classes, list) and 1 <= len(classes) <= MAX_CLASSES):
        raise ProtocolError(f"classes that are not a list of 1 to {MAX_CLASSES} labels")
    texts = [isinstance(label, str) for label in classes]
    if any(texts) != all(texts) or not all(isinstance(label, str) or _is_number(label) for label in classes):
        raise ProtocolError("classes that are neither all texts nor all finite numbers")
    if any(len(str(label)) > MAX_CLASS_CHARACTERS for label in classes):
        raise ProtocolError(f"a class of more than {MAX_CLASS_CHARACTERS} characters")
    if any(not one < other for one, other in pairwise(classes)):
        raise ProtocolError("classes that are not different and in order")
    return classes


def _is_number(label: Any) -> bool:
    return isinstance(label, (int, float)) and -(2**63) <= label < 2**63


def names_to_json(names: Sequence[str]) -> str:
    """Column names, checked, as a JSON list; empty without any."""
    check_names(names, InvalidDataError, "the data")
    wrong = [name for name in names if not set(name).isdisjoint("[]<")]
    if wrong:  # the model is XGBoost's, which would not take a table with them
        raise InvalidDataError(f"XGBoost accepts no name with one of [ ] <: rename {wrong[:10]}")
    return json.dumps(names) if names else ""


class DescribedColumns(Protocol):
    """Description of a party's columns and labels."""

    @property
    def n_features(self) -> int:
        """Number of columns."""

    @property
    def names(self) -> str:
        """Column names, a JSON list; empty if the columns have none."""

    @property
    def classes(self) -> str:
        """Distinct labels, a JSON list, if asked for."""


def check_columns(own: DescribedColumns, wants_classes: bool) -> None:
    """Check a party's description of columns and labels, before it is used, or raise `ProtocolError`."""
    if not 1 <= own.n_features < 2**31:
        raise ProtocolError(f"{own.n_features} columns")
    if own.names:
        try:
            names = read_json(own.names, MAX_TEXT)
        except ValueError:
            names = None
        if not isinstance(names, list):
            raise ProtocolError("column names that are not a list of texts")
        if len(names) != own.n_features:
            raise ProtocolError(f"{len(names)} names of {own.n_features} columns")
        check_names(names, ProtocolError, "columns")
    if wants_classes:
        read_classes(own.classes)
    elif own.classes:
        raise ProtocolError("classes that were not asked for")


def check_introduction(party: str, answer: RowShape, wants_classes: bool) -> None:
    """Check what a party of SimFL says of its rows; a ProtocolError names it."""
    try:
        check_columns(answer, wants_classes)
    except ProtocolError as error:
        raise ProtocolError(f"party {party!r} introduces itself with {quoted(str(error))}") from None


def common_columns(
    parties: Sequence[str], introductions: Sequence[DescribedColumns]
) -> tuple[int, list[str]]:
    """Number and names of all parties' columns; InvalidDataError names the first party that differs."""
    first, name = introductions[0], parties[0]
    for party, other in zip(parties[1:], introductions[1:], strict=True):
        if other.n_features != first.n_features:
            raise InvalidDataError(
                f"party {party!r} has {other.n_features} columns, {name!r} has {first.n_features}; "
                "all parties need the same ones in the same order"
            )
        if other.names != first.names:
            theirs, ours = quoted(other.names), quoted(first.names)
            raise InvalidDataError(
                f"party {party!r} has columns {theirs or 'without names'}, {name!r} has "
                f"{ours or 'ones without names'}; all parties need the same ones in the same order"
            )
    return first.n_features, read_json(first.names, MAX_TEXT) if first.names else []


def common_classes(
    parties: Sequence[str],
    introductions: Sequence[DescribedColumns],
    objective: str,
    num_class: int | None,
    is_auto: bool,
) -> tuple[NDArray[Any], str]:
    """All parties' labels, in order, and the objective, which may follow from them (`is_auto`).

    An InvalidDataError names what each party told, if labels are of different kinds, fewer than two, more
    than `MAX_CLASSES`, or not as many as the objective has: XGBoost refuses such labels, too.
    """
    labels, most, told = set[Any](), 0, list[str]()
    for party, answer in zip(parties, introductions, strict=True):
        own = read_classes(answer.classes)
        labels, most = labels | set(own), max(most, len(own))
        told.append(f"{quoted(party)!r} has {quoted(str(own), MAX_CLASS_CHARACTERS)}")
    if len({isinstance(label, str) for label in labels}) > 1:
        raise InvalidDataError(f"y is text at one party and numbers at another: {', '.join(told)}")
    if len(labels) < 2:
        raise InvalidDataError(
            f"y has the classes {quoted(str(sorted(labels)))} over all parties; at least two are needed"
        )
    if len(labels) > MAX_CLASSES:
        raise InvalidDataError(
            f"y has {len(labels)} classes over all parties; at most {MAX_CLASSES} are accepted"
        )
    if objective in BINARY:
        num_class = 2 if len(labels) > 2 and not (is_auto and most > 2) else None
        objective = "multi:softprob" if len(labels) > 2 and is_auto else objective
    if num_class not in (None, len(labels)):
        raise InvalidDataError(
            f"y has {len(labels)} classes over all parties; objective={objective!r} is for {num_class}: "
            f"{', '.join(told)}; code labels alike at all parties, or, if they all are meant, give "
            f"objective='multi:softprob' and num_class={len(labels)}"
        )
    return np.array(sorted(labels)), objective


def common_mean_label(parties: Sequence[str], opened: Sequence[HorizontalOpened], in_unit: bool) -> float:
    """The mean label of all parties, weighted.

    A ProtocolError names the party whose sums no labels have, such as those outside of 0 and 1 if they are
    `in_unit`; an InvalidDataError says that all weights are 0.
    """
    for party, answer in zip(parties, opened, strict=True):
        sums = answer.label_sums
        fine = sums.shape == (2,) and np.isfinite(sums).all() and sums[0] >= 0
        if not fine or (in_unit and not 0 <= sums[1] <= sums[0]):
            raise ProtocolError(f"party {party!r}: the sums of weights and labels are malformed")
    weight, labels = np.sum([answer.label_sums for answer in opened], axis=0)
    if weight == 0:
        raise InvalidDataError("no row of any party has a weight above 0")
    return float(labels / weight)
