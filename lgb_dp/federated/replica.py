"""A party's own copy of a training run, which stops at every question until all parties' sum is there.

All copies of a run see the same sums and draw structures from the same public stream, so that each party
computes every released tree, and the next question, for itself.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lgb_dp.newton.run_task as newton
from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_commons.key_stream import KeyStream
from gbdt_hosts.lightgbm import check_parameters
from gbdt_parties.secure_sum.rings import MODULO_64
from lgb_dp.accounting.cost import Cost, pair_text
from lgb_dp.accounting.gaussian import gaussian_epsilon
from lgb_dp.accounting.shares import CLOSENESS_SHARE, closeness_cost
from lgb_dp.accounting.unit import Unit
from lgb_dp.boosting.booster import DPBooster, trained
from lgb_dp.boosting.run_rows import RunRows
from lgb_dp.boosting.training import Asking
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.task import FederatedTask
from lgb_dp.losses.loss import STEPS
from lgb_dp.losses.objective import OBJECTIVES
from lgb_dp.mechanisms.noise import MAX_ROWS
from lgb_dp.newton.core import NewtonCore
from lgb_dp.newton.run_task import RunTask, largest_rate
from lgb_dp.newton.trainer import NewtonBoost

STDS_IN_RANGE = 12.0
"""Standard deviations of the noise that an honest sum is not beyond; once in 10^32 sums it is."""


_MAX_ENTRY = 2**15
"""Most that a row of weight 1 adds to a sum of gradients or hessians: it is an entry of a table of int16,
or shorter than √2 `STEPS`."""


@dataclass(frozen=True, eq=False)
class NoisedQuestion:
    """Next question about the rows of all parties, with this party's own answer before noise.

    `what` names the release; `structure` is the digest of the trees whose leaves are summed, empty without
    any. `sums` of this party's rows are private; `stds` are the planned deviations of the noise in each, in
    steps. `mu` is the cost per unit, and `limit` the absolute value that sums of all rows cannot exceed,
    without noise.
    """

    what: str
    structure: bytes
    sums: tuple[NDArray[np.int64], ...]
    stds: tuple[float, ...]
    mu: float
    limit: int

    ring = MODULO_64

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The question, the same at all parties."""
        # No text of a float: those of NumPy's differ between its releases, and so between parties.
        return self.what.encode(), self.structure, np.array(self.stds, dtype="<f8").tobytes()

    @property
    def n_values(self) -> int:
        """Values in all sums together."""
        return sum(part.size for part in self.sums)


@dataclass(frozen=True, eq=False)
class Released:
    """Noised sums of all parties, and the deviation of the first one's noise over the planned one."""

    sums: NDArray[np.int64]
    factor: float


def train_replica(
    rows: RunRows, task: FederatedTask, n_parties: int, public_seed: bytes, own_key: bytes
) -> tuple[Asking[DPBooster], Cost]:
    """Start a party's copy of a run, whose structures are drawn from the stream of the public seed.

    By that of its own key, a secret that outlives a restart, the party holds rows out.

    The generator yields each `NoisedQuestion`, is sent `Released`, and returns the model; with it comes the
    cost of all that the run may release, per unit.  InvalidArgumentError or UnsupportedParameterError say
    that the settings and the data do not allow the run.
    """
    params = {**task.params, "verbosity": -1}
    trainer = NewtonBoost(**task.trainer_arguments())
    with silent_arithmetic():
        given = trainer.task(rows, params, task.n_rounds)
        check_parameters(params, len(given.data.bins.names))
        if given.data.label_bounds is None and OBJECTIVES[given.params.objective].is_regression:
            raise InvalidArgumentError(
                f"label_bounds must be declared by all parties for objective={given.params.objective!r}"
            )
        unit = given.data.unit.at_parties(task.parties_per_person)
        run = RunTask(
            n_trees=task.n_rounds,
            trees_per_round=task.trees_per_round,
            largest_rate=largest_rate(task.trees_per_round),
            unit=unit,
            validation_fraction=trainer.validation_fraction,
            by=trainer.by,
            coins=KeyStream(own_key),
            set_aside={"noise in integer shares": closeness_cost(task.epsilon, task.delta)},
            public_seed=public_seed,
            ask=_Questions(n_parties, unit).ask,
        )
        core = NewtonCore(given, trainer, run)
        if core.reasons:
            raise InvalidArgumentError(f"training across parties must be private: {core.reasons[0]}")
        core.notes += _views(task, n_parties, core.mu * unit.row_costs)
    return trained(core, task.n_rounds), core.ledger.granted


class _Questions:
    """The questions of a run, as all parties ask them; the unit is that at parties."""

    def __init__(self, n_parties: int, unit: Unit) -> None:
        self._n_parties, self._unit = n_parties, unit
        self._counts_doubt = 0.0

    def ask(self, own: newton.SumsQuestion) -> Asking[newton.Answer]:
        """The sums of all parties, to which each has added its share of the noise."""
        sums, stds, _ = zip(*own.parts, strict=True)
        arrays = [part for tree in own.trees for part in (tree.feature, tree.goes_left)]
        answer: Released = yield NoisedQuestion(
            own.release.what,
            _digest(*arrays) if arrays else b"",
            sums,
            stds,
            own.release.mu * self._unit.row_costs * (1 + 1e-15),
            self._limit(own, len(sums[0])),
        )
        pieces = np.split(answer.sums, np.cumsum([part.size for part in sums])[:-1])
        shaped = [piece.reshape(part.shape) for piece, part in zip(pieces, sums, strict=True)]
        return newton.Answer(shaped, answer.factor)

    def _limit(self, own: newton.SumsQuestion, n_counts: int) -> int:
        """Most that all rows together add, in steps; the number of rows is known from its release on."""
        if own.n_rows is None:
            self._counts_doubt = STDS_IN_RANGE * n_counts * self._n_parties / own.release.mu
            return int(self._n_parties * MAX_ROWS * STEPS * own.weight_steps)
        return math.ceil((own.n_rows + self._counts_doubt) * _MAX_ENTRY * own.weight_steps)


def _views(task: FederatedTask, n: int, mu: float) -> list[str]:
    """Views of a run: how much noise each observer sees, and its ε, if all n parties always take part.

    Noise of variance σ² stands for μ, and n shares are of variance n σ² / (n - t) at least.
    """
    t = task.colluding

    def view(hidden: int) -> str:
        delta = task.delta * (1 - CLOSENESS_SHARE)
        epsilon = gaussian_epsilon(mu * math.sqrt((n - t) / hidden), delta) * (1 + CLOSENESS_SHARE)
        return pair_text(epsilon, task.delta)

    alone = "" if t == 1 else f"; one party alone, which knows its own noise: {view(n - 1)}"
    return [
        f"views of {n} parties' sums in this run: an observer that adds no noise (outside, a coordinator "
        f"that is not a party): {view(n)}{alone}; up to {t} of the parties that pool what they know, also "
        f"with the coordinator: {view(n - t)}",
        "a party that adds no noise, or less than it should, counts as one of those that pool; the others "
        "cannot detect it",
    ]


def _digest(*arrays: NDArray[Any]) -> bytes:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
