"""Labels: classes of any kind and their numbers from 0, bounds of times, queries, margins to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.tables.frames import as_frame, as_series, is_table, kind_of
from gbdt_commons.tables.numbers import check_type, is_missing, is_number
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.features import numeric_vector
from xgb_fed.boosting.objectives import RANKING, XGBoostObjective
from xgb_fed.errors import InvalidArgumentError


def label_array(y: Any, argument: str) -> NDArray[Any]:
    """Labels as a flat array of numbers, or of objects where they are texts.

    Raises `InvalidDataError` if they are no vector, of a type that is not known, or numbers and texts; no
    label is quoted.
    """
    check_type(argument, y, InvalidDataError)
    if is_table(y) and y.shape[1] == 1:
        y = as_frame(y, InvalidDataError, argument)[:, 0].to_native()
    series = as_series(y)
    if series is not None and kind_of(series) in ("number", "boolean") and series.null_count():
        return numeric_vector(y, argument)
    try:
        # Of a list with one text, NumPy would make texts of all, also of what is missing.
        labels = np.array(y, dtype=object) if isinstance(y, (list, tuple)) else np.asarray(y)
    except Exception:  # rows of different lengths
        labels = np.empty((0, 0))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InvalidDataError(f"{argument} has shape {labels.shape}; a vector of labels is accepted")
    if labels.dtype.kind == "c":
        raise InvalidDataError(f"Complex data not supported: {argument} must hold real numbers")
    if labels.dtype.kind not in "biufUSO" or labels.dtype.names:
        raise InvalidDataError(f"{argument} holds {labels.dtype.type.__name__}; labels are numbers or texts")
    if labels.dtype.kind == "O":
        missing = is_missing(labels)
        kinds = {str if isinstance(one, str) else is_number(one) for one in labels[~missing]}
        if len(kinds) > 1 or False in kinds:
            raise InvalidDataError(f"{argument} must hold either numbers or texts, and nothing else")
        if True in kinds and not missing.any():
            return np.asarray(labels.tolist())
    return labels


def encode_labels(y: Any) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """The classes of a vector of labels, sorted, and the place of each label among them.

    Raises `InvalidDataError` if `y` is not a vector of numbers or of texts, has missing or infinite labels,
    or fewer than two classes.
    """
    y = label_array(y, "y")
    if is_missing(y).any():
        raise InvalidDataError("y has missing or infinite labels")
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InvalidDataError(f"y has {len(classes)} class; at least 2 are needed")
    return classes, codes.astype(np.float32)


def codes_of(classes: NDArray[Any], y: Any, argument: str) -> NDArray[np.float32]:
    """Places of labels among known classes; raises `InvalidDataError` if a label is not among them."""
    codes = places_among(classes.tolist(), y)
    if (codes < 0).any():
        raise InvalidDataError(f"{argument} has labels that are not in y")
    return codes.astype(np.float32)


def places_among(classes: Sequence[Any], y: Any) -> NDArray[np.intp]:
    """Place of each label among known classes, which may come from another party; −1 where there is none.

    Classes and labels never share an array: NumPy would make every label as long as the longest class.
    """
    places = {label: place for place, label in enumerate(classes)}
    given = label_array(y, "y")
    found = np.full(len(given), -1, dtype=np.intp)
    present = ~is_missing(given)
    labels, row_label = np.unique(given[present], return_inverse=True)
    found[present] = np.array([places.get(label, -1) for label in labels.tolist()], dtype=np.intp)[row_label]
    return found


def read_bounds(
    lower: Any, upper: Any, objective: XGBoostObjective, argument: str
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """Check the bounds of times that ``survival:aft`` takes in place of labels.

    Raises `InvalidArgumentError` if the objective takes none, or needs those that are missing, and
    `InvalidDataError` if they are not numbers from 0 on, the lower one finite and at most the upper one.
    """
    given = [("label_lower_bound", lower), ("label_upper_bound", upper)]
    if objective.name != "survival:aft":
        for name, values in given:
            if values is not None:
                raise InvalidArgumentError(
                    f"{name} of {argument} is for survival:aft, not for {objective.name}"
                )
        return None
    for name, values in given:
        if values is None:
            raise InvalidArgumentError(f"{name} of {argument} must be given for survival:aft")
    low, high = (numeric_vector(values, f"{name} of {argument}") for name, values in given)
    if len(low) != len(high):
        raise InvalidDataError(
            f"{argument} has {len(low)} label_lower_bound and {len(high)} label_upper_bound"
        )
    if not (np.isfinite(low).all() and (low >= 0).all()):
        raise InvalidDataError(f"label_lower_bound of {argument} must be finite and at least 0")
    if not ((high >= low).all() and (high > 0).all()):
        raise InvalidDataError(
            f"label_upper_bound of {argument} must be above 0 and at least label_lower_bound, "
            "and infinite where unknown"
        )
    return low, high


def read_queries(
    qid: Any, n_rows: int, objective: XGBoostObjective, argument: str
) -> NDArray[np.int64] | None:
    """Check the queries that rows belong to.

    Raises `InvalidArgumentError` if ranking has none, or another objective has some, and `InvalidDataError`
    if they are not one integer per row, or not sorted.
    """
    if objective.name not in RANKING:
        if qid is not None:
            raise InvalidArgumentError(f"qid of {argument} is for ranking, not for {objective.name}")
        return None
    if qid is None:
        raise InvalidArgumentError(f"qid of {argument} must be given for {objective.name}")
    check_type(f"qid of {argument}", qid, InvalidDataError)
    queries = np.asarray(qid)
    if queries.ndim != 1 or queries.dtype.kind not in "iu" or len(queries) != n_rows:
        raise InvalidDataError(
            f"qid of {argument} must be one integer for each of {n_rows} rows, not {queries.dtype} of shape "
            f"{queries.shape}"
        )
    if (np.diff(queries) < 0).any():
        raise InvalidDataError(f"qid of {argument} must be sorted: rows of a query follow each other")
    return queries.astype(np.int64)


def read_base_margin(base_margin: Any, shape: tuple[int, int], argument: str) -> NDArray[np.float32] | None:
    """Margins before the first tree, (n_rows, n_classes); `InvalidDataError` unless finite."""
    if base_margin is None:
        return None
    name = f"base_margin of {argument}"
    check_type(name, base_margin, InvalidDataError)
    given = np.asarray(base_margin)
    if given.shape != shape and (shape[1] > 1 or given.shape != shape[:1]):
        raise InvalidDataError(f"{name} has shape {given.shape}; {shape} is accepted")
    margin = numeric_vector(given.reshape(-1), name)
    if not np.isfinite(margin).all():
        raise InvalidDataError(f"{name} must be finite")
    return margin.reshape(shape)
