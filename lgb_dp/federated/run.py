"""One training run at one party: from its introduction to the model, one question after the other."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np

from gbdt_parties.errors import ProtocolError
from gbdt_parties.secure_sum.contributions import Attempt, SecureSession
from gbdt_parties.secure_sum.membership import Membership
from gbdt_parties.secure_sum.messages import Opened
from gbdt_parties.secure_sum.rings import MODULO_64
from gbdt_parties.secure_sum.roster import Introduction, Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from lgb_dp.accounting.ledger import Cost
from lgb_dp.accounting.shares import closeness, share_variance
from lgb_dp.boosting.params import training_parameters
from lgb_dp.data.dataset import Dataset
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.ledger import PartyLedger
from lgb_dp.federated.replica import STDS_IN_RANGE, Question, Released, Replica, train_replica
from lgb_dp.federated.task import FederatedTask, declaration_of, statement
from lgb_dp.mechanisms.noise import release_share
from lgb_dp.mechanisms.rng import SecureRandom

MAX_CLASSES = 256
MAX_THREADS = 256
"""A coordinator's `num_threads` applies at every party; many more crash a process that starts them."""


@dataclass(frozen=True, eq=False)
class Side:
    """A party's side of all its runs.

    Parameters
    ----------
    name : str
    data : Dataset
    credentials : Credentials
    allowed : AllowList
    min_parties, colluding, parties_per_person : int
        This party's own demands.
    ledger : callable
        The party's ledger.
    """

    name: str
    data: Dataset
    credentials: Credentials
    allowed: AllowList
    min_parties: int
    colluding: int
    parties_per_person: int
    ledger: Callable[[], PartyLedger]


class PartyRun:
    """A run, as one party sees it.

    Parameters
    ----------
    side : Side
    run : bytes
        16 bytes.
    task : str
        JSON.
    kept : mapping, optional
        Result of `to_dict`: the run is taken up again after a restart.  Sums are opened anew, and answers are
        those that were given.
    """

    def __init__(self, side: Side, run: bytes, task: str, kept: Mapping[str, Any] | None = None) -> None:
        self.side, self.run, self.task_text = side, run, task
        self.task = FederatedTask.from_json(task)
        if self.task.colluding < side.colluding:
            raise InvalidArgumentError(
                f"the run assumes that at most {self.task.colluding} parties pool what they know; this party "
                f"demands {side.colluding}"
            )
        if self.task.parties_per_person < side.parties_per_person:
            raise InvalidArgumentError(
                f"the run assumes that at most {self.task.parties_per_person} parties have rows of one "
                f"person; this party demands {side.parties_per_person} (parties_per_person)"
            )
        # Before LightGBM sees them: some of its parameters open files or connections.
        known = training_parameters(self.task.params, side.data.max_bin)
        for name, value, limit in (
            ("num_class", known.n_outputs, MAX_CLASSES),
            ("num_threads", known.n_threads, MAX_THREADS),
        ):
            if value > limit:
                raise InvalidArgumentError(f"{name}={value}; this party accepts at most {limit}")
        self.declaration = declaration_of(side.data)
        self._member = Membership(side.name, side.credentials, side.allowed, run, kept)
        self._ledger = side.ledger()
        self._budget = (self.task.epsilon, self.task.delta)
        self._replica: Replica | None = None
        self._random = SecureRandom()
        self._granted = 0.0
        self._neighbouring = side.data.unit.at_parties(self.task.parties_per_person).neighbouring
        if kept is not None:
            public_seed = self._member.take_up(kept, self._statement, self.min_parties)
            if public_seed is not None:
                self._start(public_seed)

    @property
    def introduction(self) -> Introduction:
        """How the party introduces itself."""
        return self._member.introduction

    @property
    def n_opened(self) -> int:
        """Sums that were opened; the number of the next round."""
        return self._member.n_opened

    @property
    def min_parties(self) -> int:
        """Parties that must take part in every sum, by this party's demand and the run's."""
        return max(self.side.min_parties, self.task.min_parties)

    # How a run begins.

    def endorse(self, roster: Roster) -> bytes:
        """Sign a roster, which must be of this run and of parties that it accepts.

        Raises
        ------
        ProtocolError, AuthenticationError
            If it is not.
        """
        return self._member.endorse(roster, self._statement, self.min_parties)

    @property
    def _statement(self) -> bytes:
        return statement(self.task_text, self.declaration)

    def reveal(self, signatures: list[bytes]) -> bytes:
        """Reveal this party's seed, once all parties have signed the roster."""
        return self._member.reveal(signatures)

    def begin(self, seeds: list[bytes]) -> None:
        """Start training, on the public stream that the seeds of all parties give."""
        if self._replica is None:
            self._start(self._member.begin(seeds))
        else:
            self._member.parts()[0].public_seed(dict(enumerate(seeds)))  # the run has begun with these

    def _start(self, public_seed: bytes) -> None:
        roster, _ = self._member.parts()
        n_parties = self._member.n_parties
        replica = train_replica(self.side.data, self.task, n_parties, public_seed, self._note_granted)
        replica.question()  # raises what the settings and the data do not allow
        self._ledger.check_run(roster.digest, self._granted, self._neighbouring, self._budget)
        self._replica = replica

    def _note_granted(self, cost: Cost) -> None:
        self._granted = cost.mu

    def _parts(self) -> tuple[Roster, SecureSession, Replica]:
        if self._replica is None:
            raise ProtocolError("the run has not begun yet")
        roster, session = self._member.parts()
        return roster, session, self._replica

    # Rounds.

    def _attempt(self, question: Question, round_number: int, number: int, members: Any) -> Attempt:
        if round_number != self.n_opened:
            raise ProtocolError(f"round {round_number} was asked for; {self.n_opened} is next")
        what = (question.what.encode(), question.structure, repr(question.stds).encode())
        return self._member.attempt(what, number, [int(place) for place in members])

    def answer(self, round_number: int, number: int, members: Any) -> bytes:
        """Noise, mask and sign this party's sums; nothing is given if training has ended.

        The attempt is charged before it is answered, and answered once: asked again, the same bytes are
        given again.

        Raises
        ------
        ProtocolError, BudgetExceededError
            If it is refused.
        """
        roster, session, replica = self._parts()
        question = replica.question()
        if question is None:
            return b""
        attempt = self._attempt(question, round_number, number, members)
        attempt.check(session.place, roster, self.min_parties)
        n = len(attempt.members)
        variances = [share_variance(std, n, self.task.colluding) for std in question.stds]
        note = {
            "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "run": self.run.hex(),
            "what": question.what,
            "round": round_number,
            "parties": n,
            "mu": question.mu,
            "closeness": question.n_values * closeness(min(variances), n),
            "neighbouring": self._neighbouring,
        }

        def make() -> bytes:
            noised = [
                release_share(sums, variance, self._random).ravel()
                for sums, variance in zip(question.sums, variances, strict=True)
            ]
            values = MODULO_64.from_integers(np.concatenate(noised))
            return b"".join(session.contribute(attempt, MODULO_64, values))

        asked = roster.digest + attempt.to_bytes()
        return self._ledger.answer(roster.digest, number, asked, note, self._granted, self._budget, make)

    def open(self, opened: Opened) -> None:
        """Add up all members' contributions to this round's question, and go on to the next one.

        A sum that was opened before is not opened again.

        Raises
        ------
        ProtocolError
            If a contribution is missing, is not signed by its member for this attempt and this question, or
            the sum is out of range.
        """
        roster, session, replica = self._parts()
        if opened.round < self.n_opened:
            return
        question = replica.question()
        if question is None:
            raise ProtocolError("training has ended; there is nothing to open")
        attempt = self._attempt(question, opened.round, opened.number, sorted(opened.contributions))
        attempt.check(None, roster, self.min_parties)
        n = len(attempt.members)
        variances = [share_variance(std, n, self.task.colluding) for std in question.stds]
        bound = question.limit + math.ceil(STDS_IN_RANGE * math.sqrt(n * max(variances)))
        total = session.open(attempt, MODULO_64, question.n_values, opened.contributions, bound)
        self._member.note_opened(attempt, total)
        replica.tell(Released(total, math.sqrt(n * variances[0]) / question.stds[0]))

    @property
    def has_ended(self) -> bool:
        """Whether the model is there."""
        return self._replica is not None and self._replica.question() is None

    def model(self) -> str:
        """The text of the model, which all parties have alike."""
        _, _, replica = self._parts()
        return str(replica.model.model_to_string(num_iteration=-1))

    # State on disk.

    def to_dict(self) -> Mapping[str, Any]:
        """Everything that a restarted party needs; secret, for the keys in it."""
        return {"run": self.run.hex(), "task": self.task_text, **self._member.to_dict()}

    @classmethod
    def from_dict(cls, side: Side, values: Mapping[str, Any]) -> PartyRun:
        """Take up a run again."""
        return cls(side, bytes.fromhex(values["run"]), values["task"], values)


def model_digest(text: str) -> bytes:
    """SHA-256 of a model's text."""
    return hashlib.sha256(text.encode()).digest()
