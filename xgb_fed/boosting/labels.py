"""Class labels of any kind, and the numbers from 0 that XGBoost's objectives take for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import InvalidDataError


def encode_labels(y: Any) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Find the classes of a vector of labels.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, 1)

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Sorted.
    codes : ndarray of float32, shape (n_rows,)
        Each label's place among the classes.

    Raises
    ------
    InvalidDataError
        If `y` is not a vector, has missing or infinite labels, or fewer than two classes.
    """
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InvalidDataError(f"y has shape {y.shape}; a vector of labels is accepted")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise InvalidDataError("y has missing or infinite labels")
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InvalidDataError(f"y has {len(classes)} class; at least 2 are needed")
    return classes, codes.astype(np.float32)


def codes_of(classes: NDArray[Any], y: Any, argument: str) -> NDArray[np.float32]:
    """Look up labels among known classes.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted.
    y : array-like of shape (n_rows,)
    argument : str
        Name of the argument, for the error's text.

    Returns
    -------
    ndarray of float32, shape (n_rows,)

    Raises
    ------
    InvalidDataError
        If a label is not among the classes.
    """
    codes = places_among(classes.tolist(), y)
    if (codes < 0).any():
        raise InvalidDataError(f"{argument} has labels that are not in y")
    return codes.astype(np.float32)


def places_among(classes: Sequence[Any], y: Any) -> NDArray[np.intp]:
    """Look up labels among known classes, which may come from another party.

    Classes and labels never share an array: NumPy would make every label as long as the longest class.

    Parameters
    ----------
    classes : sequence
    y : array-like of shape (n_rows,)

    Returns
    -------
    ndarray of intp, shape (n_rows,)
        Place of each label's class; -1 where there is none.
    """
    places = {label: place for place, label in enumerate(classes)}
    labels, row_label = np.unique(np.asarray(y), return_inverse=True)
    return np.array([places.get(label, -1) for label in labels.tolist()], dtype=np.intp)[row_label]
