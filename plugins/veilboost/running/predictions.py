"""Files of predictions: the id, then the prediction or one column per class; or contributions of columns."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import write_atomically

if TYPE_CHECKING:
    from xgb_fed.vertical.explaining.contributions import Explanation


class Predicted(NamedTuple):
    """Numbers about the rows of a file.

    Attributes
    ----------
    asked : sequence of str
        Ids of the file's rows.
    ids : sequence of str
        Ids of those that all parties have.
    values : ndarray, shape (n_rows, n_columns)
    names : list of str
        Of the columns.
    """

    asked: Sequence[str]
    ids: Sequence[str]
    values: NDArray[np.float32]
    names: list[str]


def predictions_of(
    asked: Sequence[str],
    ids: Sequence[str],
    predictions: NDArray[np.float32],
    classes: Sequence[object] | None = None,
) -> Predicted:
    """Predictions as a table.

    Parameters
    ----------
    asked, ids : sequence of str
        As in `Predicted`.
    predictions : ndarray of float32, shape (n_rows,) or (n_rows, n_classes)
    classes : sequence, optional
        Labels of the columns; numbers from 0 by default.
    """
    values = predictions.reshape(len(ids), -1)
    labels = range(values.shape[1]) if classes is None else classes
    names = ["prediction"] if values.shape[1] == 1 else [f"class_{label}" for label in labels]
    return Predicted(asked, ids, values, names)


def contributions_of(asked: Sequence[str], ids: Sequence[str], explanation: Explanation) -> Predicted:
    """Contributions as a table: a column for each column of the model, then the bias; class by class."""
    values = explanation.contributions
    names = [*explanation.feature_names, "bias"]
    if values.ndim == 3:
        names = [f"class_{label}: {name}" for label in range(values.shape[1]) for name in names]
    return Predicted(asked, ids, values.reshape(len(ids), -1), names)


def write(predicted: Predicted, out: str, missing: str | None) -> None:
    """Write a table as CSV, the ids of rows that are not in it, and a line that counts them.

    Parameters
    ----------
    predicted : Predicted
    out : str
        File; ``-`` is standard output.
    missing : str or None
        File of ids; ``OUT.missing`` unless given, if there are any.
    """
    with ExitStack() as stack:
        file = sys.stdout if out == "-" else stack.enter_context(open(out, "w", newline="", encoding="utf-8"))
        writer = csv.writer(file)
        writer.writerow(["id", *predicted.names])
        writer.writerows(
            [one, *row] for one, row in zip(predicted.ids, predicted.values.tolist(), strict=True)
        )
    known = set(predicted.ids)
    others = [one for one in predicted.asked if one not in known]
    text = f"{len(predicted.ids)} of {len(predicted.asked)} rows predicted"
    if out != "-":
        text += f": {out}"
    path = missing or (None if out == "-" else f"{out}.missing")
    if path is not None and (others or missing):
        write_atomically(path, "".join(f"{one}\n" for one in others))
        text += f"; ids of the others: {path}"
    print(text, file=sys.stderr if out == "-" else sys.stdout)
