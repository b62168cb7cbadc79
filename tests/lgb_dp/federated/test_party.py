"""A party's own side: its demands, its ledger, and what it refuses of a coordinator that lies."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import lgb_dp
from disturbed import Between, lost
from drawn_secrets import DrawnSecrets, found_in
from federated_training import BINARY, DELTA, NAMES, charges, parties, party, train
from full_disks import AsServed, FullDisk, full_now_and_then
from gbdt_commons.errors import StoreError
from gbdt_parties.errors import PartyArgumentError, PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.identity.certificates import TLS, Identity, make_authority, make_certificate
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.messages import Refusal, read, write
from gbdt_parties.run.log import RUNS, THIS_PROCESS, RunLog, runs_of
from gbdt_parties.run.party_run import PartyRun
from gbdt_parties.secure_sum.messages import (
    NEW_RUN,
    AskSum,
    BeginRounds,
    ConfirmRoster,
    Contributed,
    EndRun,
    Opened,
    ProposeRoster,
    pack,
    unpack,
)
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import Credentials
from lgb_dp.federated import run as run_module
from lgb_dp.federated.ledger import read_ledger
from lgb_dp.federated.run import PrivateSubject
from lgb_dp.federated.task import FederatedTask, OpenPrivateRun, settings_of


def with_liar(lie, place=0):
    """Three parties, to one of which the coordinator sends what `lie` makes of its messages."""
    members = [Between(one) for one in parties()]
    members[place].disturb = lambda number, message, send: send(lie(message))
    return members


def changed(kind, change):
    """A lie that changes messages of one kind."""
    return lambda message: change(message) if isinstance(message, kind) else None


def changed_sum(change):
    """A lie about the contributions to the second sum."""

    def lie(message):
        if message.round != 2:
            return None
        opened = Opened.from_bytes(message.opened)
        return replace(message, opened=change(opened).to_bytes())

    return changed(AskSum, lie)


def altered(contributions):
    data = bytearray(contributions[1])
    data[20] ^= 1
    return {**contributions, 1: bytes(data)}


LIES = {
    "a sum in which a number was altered": (
        changed_sum(lambda o: replace(o, contributions=altered(o.contributions))),
        "'bob' is not signed by it for this attempt",
    ),
    "a sum without a party": (
        changed_sum(lambda o: replace(o, contributions={p: c for p, c in o.contributions.items() if p != 2})),
        "not signed by it for this attempt",
    ),
    "a sum of one": (
        changed_sum(lambda o: replace(o, contributions={0: o.contributions[0]})),
        "a sum over 1 parties",
    ),
    "a contribution in the place of another": (
        changed_sum(lambda o: replace(o, contributions={**o.contributions, 1: o.contributions[2]})),
        "not signed by it for this attempt",
    ),
    "the sum of another attempt": (
        changed_sum(lambda o: replace(o, number=o.number + 1)),
        "not signed by it for this attempt",
    ),
    "the sum of a later round": (
        changed_sum(lambda o: replace(o, round=7)),
        r"round 7, attempt \d+ was asked for; round 1 is next",
    ),
    "no sum": (
        changed(AskSum, lambda m: replace(m, opened=b"") if m.round == 2 else m),
        r"round 2, attempt \d+ was asked for",
    ),
    "half a sum": (changed(AskSum, lambda m: replace(m, opened=m.opened[:-5])), "cut off"),
    "members that it is not among": (
        changed(AskSum, lambda m: replace(m, members=np.array([1, 2], dtype=np.int32))),
        "not a member",
    ),
    "itself alone": (
        changed(AskSum, lambda m: replace(m, members=np.array([0], dtype=np.int32))),
        "a sum over 1 parties",
    ),
    "seeds that nobody is committed to": (
        changed(BeginRounds, lambda m: replace(m, seeds=pack([*unpack(m.seeds)[:2], bytes(32)]))),
        "the seed of party 'cyd'",
    ),
    "a roster without a signature": (
        changed(ConfirmRoster, lambda m: replace(m, signatures=pack([*unpack(m.signatures)[:2], b"x"]))),
        "'cyd' are not signed",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_party_refuses_a_coordinator_that_sends(lie):
    how, refusal = LIES[lie]
    members = with_liar(how)
    with pytest.raises(PartyRefusedError, match=refusal):
        train(members)
    assert len(charges(members[0].party)) <= 2


def of_coordinator(**changes):
    """A lie about the settings, of which other parties are told the truth: what one party makes of it."""
    task = FederatedTask({**BINARY}, settings_of(lgb_dp.NewtonBoost(5.0, DELTA)), 4, 5, 1, 2, 1)
    values = {**json.loads(task.to_json()), **changes}
    session = bytes(16)
    request = json.dumps({**values, "params": {**BINARY, **values["params"]}})
    opening = OpenPrivateRun(session, request, NEW_RUN)
    answer = read(party(parties_per_person=2).handle(write(session, 0, opening))).message
    assert isinstance(answer, Refusal)
    return answer.reason


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({}, "at most 1 parties have rows of one person; this party demands 2"),
        ({"max_attempts": 10**15}, "max_attempts must be an integer between 1 and 100000"),
        ({"max_attempts": 10**400}, "settings of a run are not those of this version"),
        ({"n_rounds": 10**9}, "num_boost_round must be an integer between 1 and 100000"),
        ({"parties_per_person": 2, "params": {"num_threads": 1000}}, "num_threads=1000; this party acc"),
        ({"parties_per_person": 2, "params": {"num_threads": "x"}}, "num_threads='x' must be an integer"),
        ({"parties_per_person": 2, "params": {"metric": "auc max_bin=3"}}, "LightGBM would read other par"),
        ({"params": {"n_iter_no_change": 3}}, "early_stopping_round is not supported across parties"),
        ({"params": {"learning_rate": "1 max_bin=3"}, "parties_per_person": 2}, "learning_rate"),
    ],
)
def test_a_party_refuses_settings_of_a_coordinator_by_name(changes, refusal):
    assert refusal in of_coordinator(**{"params": {}, **changes})


def test_a_forged_roster_is_not_signed():
    forged = Credentials.self_signed("cyd")

    def forge(message):
        roster = Roster.from_bytes(message.roster)
        other = replace(roster.introductions[2], certificates=forged.certificates)
        return replace(
            message, roster=replace(roster, introductions=(*roster.introductions[:2], other)).to_bytes()
        )

    with pytest.raises(PartyRefusedError, match=r"'\w+'.*certif"):
        train(with_liar(changed(ProposeRoster, forge)))


def test_an_attempt_is_answered_once_and_a_lost_answer_sent_again(tmp_path):
    answers = []

    def lose_twice(number, message, send):
        if isinstance(message, AskSum) and message.round == 1:
            answers.append(read(send()).message)
            lost()
        return send()

    members = [Between(party(0, folder=tmp_path), lose_twice), party(1), party(2)]
    with pytest.raises(PartyUnavailableError, match=r"only \['bob'\] are left"):
        train(members[:2])
    first, again = [answer.content for answer in answers if isinstance(answer, Contributed)]
    assert first == again
    run = members[0].party.runs.live
    number = charges(members[0].party)[1]["number"]
    assert run.contribution(1, number, (0, 1)) == first
    members[0].party.close()

    restarted = party(0, 2, folder=tmp_path)
    runs = runs_of(restarted.ledger.store, THIS_PROCESS)
    (name,) = runs.keys(RUNS)
    number_of_run, kept = bytes.fromhex(name), runs.get(RUNS, name)
    subject = PrivateSubject(restarted.side, None, MemoryAllowance(2**30), number_of_run, kept["request"])
    run = PartyRun(subject, RunLog(runs, number_of_run), kept)
    with pytest.raises(ProtocolError, match=r"round 1.*0 is next"):
        run.contribution(1, number, (0, 1))
    opened = next(asked.opened for asked, _ in members[0].answers if getattr(asked, "opened", b""))
    run.open(Opened.from_bytes(opened))
    assert run.contribution(1, number, (0, 1)) == first
    assert run.contribution(1, number + 1, (0, 1)) != first
    with pytest.raises(ProtocolError, match=r"answered.*something"):
        run.contribution(1, number - 1, (0, 1))
    assert len(charges(restarted)) == 3


# The ledger.


def test_entries_equal_answers_and_their_cost_is_the_run_s(tmp_path):
    members = [Between(party(0, folder=tmp_path)), party(1), party(2)]
    booster = train(members, 6)
    answers = [a for q, a in members[0].answers if isinstance(a, Contributed) and a.content]
    entries = charges(members[0].party)
    assert len(entries) == len(answers) == 7
    members[0].party.close()
    sums = read_ledger(tmp_path)
    assert (sums.epsilon, sums.delta) == (50.0, DELTA)
    assert sums.neighbouring == "add or remove one row at one party"
    assert [(row["release"], row["answers"]) for row in sums.rows] == [("label counts", 1), ("leaf sums", 6)]
    spent = booster.privacy.spent
    assert sums.spent_mu < booster.privacy.cost.mu
    assert sums.spent_epsilon == pytest.approx(spent[0], rel=1e-6)


def test_a_budget_holds_across_runs_tables_and_restarts(tmp_path):
    first = party(0, folder=tmp_path, budget=(60.0, DELTA))
    train([first, party(1), party(2)], epsilon=40.0)
    first.close()
    again = Between(party(0, folder=tmp_path, y=np.zeros(120)))
    with pytest.raises(PartyRefusedError, match=r"cost epsilon = \S+, delta = \S+,.*\(.*\)"):
        train([again, party(1), party(2)], epsilon=40.0)
    assert not any(isinstance(answer, Contributed) for _, answer in again.answers)
    train([again, party(1), party(2)], epsilon=10.0)
    assert len(charges(again.party)) == 10


def test_a_new_ledger_takes_the_budget_of_its_first_run(tmp_path):
    one = party(0, folder=tmp_path)
    train([one, party(1), party(2)], epsilon=5.0)
    with pytest.raises(PartyRefusedError, match=r"unless.*given"):
        train([one, party(1), party(2)], epsilon=5.0)


def test_a_run_that_is_never_answered_gives_a_ledger_no_budget(tmp_path):
    """Before, a run among parties that differ, or one that nobody joined, fixed it for ever."""
    one = party(0, folder=tmp_path)
    with pytest.raises(lgb_dp.PartiesDifferError):
        train([one, party(1, bounds=(-2.0, 2.0))], epsilon=0.01)
    train([one, party(1)], epsilon=5.0)
    assert read_ledger(tmp_path).epsilon == 5.0
    one.close()


def test_a_budget_that_differs_from_the_ledger_s_is_refused(tmp_path):
    party(0, folder=tmp_path, budget=(2.0, DELTA)).close()
    with pytest.raises(lgb_dp.InvalidArgumentError, match="budget epsilon = 2"):
        party(0, folder=tmp_path, budget=(3.0, DELTA))
    first = party(0, folder=tmp_path, budget=(2.0, DELTA))
    with pytest.raises(StoreError, match="in use"):
        party(0, folder=tmp_path, budget=(2.0, DELTA))
    assert first.has_budget


def test_a_ledger_covers_one_unit(tmp_path):
    one = party(0, folder=tmp_path, budget=(500.0, DELTA))
    train([one, party(1), party(2)], epsilon=5.0)
    with pytest.raises(PartyRefusedError, match="ledger covers 'add or remove one row at one party'"):
        train([one, party(1), party(2)], epsilon=5.0, parties_per_person=2)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"min_parties": 1}, "min_parties"),
        ({"colluding": 0}, "colluding"),
        ({"budget": (0.0, DELTA)}, "epsilon"),
        ({"budget": (1.0, 2.0)}, "delta"),
    ],
)
def test_settings_of_a_party_out_of_range(settings, error):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=error):
        party(0, **settings)


def test_a_party_that_is_killed_before_the_first_round_knows_the_roster_that_it_signed(tmp_path):
    members = [Between(party(0, folder=tmp_path)), party(1), party(2)]

    def killed(number, message, send):
        if isinstance(message, ConfirmRoster) and number == 3:
            members[0].party.close()
            members[0].party = party(0, folder=tmp_path)
            lost()
        return send()

    members[0].disturb = killed
    train(members, 2)
    assert len(charges(members[0].party)) == 3


# Certificates.


def test_a_name_that_no_certificate_holds_is_refused():
    for name in ("", "é" * 33):
        with pytest.raises(PartyArgumentError, match="1 to 64 bytes"):
            party(0, name=name)


def test_parties_with_certificates_accept_fingerprints_only(tmp_path):
    make_authority(tmp_path / "ca")
    names = ("ada", "bob", "cyd")
    folders = {name: tmp_path / name for name in names}
    known = {n: make_certificate(folders[n], tmp_path / "ca", n).fingerprint for n in names}
    allowed = [f"sha256:{digits}" for digits in known.values()]
    members = [party(place, tls=folders[name], allowed=allowed) for place, name in enumerate(names)]
    train(members, 1)
    stranger = tmp_path / "stranger"
    make_certificate(stranger, tmp_path / "ca", "cyd")
    assert Identity.of(TLS.from_directory(stranger).certificate).name == "cyd"
    members[2] = party(2, tls=stranger, allowed=allowed)
    with pytest.raises(PartyRefusedError, match=r"'cyd'.*allow-list"):
        train(members, 1)
    with pytest.raises(PartyArgumentError, match="trust_authority=True"):
        party(0, tls=folders["ada"], allowed=["bob"])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="party's certificate"):
        party(0, tls=folders["bob"], allowed=allowed)
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"name.*parties"):
        party(0, tls=folders["ada"])


def test_keys_of_a_run_that_has_ended_are_removed(tmp_path):
    one = Between(party(0, folder=tmp_path))
    runs, seen = runs_of(one.party.ledger.store, THIS_PROCESS), []

    def look(number, message, send):
        if isinstance(message, EndRun):
            seen.extend(runs.get(RUNS, run)["agreement"]["keys"] for run in runs.keys(RUNS))
        return send()

    one.disturb = look
    train([one, party(1), party(2)], 1)
    (keys,) = seen
    assert runs.keys(RUNS) == []
    one.party.close()
    assert all(keys.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_an_ended_run_keeps_no_seed_and_no_answer(tmp_path, monkeypatch):
    """Before, masked answers stayed, with noise that is less than all parties' together, for good."""
    secrets, answers = DrawnSecrets(monkeypatch), []
    members = [Between(party(place, folder=tmp_path / NAMES[place])) for place in range(3)]

    def look(number, message, send):
        answer = send()
        given = read(answer).message
        if isinstance(given, Contributed) and given.content:
            answers.append(given.content)
        if number == 8:
            before = secrets.found_in(tmp_path / "ada", "ada")
            assert len(before) == 4
            assert found_in(tmp_path / "ada", answers[:1])
        return answer

    members[0].disturb = look
    train(members, 2, checkpoint=tmp_path / "progress")
    assert len(answers) > 2
    for member in members:
        member.party.close()
    for name in NAMES[:3]:
        assert not secrets.found_in(tmp_path / name, *NAMES)
        assert read_ledger(tmp_path / name).rows
    assert not found_in(tmp_path / "ada", answers)
    assert not [s for s in secrets.found_in(tmp_path / "progress", *NAMES) if s not in seeds_of(secrets)]


def seeds_of(secrets):
    """Those that all parties reveal to each other, for draws that are public."""
    return [secret for drawn in secrets.of.values() for secret in drawn[2::3]]


def test_a_party_that_is_restored_from_a_backup_is_found_out_by_its_own_answers(tmp_path):
    """Its ledger has forgotten charges: the others' copies of what it signed say so."""
    folder, member = tmp_path / "ada", Between(party(0, folder=tmp_path / "ada"))
    rounds = []

    def restored(number, message, send):
        if isinstance(message, AskSum) and message.round in (1, 3) and message.round not in rounds:
            rounds.append(message.round)
            member.party.close()
            if message.round == 1:
                shutil.copytree(folder, tmp_path / "backup")
            else:
                shutil.rmtree(folder)
                shutil.copytree(tmp_path / "backup", folder)
            member.party = party(0, folder=folder)
            return lost()
        return send()

    member.disturb = restored
    with pytest.raises(PartyRefusedError, match=r"'ada'.*older"):
        train([member, party(1), party(2)], 6, min_parties=3, patience=20.0)
    assert rounds == [1, 3]
    member.party.close()


def test_a_full_disk_at_a_served_party_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("gbdt_parties.patience.SECONDS_BETWEEN_TRIES", 0.0)
    disk = FullDisk(tmp_path, monkeypatch, run_module)

    def run(k):
        one = party(0, folder=tmp_path / str(k), budget=(60.0, DELTA))
        disk.begin()
        booster = train([AsServed(one), party(1), party(2)], 2, min_parties=3, patience=30.0)
        disk.end()
        one.close()
        kept = (tmp_path / str(k) / "models").iterdir()
        assert sorted(path.suffix for path in kept) == [".signatures", ".txt"]
        return booster.num_trees()

    assert full_now_and_then(disk, run) == [2] * 6
