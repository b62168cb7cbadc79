"""Labels of a classifier: which classes there are, and the number of each row's.

No message quotes a label: those that the caller declares come back in `classes`, others are private.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.tables.frames import as_series, kind_of
from gbdt_commons.tables.numbers import check_type, is_missing, is_number
from lgb_dp.checks import checked_numbers
from lgb_dp.data.provenance import Provenance
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError, PrivacyLeakWarning

_CLASSES_LEAK = "the classes were read from the data, which leaks them; pass public `classes`"
_CLASSES_NOTE = (
    "the classes were assumed to be {{{}, {}}}, the only ones that labels of these rows can have; pass "
    "public `classes` if that is not so"
)


def as_labels(y: Any) -> NDArray[np.generic]:
    """Labels as a flat array: numbers, truth values, texts or objects; missing numbers are NaN.

    A list becomes an array of its items, since NumPy would make texts of all labels if one of them is a text.
    """
    if isinstance(y, (list, tuple)):
        labels = np.empty(len(y), dtype=object)
        for row, label in enumerate(y):
            is_alone = isinstance(label, (list, tuple)) and len(label) == 1
            labels[row] = label[0] if is_alone else label
        return labels
    check_type("y", y, ArgumentTypeError)
    series = as_series(y)
    is_nullable = series is not None and not isinstance(getattr(y, "dtype", None), np.dtype)
    if series is not None and is_nullable and kind_of(series) in ("number", "boolean"):
        return checked_numbers("y", y).reshape(-1)  # whether or not a label is missing
    try:
        return np.asarray(y).reshape(-1)
    except ValueError:  # rows of different lengths
        pass
    raise InvalidArgumentError("y must be one label per row, got labels of different lengths")


def mapped_labels(y: Any, classes: Any) -> tuple[Any, Any]:
    """Labels as the numbers that a mapping gives them, NaN for others, and all numbers; else as they are."""
    if not isinstance(classes, Mapping):
        return y, classes
    if not all(map(is_number, classes.values())):
        raise InvalidArgumentError(
            f"classes must map labels to numbers, as in {{'no': 0, 'yes': 1}}, got {classes!r}"
        )
    numbers = {_label_key(label): float(number) for label, number in classes.items()}
    found = [numbers.get(_label_key(label), np.nan) for label in as_labels(y).tolist()]
    return np.array(found), sorted(set(classes.values()))


def known_classes(
    y: NDArray[Any], classes: Sequence[Any] | None, *, are_booleans: bool = False
) -> tuple[NDArray[Any], Provenance]:
    """Sorted classes, and the leak, or assumption, by which they are known.

    `y` are labels as `as_labels` gives them, `classes` the declared ones; `are_booleans` says that the data
    type of the labels is that of truth values.
    """
    if classes is not None:
        known = np.unique(np.asarray(classes))
        if len(known) < 2:
            raise InvalidArgumentError(f"classes must hold at least two labels, got {classes!r}")
        if known.dtype.kind in "iu" and len(np.unique(known.astype(np.float64))) < len(known):
            # One missing label makes floats of all.
            raise InvalidArgumentError(f"classes must be distinct as float64, got {classes!r}")
        return known, Provenance()
    present = y[~is_missing(y)]
    if len(y) and not len(present):
        raise InvalidArgumentError("y holds no label from which to tell the classes; pass public `classes`")
    if present.dtype == object and all(map(is_number, present.tolist())):
        present = np.asarray(present.tolist())
    assumed = np.array([False, True] if are_booleans or present.dtype == np.bool_ else [0, 1])
    if present.dtype.kind in "biuf" and np.isin(present, assumed).all():
        return assumed, Provenance(notes=(_CLASSES_NOTE.format(*assumed),))
    if present.dtype.kind == "f" and (present != np.floor(present)).any():
        raise InvalidArgumentError(
            "Unknown label type: continuous.  Labels that are not whole numbers are a regression's; if they "
            "are classes, pass public `classes`"
        )
    warnings.warn(_CLASSES_LEAK, PrivacyLeakWarning, stacklevel=3)
    try:
        known = np.unique(present)
    except TypeError:  # labels that cannot be ordered
        known = np.empty(0)
    if len(known) < 2:
        raise InvalidArgumentError(
            "y must hold at least two classes, of one type; alternatively, pass public `classes`"
        )
    return known, Provenance((_CLASSES_LEAK,))


def class_numbers(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Position of each label among the sorted classes, NaN for one that is not among them.

    A label among objects counts by itself: whatever it is, it raises no error and moves no other.
    """
    if y.dtype.kind in "biuf" and classes.dtype.kind in "biuf":
        code = np.searchsorted(classes, y).clip(0, len(classes) - 1)
        return np.where(classes[code] == y, code, np.nan)
    kinds = {"O" if labels.dtype.kind == "O" else labels.dtype.kind in "biuf" for labels in (y, classes)}
    if kinds == {False, True}:
        raise InvalidArgumentError("y and classes must be of one type, got numbers and something else")
    position = {_label_key(label): float(code) for code, label in enumerate(classes.tolist())}
    return np.array([position.get(_label_key(label), np.nan) for label in y.tolist()], dtype=np.float64)


def _label_key(label: Any) -> Any:
    """Key that equal labels share; for values that cannot be looked up, a key that no class has."""
    try:
        hash(label)
        return label if label == label else None
    except Exception:  # whatever a label's own comparison raises
        return None
