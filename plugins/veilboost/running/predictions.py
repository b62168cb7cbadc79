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
    """Numbers about the rows of a file, of shape (n_rows, n_columns), with the columns' `names`.

    `asked` has the ids of the file's rows, and `ids` those that all parties have.
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
    """Predictions, of shape (n_rows,) or (n_rows, n_classes), as a table; other arguments as in `Predicted`.

    Columns have the labels of the `classes`, by default numbers from 0.
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

    `out` is a file, or ``-`` for standard output; `missing` the file of ids, by default ``OUT.missing`` if
    there are any.
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
