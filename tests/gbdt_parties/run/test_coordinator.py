"""Runs of sums of toy numbers: over all parties, and over those that are there."""

import hashlib
import json
from dataclasses import dataclass
from functools import partial
from itertools import count
from time import monotonic, sleep

import numpy as np
import pytest

from gbdt_commons.store import MemoryStore
from gbdt_parties import patience
from gbdt_parties.errors import (
    PartyArgumentError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
    RunLostError,
)
from gbdt_parties.messages import Message, read
from gbdt_parties.run.coordinator import Purpose, coordinate
from gbdt_parties.run.engine import Computation
from gbdt_parties.run.exchange import Participation
from gbdt_parties.run.log import RUNS
from gbdt_parties.run.party_run import Proposal, Subject
from gbdt_parties.run.progress import Checkpoint, Memory
from gbdt_parties.run.sessions import Runs, RunSessions
from gbdt_parties.secure_sum.messages import AskModel, AskSum, EndRun, OpenRun, unpack
from gbdt_parties.secure_sum.rings import MODULO_64
from gbdt_parties.secure_sum.roster import SignedEnd
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from gbdt_parties.traffic import Traffic
from kept_stores import restarted

NAMES = ("ada", "bob", "cyd")
SIGNED_BY = {name: Credentials.self_signed(name) for name in NAMES}
N_SUMS, TASK = 4, json.dumps({"sums": 4})
WAYS = {"all": Participation(), "present": Participation(2)}


@dataclass(frozen=True)
class Number:
    what: bytes
    ring = MODULO_64
    n_values = 2

    @property
    def parts(self):
        return (self.what,)


class Toy(Subject):
    """Every sum is of the party's number and of ones; the model is all sums."""

    def __init__(self, party):
        super().__init__(party.name, SIGNED_BY[party.name], AllowList(), party.participation)
        self.party = party

    def description(self):
        return json.dumps({"sums": N_SUMS})

    def proposed(self, task):
        statement = hashlib.sha256(task.encode()).digest()
        return Proposal(task, statement, self.participation.least(3), self._begin)

    def _begin(self, roster, public_seed, own_key):
        return Computation(self._steps(public_seed))

    def _steps(self, seed):
        sums = []
        for number in range(N_SUMS):
            sums.append((yield Number(seed + b"%d" % number)))
        return sums

    def pay(self, question, roster, attempt):
        if self.party.refuses:
            raise ProtocolError("the budget is spent")

    def vector(self, question, n_members, noise_key):
        return MODULO_64.from_integers(np.array([self.party.number, 1]))

    def released(self, question, total, n_members):
        return MODULO_64.centred(total, 1000).tolist()

    def content(self, result):
        return [json.dumps(result).encode()]

    def finished(self, result, signatures):
        self.party.model, self.party.signatures = result, signatures


class ToyParty:
    """A party that can be restarted, and disturbed."""

    def __init__(self, place, way, folder=None):
        self.name, self.number, self.participation = NAMES[place], 10**place, WAYS[way]
        self.folder, self.model, self.asked, self.refuses = folder, None, [], False
        self.disturb = lambda message, send: send()
        self.restart()

    def restart(self):
        self.store = MemoryStore() if self.folder is None else restarted(self.folder / self.name)
        runs = Runs(lambda run, request: Toy(self), self.store)
        self.sessions = RunSessions(self.name, runs)

    def handle(self, request):
        message: Message = read(request).message
        self.asked.append(message)
        return self.disturb(message, lambda: self.sessions.handle(request))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(patience, "SECONDS_BETWEEN_TRIES", 0.001)
    monkeypatch.setattr(patience, "MAX_SECONDS_BETWEEN_TRIES", 0.001)


def sums_of(parties, way, seconds=0.0, kept=None):
    def agreement(descriptions):
        assert [name for name, _ in descriptions] == list(NAMES)
        assert {text for _, text in descriptions} == {TASK}
        return TASK, hashlib.sha256(TASK.encode()).digest()

    purpose = Purpose(OpenRun, "request", WAYS[way], agreement)
    progress = coordinate(parties, purpose, "about", Traffic(), seconds, kept or Memory())
    (content,) = unpack(progress.model)
    return json.loads(content)


def made(way, folder=None):
    return [ToyParty(place, way, folder) for place in range(3)]


@pytest.mark.parametrize("way", WAYS)
def test_every_party_has_the_sums_over_all(way):
    parties = made(way)
    assert sums_of(parties, way) == [[111, 3]] * N_SUMS
    assert [party.model for party in parties] == [[[111, 3]] * N_SUMS] * 3


def lost_at(party, kind, calls, restart=False):
    """The party is lost at some of the messages of a kind."""
    numbers = count(1)

    def disturb(message, send):
        if isinstance(message, kind) and next(numbers) in calls:
            if restart:
                party.restart()
            raise PartyUnavailableError(f"party {party.name!r} is down")
        return send()

    party.disturb = disturb


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("restart", [False, True])
def test_a_party_that_is_lost_for_a_moment_is_asked_again_at_once(way, restart, tmp_path):
    parties = made(way, tmp_path)
    lost_at(parties[1], AskSum, {2}, restart)
    assert sums_of(parties, way) == [[111, 3]] * N_SUMS
    assert sum(isinstance(message, OpenRun) for message in parties[0].asked) == 1
    assert sum(isinstance(message, OpenRun) for message in parties[1].asked) == 2
    assert parties[1].store.keys(RUNS) == []


def test_sums_over_those_that_are_there_go_on_without_a_party_and_those_over_all_wait(tmp_path):
    parties = made("present", tmp_path)
    lost_at(parties[1], AskSum, {2, 3})
    found = sums_of(parties, "present")
    assert found[0] == [111, 3]
    assert found[1] == [101, 2]
    parties = made("all", tmp_path)
    lost_at(parties[1], AskSum, {2, 3})
    assert sums_of(parties, "all", 60.0) == [[111, 3]] * N_SUMS
    parties = made("all", tmp_path)
    lost_at(parties[1], AskSum, {2, 3})
    with pytest.raises(PartyUnavailableError, match=r"\['ada', 'cyd'\].*'bob' is down"):
        sums_of(parties, "all")


def test_a_party_that_has_forgotten_the_run_is_spared_if_the_others_are_enough():
    """Without a folder, its keys ended with its process."""
    parties = made("present")
    lost_at(parties[1], AskSum, {2}, restart=True)
    assert sums_of(parties, "present") == [[111, 3], *[[101, 2]] * (N_SUMS - 1)]
    assert parties[1].model is None
    lost_at(parties[0], AskSum, {2}, restart=True)
    lost_at(parties[1], AskSum, {2}, restart=True)
    with pytest.raises(RunLostError, match="know the run"):
        sums_of(parties, "present", 60.0)
    parties = made("all")
    lost_at(parties[1], AskSum, {2}, restart=True)
    with pytest.raises(RunLostError, match=r"'bob'.*know"):
        sums_of(parties, "all", 60.0)


@pytest.mark.parametrize("restart", [False, True])
def test_parties_of_this_process_are_not_asked_for_an_attempt_that_has_failed_already(restart):
    """Each attempt that a party answers may cost a part of its budget."""
    parties = made("present")
    lost_at(parties[0], AskSum, {2, 3}, restart)
    assert sums_of(parties, "present")[1] == [110, 2]
    asked = [message.members.tolist() for message in parties[1].asked if isinstance(message, AskSum)]
    assert asked[:2] == [[0, 1, 2], [1, 2]]


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_differs_is_noticed_and_the_end_is_told_again(way, caplog):
    parties = made(way)
    lost_at(parties[2], EndRun, {1})
    assert sums_of(parties, way) == [[111, 3]] * N_SUMS
    assert parties[2].model is not None
    parties = made(way)
    parties[2].sessions.runs.subject_of = lambda run, request: Lying(parties[2])
    with pytest.raises(ProtocolError, match="'cyd' has another model"):
        sums_of(parties, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("has_ended", [[], [0], [0, 1, 2]])
def test_a_coordinator_that_is_killed_at_the_end_lets_all_end_when_it_is_called_again(
    way, has_ended, tmp_path, caplog
):
    parties, kept = made(way, tmp_path), Checkpoint(tmp_path / "kept", PartyArgumentError)

    def killed(place, message, send):
        if isinstance(message, EndRun):
            if place in has_ended:
                send()
            raise KeyboardInterrupt
        return send()

    for party in parties:
        party.disturb = partial(killed, NAMES.index(party.name))
    with pytest.raises(KeyboardInterrupt):
        sums_of(parties, way, kept=kept)
    for party in parties:
        party.restart()
    lost_at(parties[2], (OpenRun, EndRun), range(1, 100))
    parties[0].disturb = parties[1].disturb = lambda message, send: send()
    assert sums_of(parties, way, kept=kept) == [[111, 3]] * N_SUMS
    assert "at the end of the run, party 'cyd' is down" in caplog.text
    lost_at(parties[2], (), ())
    assert sums_of(parties, way, kept=kept) == [[111, 3]] * N_SUMS
    for party in parties:
        assert party.model == [[111, 3]] * N_SUMS
        assert len(SignedEnd.from_json(party.signatures).signers) == 3
        assert party.store.keys(RUNS) == []
        party.asked.clear()
    assert sums_of(parties, way, kept=kept) == [[111, 3]] * N_SUMS
    assert not any(party.asked for party in parties)


def test_a_party_that_breaks_the_protocol_at_the_end_takes_no_model_away(caplog):
    parties = made("all")
    parties[1].disturb = lambda message, send: b"" if isinstance(message, EndRun) else send()
    assert sums_of(parties, "all") == [[111, 3]] * N_SUMS
    assert "at the end of the run, party 'bob'" in caplog.text


class Lying(Toy):
    def content(self, result):
        return [b"another"]


class Elsewhere(ToyParty):
    """A party of another process, whose first interrupt comes when no request is under way."""

    n_interrupts, under_way, interrupted = 0, False, False

    def interrupt(self):
        self.n_interrupts += 1
        self.interrupted |= self.under_way


def test_a_run_that_has_ended_waits_for_no_party_that_is_being_reached():
    def reached(message, send):
        if isinstance(message, AskSum) and message.round == 1:
            raise PartyUnavailableError("lost")
        if isinstance(message, OpenRun) and message.n_known > 1:
            slow.under_way = eventually(lambda: slow.n_interrupts)
            assert eventually(lambda: slow.interrupted)
            raise PartyUnavailableError("interrupted")
        return send()

    parties = [ToyParty(0, "present"), ToyParty(1, "present"), slow := Elsewhere(2, "present")]
    slow.disturb = reached
    assert sums_of(parties, "present")[1:] == [[11, 2]] * (N_SUMS - 1)
    assert slow.interrupted


def eventually(condition, seconds=20.0):
    end = monotonic() + seconds
    while not condition() and monotonic() < end:
        sleep(0.001)
    return bool(condition())


@pytest.mark.parametrize("way", WAYS)
def test_a_party_that_refuses_ends_the_run_for_all(way):
    parties = made(way)

    def refuse(message, send):
        if isinstance(message, AskSum) and message.round == 1:
            parties[1].refuses = True
        return send()

    parties[1].disturb = refuse
    with pytest.raises(PartyRefusedError, match="'bob' refuses"):
        sums_of(parties, way)
    assert not parties[0].sessions.has_sessions


@pytest.mark.parametrize("way", WAYS)
def test_same_model_for_all_without_the_signature_of_a_party_that_is_lost_at_the_end(way):
    """Sums over all wait for it; else more than half are enough, and nobody can end otherwise."""
    parties = made(way)
    lost_at(parties[1], AskModel, range(1, 100))
    if way == "all":
        with pytest.raises(PartyUnavailableError, match=r"\['ada', 'cyd'\] are left.*3"):
            sums_of(parties, way)
        assert [party.model for party in parties] == [None] * 3
        return
    sums_of(parties, way)
    assert [party.model is None for party in parties] == [False, True, False]
    for party in (parties[0], parties[2]):
        assert [one.name for one in SignedEnd.from_json(party.signatures).signers] == ["ada", "cyd"]
