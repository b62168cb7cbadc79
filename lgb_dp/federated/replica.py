"""A party's own copy of a training run, which stops at every question until all parties' sum is there.

All copies of a run see the same sums and draw structures from the same public stream, so that each party
computes every released tree, and the next question, for itself.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
from lightgbm.callback import CallbackEnv
from numpy.typing import NDArray

from gbdt_commons.arithmetic import silently
from gbdt_parties.secure_sum.questions import Computation
from gbdt_parties.secure_sum.rings import MODULO_64
from lgb_dp.accounting.cost import Cost
from lgb_dp.accounting.gaussian import gaussian_epsilon
from lgb_dp.accounting.ledger import Release
from lgb_dp.accounting.shares import closeness_cost
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.boosting.training import Asking, TrainerInput
from lgb_dp.data.dataset import Dataset
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.task import FederatedTask
from lgb_dp.mechanisms.noise import MAX_ROWS
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.losses.loss import STEPS, Start
from lgb_dp.newton.releases.trees import LeafRelease, Round
from lgb_dp.newton.trainer import NewtonBoost
from lgb_dp.newton.training import NewtonTraining

STDS_IN_RANGE = 12.0
"""Standard deviations of the noise that an honest sum is not beyond; once in 10^32 sums it is."""


_MAX_ENTRY = 2**15
"""Most that a row of weight 1 adds to a sum of gradients or hessians: it is an entry of a table of int16,
or shorter than √2 `STEPS`."""


@dataclass(frozen=True, eq=False)
class Question:
    """Next question about the rows of all parties, with this party's own answer before noise.

    Parameters
    ----------
    what : str
        Name of the release.
    structure : bytes
        Digest of the trees whose leaves are summed; empty if there are none.
    sums : tuple of ndarray of int64
        Of this party's rows: private.
    stds : tuple of float
        Planned standard deviation of the noise in each of them, in steps.
    mu : float
        Cost of the release, per unit.
    limit : int
        Absolute value that the sums of all rows cannot exceed, without noise.
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
    """The answer to a question.

    Parameters
    ----------
    sums : ndarray of int64, shape (n_values,)
        Of all parties, noise included.
    factor : float
        Standard deviation of the noise in the first of the sums, over what was planned.
    """

    sums: NDArray[np.int64]
    factor: float


def train_replica(
    data: Dataset,
    task: FederatedTask,
    n_parties: int,
    public_seed: bytes,
    note_granted: Callable[[Cost], None],
) -> Computation[Question, lightgbm.Booster]:
    """Start a party's copy of a run.

    Parameters
    ----------
    data : Dataset
        The party's rows.
    task : FederatedTask
    n_parties : int
        In the roster.
    public_seed : bytes
        Key of the stream that structures are drawn from.
    note_granted : callable
        Called with the cost of all that the run may release, per unit, before anything is asked.
    """

    def train() -> Asking[lightgbm.Booster]:
        trainer = _FederatedNewton(task, n_parties, public_seed, note_granted)
        params = {**task.params, "verbosity": -1}
        booster = lightgbm.Booster(params, data)
        trainer(CallbackEnv(booster, params, 0, 0, task.n_rounds, None))
        assert isinstance(booster, DPBooster)
        training: Any = booster._growing()
        for _ in range(task.n_rounds):
            yield from training.growing()
        return booster

    return Computation(silently(train()))


class _FederatedTraining(NewtonTraining):
    """NewtonBoost whose noise comes from all parties, and whose structures from a public stream."""

    def __init__(self, task: TrainerInput, trainer: _FederatedNewton) -> None:
        if task.data.label_bounds is None and task.params.objective not in ("binary", "multiclass"):
            raise InvalidArgumentError(
                f"label_bounds must be declared by all parties for objective={task.params.objective!r}"
            )
        self._federation, self._per_round = trainer, trainer.task.trees_per_round
        self._structure = b""
        self._n_rows: float | None = None
        super().__init__(task, trainer)
        if self.reasons:
            raise InvalidArgumentError(f"training across parties must be private: {self.reasons[0]}")
        self.random = SecureRandom.public(trainer.public_seed)
        self.notes += _views(trainer.task, trainer.n_parties, self.ledger.granted.mu)

    def _plan_budget(self) -> None:
        """As for one place, for the unit at parties and with noise in shares (`lgb_dp.accounting.shares`)."""
        run = self._federation.task
        self.unit = self.ledger.unit = self.unit.at_parties(run.parties_per_person)
        super()._plan_budget()
        self.ledger.inherit(closeness_cost(run.epsilon, run.delta), "noise in integer shares", 0.0)
        self._federation.note_granted(self.ledger.granted)

    def _release_label_counts(self) -> Asking[Start]:
        start = yield from super()._release_label_counts()
        self._n_rows = start.n_rows
        return start

    @property
    def _n_trees(self) -> int:
        return self._federation.task.n_rounds

    def _release(self, questions: Sequence[Round]) -> Asking[list[tuple[LeafRelease, LeafRelease | None]]]:
        trees = [question.tree for question in questions]
        self._structure = _digest(*(part for tree in trees for part in (tree.feature, tree.goes_left)))
        return (yield from super()._release(questions))

    def _with_noise(
        self, release: Release, *parts: tuple[NDArray[np.int64], float, Any]
    ) -> Asking[list[NDArray[np.int64]]]:
        """The sums of all parties, to which each has added its share of the noise."""
        sums = tuple(part[0] for part in parts)
        question = Question(
            release.what,
            self._structure,
            sums,
            tuple(part[1] for part in parts),
            release.mu * self.unit.row_costs * (1 + 1e-15),
            self._limit(release, len(sums[0])),
        )
        answer = yield question
        self._structure, self._noise_factor = b"", answer.factor
        ends = np.cumsum([part.size for part in sums])
        pieces = np.split(answer.sums, ends[:-1])
        return [piece.reshape(part.shape) for piece, part in zip(pieces, sums, strict=True)]

    def _limit(self, release: Release, n_counts: int) -> int:
        """Most that all rows together add, in steps; the number of rows is known from its release on."""
        if self._n_rows is None:
            self._n_counts, self._counts_mu = n_counts, release.mu
            return int(self._federation.n_parties * MAX_ROWS * STEPS * self.weight_steps)
        doubt = STDS_IN_RANGE * self._n_counts * self._federation.n_parties / self._counts_mu
        return math.ceil((self._n_rows + doubt) * _MAX_ENTRY * self.weight_steps)


class _FederatedNewton(NewtonBoost):
    """The callback of one party's copy."""

    def __init__(
        self,
        task: FederatedTask,
        n_parties: int,
        public_seed: bytes,
        note_granted: Callable[[Cost], None],
    ) -> None:
        super().__init__(**task.trainer_arguments())
        self.task, self.n_parties, self.public_seed = task, n_parties, public_seed
        self.note_granted = note_granted

    def begin(self, task: TrainerInput) -> _FederatedTraining:
        """Start the run."""
        return _FederatedTraining(task, self)


def _views(task: FederatedTask, n: int, mu: float) -> list[str]:
    """Views of a run: how much noise each observer sees, and its ε, if all n parties always take part.

    Noise of variance σ² stands for μ, and n shares are of variance n σ² / (n - t) at least.
    """
    t = task.colluding

    def epsilon(hidden: int) -> str:
        return f"{gaussian_epsilon(mu * math.sqrt((n - t) / hidden), task.delta):.4g}"

    alone = "" if t == 1 else f"; one party alone, which knows its own noise: epsilon = {epsilon(n - 1)}"
    return [
        f"views of {n} parties' sums at delta = {task.delta:.3g}: an observer that adds no noise (outside, a "
        f"coordinator that is not a party): epsilon = {epsilon(n)}{alone}; up to {t} of the parties that "
        f"pool what they know, also with the coordinator: epsilon = {epsilon(n - t)}, which is what this "
        "report states",
        "a party that adds no noise, or less than it should, counts as one of those that pool; the others "
        "cannot detect it",
    ]


def _digest(*arrays: NDArray[Any]) -> bytes:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
