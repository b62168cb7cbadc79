"""The rows of one training run: all that it reads of a Dataset, as it was when the run began.

A Dataset belongs to its user, who may set attributes, write into arrays, and train on it in several threads.
A run reads a copy of its own.
"""

from __future__ import annotations

from gbdt_hosts.lightgbm import InitialModel
from lgb_dp.data.dataset import Dataset


def rows_of_run(train_set: Dataset, model: InitialModel | None) -> Dataset:
    """Copy of the rows that a run from an initial model reads, taken at one moment.

    Start scores are those of this initial model, even if another thread has set another one since.  Labels,
    weights and persons are copies.

    Parameters
    ----------
    train_set : Dataset
    model : InitialModel or None
        Text of the model that the booster continues; start scores are predicted anew unless this very text
        gave them.
    """
    with train_set._lock.held():
        data = train_set.snapshot()
        data._predictor = None if model is None else model.predictor
        data._used_scores = data._scores_of(model)
        if model is not None:
            train_set._used_scores = data._used_scores
    data.label, data.weight, data._group_of_row = (
        None if values is None else values.copy() for values in (data.label, data.weight, data._group_of_row)
    )
    return data
