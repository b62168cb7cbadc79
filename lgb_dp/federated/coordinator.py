"""The coordinator of a private training run: it forwards messages, and sees masked sums only."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from gbdt_parties.channel import Channel, Party, check_parties
from gbdt_parties.errors import PartyUnavailableError, ProtocolError
from gbdt_parties.messages import Done, Finish, Message
from gbdt_parties.quoting import quoted
from gbdt_parties.secure_sum.messages import (
    AskModel,
    AskSum,
    BeginRounds,
    ConfirmRoster,
    Contributed,
    Endorsed,
    FinishedModel,
    Opened,
    OpenSum,
    ProposeRoster,
    Revealed,
    pack,
)
from gbdt_parties.secure_sum.roster import SESSION_BYTES, Introduction, Roster
from gbdt_parties.traffic import Traffic
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.checks import checked_integer
from lgb_dp.errors import (
    ArgumentTypeError,
    FewPartiesWarning,
    InvalidArgumentError,
    UnsupportedParameterError,
)
from lgb_dp.federated.messages import Introduced, OpenFederated
from lgb_dp.federated.run import model_digest
from lgb_dp.federated.task import FederatedTask, check_same, settings_of, statement
from lgb_dp.newton.trainer import NewtonBoost

COORDINATOR = "coordinator"
"""Its name in tables of traffic."""

SPARE_ATTEMPTS = 0.05
"""Attempts beyond the rounds that noise is planned for, unless `max_attempts` says otherwise."""

M = TypeVar("M", bound=Message)


def train(
    params: Mapping[str, Any],
    parties: Sequence[Party],
    num_boost_round: int = 100,
    *,
    callbacks: Sequence[Callable[..., Any]],
    min_parties: int | None = None,
    colluding: int = 1,
    max_attempts: int | None = None,
    parties_per_person: int = 1,
    traffic: Traffic | None = None,
) -> DPBooster:
    """Train a model on the rows of several parties, of which nobody sees anything but noised sums.

    The model is that of `lightgbm.train` with the same `NewtonBoost` on all rows in one place, but for the
    noise: every party adds a share of it to the sums over its rows, so that the shares of all but `colluding`
    parties are as much noise as the budget demands.

    Parameters
    ----------
    params : mapping
        As for `lightgbm.train`.
    parties : sequence of Party
        `lgb_dp.federated.Party`, here or elsewhere; at least two.
    num_boost_round : int
        Trees (times classes).
    callbacks : sequence
        One `lgb_dp.NewtonBoost`, which says the budget.  ε covers what up to `colluding` parties, together
        with whoever calls this function, learn about one row of another party.
    min_parties : int, optional
        Parties that must take part in every sum; by default one more than `colluding`.
    colluding : int
        Parties of which everybody may know the noise: those that pool what they know, or that add none.
    max_attempts : int, optional
        Releases that the noise is planned for; by default 5 per cent more than `num_boost_round`.  A round
        during which a party is lost takes another attempt.
    parties_per_person : int
        Parties that may have rows of one person.
    traffic : Traffic, optional
        Counts what is sent.

    Returns
    -------
    DPBooster
        With the guarantee inside, which every party computes for itself.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
        Naming the argument that is not accepted.
    PartiesDifferError
        If the parties declare different columns, types, bounds or labels; nothing has left them then.
    PartyRefusedError
        If a party refuses, for example because its budget is spent.
    PartyUnavailableError
        If so many parties are lost that fewer than `min_parties` are left.

    Warns
    -----
    FewPartiesWarning
        If there are two.

    Examples
    --------
    >>> parties = [lgb_dp.federated.Party(X, y, name=name, bounds=bounds, folder=name)
    ...            for name, X, y in hospitals]                                         # doctest: +SKIP
    >>> booster = lgb_dp.federated.train({"objective": "binary"}, parties, 500,
    ...                                  callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)])     # doctest: +SKIP
    """
    members = check_parties(parties)
    n_rounds = checked_integer("num_boost_round", num_boost_round, 1)
    colluding = checked_integer("colluding", colluding, 1)
    if max_attempts is None:
        max_attempts = math.ceil((1 + SPARE_ATTEMPTS) * n_rounds)
    task = FederatedTask(
        dict(params),
        settings_of(_trainer_among(callbacks)),
        n_rounds,
        max_attempts,
        colluding,
        colluding + 1 if min_parties is None else min_parties,
        parties_per_person,
    )
    if len(members) < task.min_parties:
        raise InvalidArgumentError(
            f"{len(members)} parties, of which at least {task.min_parties} must take part in every sum; with "
            "one, train by lightgbm.train"
        )
    if len(members) == 2:
        warnings.warn(
            "with two parties, each adds all the noise that protects it from the other, and sums protect "
            "neither from anybody else's view but by that noise",
            FewPartiesWarning,
            stacklevel=2,
        )
    return _Coordinator(members, task, Traffic() if traffic is None else traffic).run()


def _trainer_among(callbacks: Sequence[Callable[..., Any]]) -> NewtonBoost:
    if not isinstance(callbacks, Sequence):
        raise ArgumentTypeError(f"callbacks must be a sequence, got {type(callbacks).__name__}")
    for callback in callbacks:
        if not isinstance(callback, NewtonBoost):
            raise UnsupportedParameterError(
                f"callbacks holds a {type(callback).__name__}; across parties, NewtonBoost alone is supported"
            )
    if len(callbacks) != 1:
        raise InvalidArgumentError(f"callbacks must hold one NewtonBoost, got {len(callbacks)}")
    trainer = callbacks[0]
    assert isinstance(trainer, NewtonBoost)
    return trainer


@dataclass(eq=False)
class _Member:
    """A party, as the coordinator knows it."""

    party: Party
    place: int = 0
    channel: Channel | None = None
    introduction: bytes = b""
    declaration: str = ""
    n_opened: int = 0
    failures: int = 0

    @property
    def name(self) -> str:
        return self.party.name


class _Coordinator:
    """One run."""

    def __init__(self, parties: Sequence[Party], task: FederatedTask, traffic: Traffic) -> None:
        self.members = [_Member(party) for party in parties]
        self.task, self.traffic = task, traffic
        self.session = os.urandom(SESSION_BYTES)
        self.task_text = task.to_json()
        self.history: list[bytes] = []
        self.n_attempts = 0

    def run(self) -> DPBooster:
        """Everything, from introductions to the model."""
        self._introduce()
        while self._round():
            pass
        return self._model()

    # Connections.

    def _connect(self, member: _Member) -> None:
        """Open a session, and bring a party that comes back up to date."""
        channel = Channel(member.party, os.urandom(SESSION_BYTES), self.traffic, COORDINATOR)
        introduced = channel.ask(OpenFederated(self.session, self.task_text), Introduced)
        if member.introduction and member.introduction != introduced.introduction:
            raise PartyUnavailableError(f"party {member.name!r} has forgotten its keys of this run")
        member.introduction, member.declaration = introduced.introduction, introduced.declaration
        member.n_opened, member.channel = introduced.n_opened, channel

    def _ask(self, member: _Member, message: Message, answer: type[M]) -> M:
        """Ask a party; one that is lost is connected to once more, and asked the same."""
        if member.channel is not None:
            try:
                return member.channel.ask(message, answer)
            except PartyUnavailableError:
                member.channel = None
        self._connect(member)
        assert member.channel is not None
        known = len(self.history) - (isinstance(message, AskSum) and bool(message.opened))
        for opened in self.history[member.n_opened : known]:
            member.channel.ask(OpenSum(opened), Done)
        return member.channel.ask(message, answer)

    # How a run begins: nobody can be lost here.

    def _introduce(self) -> None:
        for member in self.members:
            self._connect(member)
        declarations = {member.name: _declared(member) for member in self.members}
        check_same(declarations)
        introductions = tuple(Introduction.from_bytes(member.introduction) for member in self.members)
        for place, (member, own) in enumerate(zip(self.members, introductions, strict=True)):
            member.place = place
            if own.name != member.name:
                raise ProtocolError(f"party {member.name!r} introduced itself as {quoted(own.name)!r}")
        roster = Roster(
            self.session, statement(self.task_text, declarations[self.members[0].name]), introductions
        )
        content = roster.to_bytes()
        signatures = [self._ask(m, ProposeRoster(content), Endorsed).signature for m in self.members]
        confirmed = ConfirmRoster(pack(signatures))
        seeds = [self._ask(member, confirmed, Revealed).seed for member in self.members]
        for member in self.members:
            self._ask(member, BeginRounds(pack(seeds)), Done)

    # Rounds.

    def _round(self) -> bool:
        """Collect all contributions to the next sum; whether training goes on."""
        lost: set[str] = set()
        while True:
            left = [member for member in self.members if member.name not in lost]
            members = [member for member in left if self._is_worth_asking(member)]
            if len(members) < self.task.min_parties:
                members = left
            if len(members) < self.task.min_parties:
                raise PartyUnavailableError(
                    f"of the parties, only {sorted(m.name for m in members)} are left; at least "
                    f"{self.task.min_parties} must take part in every sum"
                )
            contributions = self._attempt(members, lost)
            if contributions is None:
                continue
            if not any(contributions.values()):
                return False
            self.history.append(Opened(len(self.history), self.n_attempts, contributions).to_bytes())
            return True

    def _is_worth_asking(self, member: _Member) -> bool:
        """A party that was lost several times in a row is tried ever more rarely."""
        return member.failures == 0 or len(self.history) % 2 ** min(member.failures - 1, 6) == 0

    def _attempt(self, members: Sequence[_Member], lost: set[str]) -> dict[int, bytes] | None:
        """The contributions of all members, or None if one was lost, which `lost` then names."""
        self.n_attempts += 1
        places = np.array([member.place for member in members], dtype=np.int32)
        n_opened, contributions = len(self.history), {}
        for member in members:
            opened = self.history[-1] if self.history and member.n_opened < n_opened else b""
            try:
                if member.n_opened < n_opened - 1:
                    member.channel = None  # it missed rounds
                question = AskSum(n_opened, self.n_attempts, places, opened)
                contributions[member.place] = self._ask(member, question, Contributed).content
            except PartyUnavailableError:
                member.channel = None
                member.failures += 1
                lost.add(member.name)
                return None
            member.failures, member.n_opened = 0, n_opened
        ended = {bool(content) for content in contributions.values()}
        if len(ended) > 1:
            raise ProtocolError("the parties disagree about whether training has ended")
        return contributions

    # The model.

    def _model(self) -> DPBooster:
        """The model of all parties that are there, which must be one and the same."""
        text, digests = "", {}
        for member in self.members:
            try:
                answer = self._ask(member, AskModel(int(not text)), FinishedModel)
                digests[member.name] = answer.digest
                text = text or answer.text
                self._ask(member, Finish(), Done)
            except PartyUnavailableError:
                continue
        for name, digest in digests.items():
            if digest != model_digest(text):
                raise ProtocolError(f"party {name!r} has another model than the others")
        return DPBooster(model_str=text)


def _declared(member: _Member) -> dict[str, str]:
    try:
        declaration = json.loads(member.declaration)
        return {str(part): str(digest) for part, digest in declaration.items()}
    except (ValueError, AttributeError, RecursionError):
        raise ProtocolError(f"party {member.name!r} declares nothing that can be read") from None
