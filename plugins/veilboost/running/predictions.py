"""Files of predictions: the id, then the prediction or one column per class; or contributions of columns."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray

from xgb_fed.vertical.explaining.contributions import Explanation


def write_predictions(
    out: str, ids: Sequence[str], predictions: NDArray[np.float32], classes: Sequence[object] | None = None
) -> None:
    """Write CSV.

    Parameters
    ----------
    out : str
        File; ``-`` is standard output.
    ids : sequence of str
    predictions : ndarray of float32, shape (n_rows,) or (n_rows, n_classes)
    classes : sequence, optional
        Labels of the columns; numbers from 0 by default.
    """
    values = predictions.reshape(len(ids), -1)
    labels = range(values.shape[1]) if classes is None else classes
    names = ["prediction"] if values.shape[1] == 1 else [f"class_{label}" for label in labels]
    _write(out, ids, values, names)


def write_contributions(out: str, ids: Sequence[str], explanation: Explanation) -> None:
    """Write CSV: one column per column of the model, then the bias; of several classes, class by class.

    Parameters
    ----------
    out : str
        File; ``-`` is standard output.
    ids : sequence of str
    explanation : Explanation
    """
    values = explanation.contributions
    names = [*explanation.feature_names, "bias"]
    if values.ndim == 3:
        names = [f"class_{label}: {name}" for label in range(values.shape[1]) for name in names]
    _write(out, ids, values.reshape(len(ids), -1), names)


def _write(out: str, ids: Sequence[str], values: NDArray[np.float32], names: Sequence[str]) -> None:
    with ExitStack() as stack:
        file = sys.stdout if out == "-" else stack.enter_context(open(out, "w", newline="", encoding="utf-8"))
        writer = csv.writer(file)
        writer.writerow(["id", *names])
        writer.writerows([one, *row] for one, row in zip(ids, values.tolist(), strict=True))
