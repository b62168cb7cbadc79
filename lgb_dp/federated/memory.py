"""How much memory a private run takes at a party: what it reserves before anything is allocated or charged.

Every number that a coordinator chooses is in here, or is bounded where the task is read.
"""

from __future__ import annotations

from lgb_dp.boosting.params import TrainingParameters
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.task import FederatedTask
from lgb_dp.newton.model_memory import model_bytes
from lgb_dp.newton.settings import MAX_AUTOMATIC_DEPTH

MAX_OPENED_BYTES = 60 << 20
"""Contributions of all parties to one sum: they come in one request, and servers accept 64 MiB."""

_VALUE_BYTES = 64
"""Of a value of a round's sum: exact, with noise, masked, signed, sent, and opened."""

_ROW_BYTES, _OUTPUT_BYTES = 128, 64
"""Of a row, and of each of its scores, with its target and its leaf."""


def round_values(task: FederatedTask, params: TrainingParameters) -> int:
    """Values of the sum of a round, at most: gradients and hessians of leaves, with rows held out or not."""
    return 4 * task.trees_per_round * params.n_outputs << _levels(task, params)


def needed_bytes(task: FederatedTask, params: TrainingParameters, n_rows: int) -> int:
    """How much memory a run takes at a party, beside its data set: an upper bound of what its arrays hold.

    Parameters
    ----------
    task : FederatedTask
    params : TrainingParameters
        Those of the task.
    n_rows : int
    """
    rows = n_rows * (_ROW_BYTES + _OUTPUT_BYTES * params.n_outputs)
    model = model_bytes(_levels(task, params), task.n_rounds, params.n_outputs)
    return rows + model + _VALUE_BYTES * round_values(task, params)


def check_opened(task: FederatedTask, params: TrainingParameters, n_parties: int) -> None:
    """Refuse sums that could not be opened after each party has been charged for its own.

    Raises
    ------
    InvalidArgumentError
        Saying what makes them long.
    """
    n_bytes = 8 * n_parties * round_values(task, params)
    if n_bytes > MAX_OPENED_BYTES:
        raise InvalidArgumentError(
            f"trees_per_round={task.trees_per_round}, {params.n_outputs} trees of each and up to "
            f"{2 ** _levels(task, params)} leaves make sums of {n_bytes >> 20} MiB over {n_parties} parties; "
            f"at most {MAX_OPENED_BYTES >> 20} are accepted: give a smaller trees_per_round or max_depth"
        )


def _levels(task: FederatedTask, params: TrainingParameters) -> int:
    """Levels of a tree, at most."""
    depth = task.trainer_arguments()["depth"]
    asked = params.depth if "max_depth" in params.given else MAX_AUTOMATIC_DEPTH
    return asked if depth == "auto" else int(depth)
