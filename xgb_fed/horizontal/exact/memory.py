"""How much memory an exact training run takes at a party: what it reserves before anything is allocated.

Every number and every list that a coordinator chooses is in here, or is bounded where the task is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from xgb_fed.horizontal.exact.metrics import metric_names
from xgb_fed.horizontal.exact.task import ExactTask

_ROW_BYTES = 192
"""Of a row's gradient and hessian of one class: fixed-point numbers, and those they are made of."""

_XGBOOST_ROW_BYTES = 2000
"""Of a row whose gradients XGBoost computes, while it reads the tree that it computes them by."""

_BIN_BYTES = 256
"""Of a bin of one node: its sums here, of all parties, in its parent's, and as gains of candidates."""

_CELL_BYTES = 640
"""Of a cell that cuts are searched in: the counts by its 16 next digits, of this party and of all."""

_VALUE_BYTES = 6
"""Of a value of a row: its key while cuts are searched, and the number of its bin."""

_LOSS_BYTES = 32
"""Of the loss of a held-out row: one, weighted, and what it is computed by."""

_METRIC_BYTES = 96
"""Of a metric of one set and round: a number, in a list and in the text that the model is sent as."""

_NODE_BYTES = 3000
"""Of a node of a finished tree: numbers in lists, in the model's text, and in XGBoost that reads it."""


def needed_bytes(task: ExactTask, n_rows: Sequence[int]) -> int:
    """How much memory a run takes at a party, beside its rows: an upper bound of what its arrays hold.

    Parameters
    ----------
    task : ExactTask
    n_rows : sequence of int
        Rows to train on, and of each held-out set.
    """
    settings = task.settings
    n_classes, n_bins = max(1, settings.n_classes), task.n_columns * (task.max_bin + 1)
    n_metrics = len(metric_names(settings.objective, settings.eval_metric))
    # Bins; gradients and hessians as words, twice while they are made; floats, margins, nodes.
    of_rows = n_rows[0] * (_VALUE_BYTES * task.n_columns + n_classes * (_ROW_BYTES + 16))
    of_rows += sum(n_rows) * 64 * n_classes + max(n_rows[1:], default=0) * _LOSS_BYTES * (1 + n_metrics)
    of_rows += 0 if settings.loss.is_closed_form else n_rows[0] * _XGBOOST_ROW_BYTES
    n_nodes = 1 << (settings.max_depth - 1)
    of_bins = n_bins * (n_nodes * n_classes * _BIN_BYTES + _CELL_BYTES)
    of_model = task.n_rounds * (
        4 * n_nodes * n_classes * _NODE_BYTES + task.n_sets * n_metrics * _METRIC_BYTES
    )
    return of_rows + of_bins + of_model
