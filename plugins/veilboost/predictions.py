"""Files of predictions: the id, then the prediction or one column per class."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray


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
    with ExitStack() as stack:
        file = sys.stdout if out == "-" else stack.enter_context(open(out, "w", newline="", encoding="utf-8"))
        writer = csv.writer(file)
        writer.writerow(["id", *names])
        writer.writerows([one, *row] for one, row in zip(ids, values.tolist(), strict=True))
