"""One private training run at one party: what it checks, adds noise to, and is charged for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np

from gbdt_commons.files import digest_of, make_folder, write_signed
from gbdt_commons.key_stream import KeyStream
from gbdt_parties.agreed import TEXT_BYTES
from gbdt_parties.errors import ProtocolError
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.run.engine import Computation
from gbdt_parties.run.exchange import Participation
from gbdt_parties.run.party_run import Proposal, Subject
from gbdt_parties.secure_sum.contributions import Attempt
from gbdt_parties.secure_sum.rings import MODULO_64, Words
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from lgb_dp.accounting.shares import closeness, share_variance
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.boosting.params import TrainingParameters, training_parameters
from lgb_dp.boosting.run_rows import RunRows, rows_of_run
from lgb_dp.data.dataset import Dataset
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.evaluation.several_classes import MAX_CELLS
from lgb_dp.federated.ledger import Charges, PartyLedger
from lgb_dp.federated.replica import STDS_IN_RANGE, NoisedQuestion, Released, train_replica
from lgb_dp.federated.task import FederatedTask, declaration_of, statement
from lgb_dp.mechanisms.noise import release_share
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.model_memory import model_bytes
from lgb_dp.newton.releases.rows_elsewhere import RowsElsewhere
from lgb_dp.newton.settings import MAX_AUTOMATIC_DEPTH

# What a run reserves before anything is allocated or charged: every number that a coordinator chooses is in
# `needed_bytes`, or is bounded where the task is read.
MAX_OPENED_BYTES = 60 << 20
"""Contributions of all parties to one sum: they come in one request, and servers accept 64 MiB."""

_VALUE_BYTES = 64
"""Of a value of a round's sum: exact, with noise, masked, signed, sent, and opened."""

_ROW_BYTES, _OUTPUT_BYTES = 128, 64
"""Of a row, and of each of its scores, with its target and its leaf."""


def round_values(task: FederatedTask, params: TrainingParameters) -> int:
    """Values of the sum of a round, at most: gradients and hessians of leaves, with rows held out or not."""
    of_trees = 4 * task.trees_per_round * params.n_outputs << _levels(task, params)
    return max(of_trees, MAX_CELLS) if task.holds_out else of_trees


def needed_bytes(task: FederatedTask, params: TrainingParameters, n_rows: int) -> int:
    """How much memory a run takes at a party, beside its data set: an upper bound of what its arrays hold."""
    rows = n_rows * (_ROW_BYTES + _OUTPUT_BYTES * params.n_outputs)
    model = model_bytes(_levels(task, params), task.n_rounds, params.n_outputs)
    return rows + model + _VALUE_BYTES * round_values(task, params)


def check_opened(task: FederatedTask, params: TrainingParameters, n_parties: int) -> None:
    """Refuse sums that could not be opened after all charges; the error says what makes them long."""
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


MAX_CLASSES = 256
MAX_THREADS = 256
"""A coordinator's `num_threads` applies at every party; many more crash a process that starts them."""


@dataclass(frozen=True, eq=False)
class PrivateSide:
    """A party's side of all its runs, with its own demands.

    Where its rows are on workers, `data` has their declarations, and `elsewhere` makes the rows of one run.
    """

    name: str
    data: Dataset
    credentials: Credentials
    allowed: AllowList
    min_parties: int
    colluding: int
    parties_per_person: int
    ledger: PartyLedger
    elsewhere: Callable[[], RowsElsewhere] | None = None

    def rows(self, until: ExitStack) -> RunRows:
        """The rows of a run, which workers hold until the stack is closed."""
        if self.elsewhere is None:
            return rows_of_run(self.data, None)
        held = self.elsewhere()
        until.callback(held.close)
        return held.of_run(held.declared, None)

    @cached_property
    def digest_of_rows(self) -> str:
        """Digest of all that sums are computed of."""
        data = self.data
        codes = [getattr(data.codes, field.name) for field in fields(data.codes)]
        return digest_of(*codes, data.label, data.weight, data.group_of_row)


class PrivateSubject(Subject):
    """The subject of one run at one party (`gbdt_parties.run.party_run.Subject`).

    Models of runs that have ended go into the folder, and memory is the coordinator's.  The request is JSON
    of the settings; InvalidArgumentError or UnsupportedParameterError say that this party does not accept
    them.
    """

    def __init__(
        self, side: PrivateSide, models: Path | None, memory: MemoryAllowance, run: bytes, request: str
    ) -> None:
        self._rooms = [memory.reserve(len(request) * TEXT_BYTES, "the settings of a run")]
        self._task = FederatedTask.from_json(request)
        self._min_parties = max(side.min_parties, self._task.min_parties)
        super().__init__(side.name, side.credentials, side.allowed, Participation(self._min_parties))
        self._side, self._models, self._run, self._request = side, models, run, request
        if self._task.colluding < side.colluding:
            raise InvalidArgumentError(
                f"the run assumes that at most {self._task.colluding} parties pool what they know; this "
                f"party demands {side.colluding}"
            )
        if self._task.parties_per_person < side.parties_per_person:
            raise InvalidArgumentError(
                f"the run assumes that at most {self._task.parties_per_person} parties have rows of one "
                f"person; this party demands {side.parties_per_person} (parties_per_person)"
            )
        if self._task.holds_out and side.elsewhere is not None:
            raise UnsupportedParameterError(
                "validation_fraction is not supported by a party's rows on workers"
            )
        # Before LightGBM sees them: some of its parameters open files or connections.
        known = training_parameters(self._task.params, side.data.max_bin)
        for name, value, limit in (
            ("num_class", known.n_outputs, MAX_CLASSES),
            ("num_threads", known.n_threads, MAX_THREADS),
        ):
            if value > limit:
                raise InvalidArgumentError(f"{name}={value}; this party accepts at most {limit}")
        self._known = known
        needed = needed_bytes(self._task, known, side.data.num_data())
        self._rooms.append(memory.reserve(needed, "leaf sums, scores and the model of a run"))
        self._declaration = declaration_of(side.data)
        self._random = SecureRandom()
        self._charges: Charges | None = None
        self._workers = ExitStack()

    def description(self) -> str:
        """Digests of what the party declares about its columns."""
        return json.dumps(self._declaration)

    def proposed(self, task: str) -> Proposal:
        """The run as this party understands it: all settings were in the request."""
        if task:
            raise ProtocolError("the settings of a private training run are those of its request")
        agreed = statement(self._request, self._declaration)
        return Proposal(task, agreed, self._min_parties, self._begin)

    def _begin(
        self, roster: Roster, public_seed: bytes, own_key: bytes
    ) -> Computation[NoisedQuestion, DPBooster]:
        n_parties = len(roster.introductions)
        check_opened(self._task, self._known, n_parties)
        self._workers.close()  # of a beginning that failed
        rows = self._side.rows(self._workers)
        training, granted = train_replica(rows, self._task, n_parties, public_seed, own_key)
        unit = self._side.data.unit.at_parties(self._task.parties_per_person)
        budget = self._task.epsilon, self._task.delta
        self._side.ledger.check_run(roster.digest, granted.mu, unit, budget)
        self._charges = Charges(self._side.ledger, roster.digest, granted.mu, budget, unit)
        return Computation(training)

    # Rounds.

    def _variances(self, question: NoisedQuestion, n_members: int) -> list[int]:
        """Of each party's share of the noise."""
        return [share_variance(std, n_members, self._task.colluding) for std in question.stds]

    def pay(self, question: NoisedQuestion, roster: bytes, attempt: Attempt) -> None:
        """See `Subject`; a BudgetExceededError if there is nothing left to pay from."""
        n = len(attempt.members)
        close = question.n_values * closeness(min(self._variances(question, n)), n)
        about = {"round": attempt.round, "number": attempt.number, "parties": n, "run": self._run.hex()}
        assert self._charges is not None  # the run has begun
        self._charges(question.what, question.mu, close, **about)

    def rows(self, auditable: bool) -> str:
        """Names the rows of a run whose noise, or whose coins, must not be drawn again for others."""
        return self._side.digest_of_rows if auditable or self._task.holds_out else ""

    def vector(self, question: NoisedQuestion, n_members: int, noise_key: bytes | None) -> Words:
        """The sums of this party's rows, with its share of the noise."""
        random = self._random if noise_key is None else KeyStream(noise_key)
        noised = [
            release_share(sums, variance, random).ravel()
            for sums, variance in zip(question.sums, self._variances(question, n_members), strict=True)
        ]
        return MODULO_64.from_integers(np.concatenate(noised))

    def released(self, question: NoisedQuestion, total: Words, n_members: int) -> Released:
        """The sum as integers, with the noise in it; a SumRangeError if it is out of range."""
        variances = self._variances(question, n_members)
        bound = question.limit + math.ceil(STDS_IN_RANGE * math.sqrt(n_members * max(variances)))
        factor = math.sqrt(n_members * variances[0]) / question.stds[0]
        return Released(MODULO_64.centred(total, bound), factor)

    # The model.

    def content(self, result: DPBooster) -> Sequence[bytes]:
        """The text of the model, which all parties have alike."""
        return (str(result.model_to_string(num_iteration=-1)).encode(),)

    def close(self) -> None:
        """Let go of reserved memory, also of workers."""
        self._rooms = []
        self._workers.close()

    def finished(self, result: DPBooster, signatures: str) -> None:
        """Write the model of a run that has ended."""
        if self._models is not None:
            path = make_folder(self._models) / f"{self._run.hex()}.txt"
            write_signed(path, self.content(result)[0], signatures)
