"""Categorical columns: which columns of a matrix they are, and what their codes stand for.

XGBoost knows categories as whole numbers from 0.  A data frame's column has a list of categories, whose
positions are the codes; codes in an array need a column declared by ``feature_types``.  Only codes
reach trees and messages.  The list stays with its party, which brings later frames to the same codes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.tables.frames import (
    as_frame,
    categories_of_cells,
    categories_of_dtype,
    codes_of_dtype,
    column_names,
    index_of,
    kinds_of,
)
from gbdt_commons.tables.numbers import read_numbers
from gbdt_parties.errors import InvalidDataError

INVALID_CODE = float(1 << 24)
"""XGBoost's first code that is no category: float32 does not hold all whole numbers from here on."""

FEATURE_TYPES = ("c", "q", "float", "int", "i")
"""Of a column, as XGBoost names them; "c" is a category, the others are numbers."""

Labels = tuple[Any, ...] | None
"""The categories of a column in the order of their codes; None if the column was given as codes."""

Categories = Mapping[int, Labels]
"""By number, the columns that are categorical."""


class CategoryRules(NamedTuple):
    """XGBoost's parameters of the same names."""

    max_cat_to_onehot: int = 4
    max_cat_threshold: int = 64


DEFAULT_RULES = CategoryRules()


def read_frame(
    X: Any, argument: str, enable_categorical: bool | None
) -> tuple[NDArray[np.float32], list[str], dict[int, Any]]:
    """The values of a table, with codes in its categorical columns; its columns' names; these categories.

    Categorical columns are read with `enable_categorical`, which is None where no method can train on them.
    Raises `InvalidDataError` that names the columns that are neither numbers nor categories.
    """
    frame = as_frame(X, InvalidDataError, argument)
    names, kinds = list(column_names(frame)), kinds_of(frame)
    accepted = {"number", "boolean", *(["category"] if enable_categorical else [])}
    wrong = [name for name, kind in zip(names, kinds, strict=True) if kind not in accepted]
    if wrong:
        how = "categorical features are not supported, encode them first"
        if enable_categorical is not None:
            how = "encode them, or make them of dtype category and set enable_categorical=True"
        raise InvalidDataError(f"{argument} has columns that are not numbers: {wrong}; {how}")
    errors = (np.float32, InvalidDataError, InvalidDataError)
    if "category" not in kinds and index_of(X) is not None:  # pandas holds many columns in one block
        return read_numbers(argument, X, *errors), names, {}
    data, categories = np.empty(frame.shape, dtype=np.float32), {}
    for k, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        column = frame[:, k]
        if kind == "category":
            values = categories_of_dtype(column)
            values = categories_of_cells(column) if values is None else values
            categories[k] = labels_of(values, name, argument)
            data[:, k] = _codes(column, categories[k])
        else:
            data[:, k] = read_numbers(f"column {name!r} of {argument}", column.to_native(), *errors)
    return data, names, categories


def _codes(column: Any, labels: tuple[Any, ...]) -> NDArray[np.floating[Any]]:
    """The place of each cell's category, NaN for a missing one."""
    codes = codes_of_dtype(column)
    if codes is not None:
        return np.where(codes < 0, np.nan, codes)
    places: dict[Any, float] = {label: float(code) for code, label in enumerate(labels)}
    return np.array([places.get(cell, np.nan) for cell in column.to_list()])


def labels_of(categories: Any, column: str, argument: str) -> tuple[Any, ...]:
    """A data frame column's categories; `InvalidDataError` unless texts and finite numbers."""
    labels = tuple(one.item() if isinstance(one, np.generic) else one for one in categories)
    if not all(is_label(one) for one in labels):
        raise InvalidDataError(
            f"column {column!r} of {argument} has categories that are neither texts nor finite numbers"
        )
    return labels


def is_label(one: Any) -> bool:
    """Whether something can be a category: a text, or a number that NumPy holds and that is finite."""
    if isinstance(one, int):
        return -(2**63) <= one < 2**64
    return isinstance(one, str) or (isinstance(one, float) and math.isfinite(one))


def recoded(
    codes: NDArray[np.float32], labels: Labels, known: Labels, column: str, argument: str
) -> NDArray[np.float32]:
    """Codes of one list of categories, `labels`, as codes of another one, `known`; NaN where missing.

    Raises `InvalidDataError` if rows have categories that the other list does not declare.
    """
    if labels == known or labels is None:
        return codes
    if known is None:
        raise InvalidDataError(
            f"column {column} of {argument} has categories by name, and codes where it was trained on"
        )
    place = {label: code for code, label in enumerate(known)}
    table = np.array([place.get(label, -1) for label in labels] + [-1], dtype=np.float32)
    has_value = ~np.isnan(codes)
    translated = np.full(len(codes), np.nan, dtype=np.float32)
    translated[has_value] = table[codes[has_value].astype(np.int64)]
    n_unknown = int((translated < 0).sum())
    if n_unknown:
        raise InvalidDataError(
            f"column {column} of {argument} has categories in {n_unknown} rows that were not declared "
            "where it was trained on"
        )
    return translated


def check_codes(codes: NDArray[np.float32], argument: str, n_max: int) -> None:
    """InvalidDataError for codes of a trained column below 0, or beyond the bins that it can have."""
    with np.errstate(invalid="ignore"):
        wrong = (codes < 0) | (codes >= n_max)
    if wrong.any():
        raise InvalidDataError(
            f"{argument} has invalid categories in {int(wrong.sum())} rows: codes from 0 to {n_max - 1} are "
            "accepted"
        )


def n_categories(codes: NDArray[np.float32]) -> int:
    """XGBoost's number of bins: up to the largest category that rows have, and 1 without any."""
    has_value = codes[~np.isnan(codes)]
    return int(has_value.max()) + 1 if len(has_value) else 1


def goes_right(codes: NDArray[np.float32], right: Sequence[int]) -> NDArray[np.bool_]:
    """Which codes are among those that a split sends right; invalid and unknown ones are not."""
    with np.errstate(invalid="ignore"):
        whole = np.where((codes >= 0) & (codes < INVALID_CODE), codes, -1).astype(np.int64)
    return np.isin(whole, np.asarray(right, dtype=np.int64))


def checked_types(feature_types: Any, n_features: int, argument: str) -> frozenset[int]:
    """The columns that feature types declare categorical; `InvalidDataError` unless each has a known type."""
    if feature_types is None:
        return frozenset()
    types = [feature_types] * n_features if isinstance(feature_types, str) else list(feature_types)
    if len(types) != n_features or any(one not in FEATURE_TYPES for one in types):
        raise InvalidDataError(
            f"feature_types of {argument} must be one of {FEATURE_TYPES} for each of its {n_features} columns"
        )
    return frozenset(k for k, one in enumerate(types) if one == "c")


def to_json(categories: Categories) -> list[list[Any]]:
    """For JSON, whose keys are texts."""
    return [[column, None if labels is None else list(labels)] for column, labels in categories.items()]


def from_json(content: Any, n_columns: int) -> dict[int, Labels]:
    """Read what `to_json` gave; raises ValueError or TypeError if it is anything else."""
    categories: dict[int, Labels] = {}
    for column, labels in content:
        if type(column) is not int or not 0 <= column < n_columns or column in categories:
            raise ValueError("a categorical column that does not exist")
        if labels is not None and not (isinstance(labels, list) and all(is_label(one) for one in labels)):
            raise TypeError("categories")
        categories[column] = None if labels is None else tuple(labels)
    return categories
