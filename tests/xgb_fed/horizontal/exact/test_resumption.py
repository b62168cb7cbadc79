"""Exact training in which somebody is lost, killed or lies: it waits, and ends in the undisturbed model."""

import json
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from disturbed import Between, lost
from drawn_secrets import DrawnSecrets
from exact_training import N_SUMS, NAMES, X, Y, answers_by_attempt, parties, party, text_of, train
from full_disks import AsServed, FullDisk, full_now_and_then
from gbdt_commons.errors import StoreError
from gbdt_parties import patience as lost_parties
from gbdt_parties.errors import PartyError, PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.run.log import ANSWERS, ENTRIES, RUNS, RunLog
from gbdt_parties.run.progress import STORE_FILE, Checkpoint
from gbdt_parties.secure_sum.messages import (
    AskSum,
    BeginRounds,
    Contributed,
    EndRun,
    FinishedModel,
    Opened,
    OpenRun,
    OpenSum,
)
from kept_stores import damage, end_process
from xgb_fed import CheckpointError, ExactTerms, HorizontalParty, InvalidArgumentError
from xgb_fed.horizontal.exact import run
from xgb_fed.horizontal.exact.run import ExactSubject

N_CALLS = 4 + N_SUMS + 1 + 2
"""Of each party but the first: four before the first sum, one that ends training, its digest, the end."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(lost_parties, "SECONDS_BETWEEN_TRIES", 0.001)
    monkeypatch.setattr(lost_parties, "MAX_SECONDS_BETWEEN_TRIES", 0.001)
    # What was written survives a process that is killed; waiting for the disk is for power failures.
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def undisturbed():
    members = [Between(one) for one in parties()]
    model = train(members)
    assert [member.calls for member in members] == [N_CALLS + 1, N_CALLS, N_CALLS]
    return text_of(model)


def restarted(between, place, folder):
    between.party.close()
    between.party = party(place, folder)


def runs_of(between):
    """The store of the runs of a party."""
    return between.party.kept.store.part("exact")


def few_of_all(few):
    """All calls, of which only a few are in the default run."""
    slow = pytest.mark.slow
    return [k if k in few else pytest.param(k, marks=slow) for k in range(1, N_CALLS + 1)]


@pytest.mark.parametrize("call", few_of_all((4, 13, N_CALLS)))
@pytest.mark.parametrize("is_answered", [False, True])
def test_a_party_that_is_killed_takes_part_again(tmp_path, undisturbed, call, is_answered):
    members = [Between(one) for one in parties(tmp_path)]

    def killed(number, message, send):
        if number != call:
            return send()
        if is_answered:
            send()
        restarted(members[1], 1, tmp_path)
        return lost()

    members[1].disturb = killed
    assert text_of(train(members, patience=30.0)) == undisturbed
    # What was answered twice is the same; one that has begun leaves nothing when it has ended.
    given = answers_by_attempt(members[1])
    assert len(given) == N_SUMS
    assert all(len(contents) == 1 for contents in given.values())
    assert len(runs_of(members[1]).keys(RUNS)) == (call == 4 and is_answered)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("call", few_of_all((4, 12, N_CALLS - 2)))
@pytest.mark.parametrize("all_restart", [False, True])
def test_a_coordinator_that_is_killed_goes_on(tmp_path, undisturbed, call, all_restart):
    """The first party is in its process, as the coordinator's own rows are, and killed with it."""
    members = [Between(one) for one in parties(tmp_path)]

    def killed(number, message, send):
        if number == call:
            raise Killed
        return send()

    members[2].disturb = killed
    with pytest.raises(Killed):
        train(members, checkpoint=tmp_path / "progress")
    members[2].disturb = lambda number, message, send: send()
    for place in range(3 if all_restart else 1):
        restarted(members[place], place, tmp_path)
    assert text_of(train(members, checkpoint=tmp_path / "progress")) == undisturbed
    # The run has ended: its model is given again, and nobody is asked.
    assert text_of(train([Between(party(k), lost) for k in range(3)], checkpoint=tmp_path / "progress"))


def test_a_coordinator_that_has_lost_sums_asks_for_them_again(tmp_path, undisturbed):
    """A power failure takes what was not on the disk yet, of the coordinator's progress or of answers."""
    members = [Between(one) for one in parties(tmp_path)]

    def killed(number, message, send):
        if isinstance(message, AskSum) and message.round == 9:
            raise Killed
        return send()

    members[1].disturb = killed
    with pytest.raises(Killed):
        train(members, checkpoint=tmp_path / "progress")
    members[1].disturb = lambda number, message, send: send()
    with Checkpoint(tmp_path / "progress", CheckpointError).opened() as store:
        (about,) = store.keys(RUNS)
        RunLog(store, bytes.fromhex(about)).store.delete(ENTRIES, "", 6)
    restarted(members[0], 0, tmp_path)
    runs = runs_of(members[0])
    (run,) = runs.keys(RUNS)
    # They had not reached the disk when the power failed.
    kept = RunLog(runs, bytes.fromhex(run)).store
    kept.delete(ANSWERS, "", kept.size(ANSWERS, "") - 3)
    assert kept.size(ANSWERS, "") > 0
    assert text_of(train(members, checkpoint=tmp_path / "progress")) == undisturbed
    rounds = [asked.round for asked, answer in members[1].answers if isinstance(asked, AskSum)]
    assert rounds != sorted(set(rounds))


def test_an_answer_lost_with_the_power_of_a_party_is_kept_again_when_its_sum_is_opened(tmp_path, undisturbed):
    """Before, a coordinator that lost that sum, too, was refused for ever: a later one was answered."""
    members = [Between(one) for one in parties(tmp_path)]

    def powerless(number, message, send):
        if isinstance(message, AskSum) and message.round == 4:
            raise Killed
        answer = send()
        if isinstance(message, AskSum) and message.round == 2:
            (run,) = runs_of(members[1]).keys(RUNS)
            RunLog(runs_of(members[1]), bytes.fromhex(run)).store.delete(ANSWERS, "", 2)
            restarted(members[1], 1, tmp_path)
        return answer

    members[1].disturb = powerless
    with pytest.raises(Killed):
        train(members, checkpoint=tmp_path / "progress")
    with Checkpoint(tmp_path / "progress", CheckpointError).opened() as store:
        RunLog(store, bytes.fromhex(store.keys(RUNS)[0])).store.delete(ENTRIES, "", 2)
    members[1].disturb = lambda number, message, send: send()
    assert text_of(train(members, checkpoint=tmp_path / "progress")) == undisturbed


def test_parties_without_a_folder_survive_lost_connections(undisturbed):
    members = [Between(one) for one in parties()]
    members[1].disturb = lambda number, message, send: lost() if number % 5 == 0 else send()
    assert text_of(train(members, patience=30.0)) == undisturbed


def test_without_patience_the_run_ends_and_nothing_is_told(undisturbed):
    members = [Between(one) for one in parties()]
    members[1].disturb = lambda number, message, send: lost() if number > 8 else send()
    with pytest.raises(PartyUnavailableError):
        train(members)
    asked = [max(a.round for a, _ in m.answers if isinstance(a, AskSum)) for m in (members[0], members[2])]
    assert asked == [4, 4]


def test_a_party_that_stays_away_is_waited_for_in_vain(tmp_path):
    members = [Between(one) for one in parties(tmp_path)]
    members[1].disturb = lambda number, message, send: lost() if number > 8 else send()
    with pytest.raises(PartyUnavailableError):
        train(members, patience=0.05, checkpoint=tmp_path / "progress")
    # A new process of a party that has forgotten the run refuses at once.
    members[1] = party(1)
    with pytest.raises(PartyRefusedError, match="know the run"):
        train(members, patience=30.0, checkpoint=tmp_path / "progress")


def test_checkpoints_are_of_one_run_and_of_parties_that_keep_their_part(tmp_path):
    train(parties(tmp_path), checkpoint=tmp_path / "progress")
    with pytest.raises(CheckpointError, match="training run"):
        train(parties(), 3, checkpoint=tmp_path / "progress")
    damage(tmp_path / "progress" / STORE_FILE, b"objective", b"objectiv!")
    with pytest.raises(CheckpointError, match="cannot be read"):
        train(parties(), checkpoint=tmp_path / "progress")
    with pytest.raises(InvalidArgumentError, match="keep their part"):
        train([(X, Y), (X, Y)], checkpoint=tmp_path / "other")
    with pytest.raises(InvalidArgumentError, match="patience=-1"):
        train(parties(), patience=-1)


# What a restarted party, or one whose coordinator lies, never does.


def interrupted(tmp_path, round_number=6):
    """Three parties and a coordinator that was killed in the middle of a run."""
    members = [Between(one) for one in parties(tmp_path)]

    def killed(number, message, send):
        answer = send()
        if isinstance(message, AskSum) and message.round == round_number:
            raise Killed
        return answer

    members[1].disturb = killed
    with pytest.raises(Killed):
        train(members, checkpoint=tmp_path / "progress")
    members[1].disturb = lambda number, message, send: send()
    return members


def test_other_rows_do_not_answer_for_those_that_the_run_began_with(tmp_path):
    members = interrupted(tmp_path)
    terms = ExactTerms(held_out=[(X[:30], Y[:30])])
    members[1].party.close()
    members[1].party = HorizontalParty(
        X[1::3], Y[1::3], "bob", categorical_labels=True, directory=tmp_path / "bob", exact=terms
    )
    with pytest.raises(PartyRefusedError, match="run began"):
        train(members, checkpoint=tmp_path / "progress")


def test_another_answer_to_an_attempt_never_leaves(tmp_path, monkeypatch):
    """Even if the arithmetic of a restarted party were another one."""
    members = interrupted(tmp_path)
    restarted(members[1], 1, tmp_path)
    vector, n_asked = ExactSubject.vector, count(1)

    def altered(self, question, n_members, noise_key):
        own = vector(self, question, n_members, noise_key)
        is_of_last = self.name == NAMES[1] and next(n_asked) == 1
        return own + np.uint64(1) if is_of_last else own

    monkeypatch.setattr(ExactSubject, "vector", altered)
    with pytest.raises(PartyRefusedError, match="attempt 7 was answered"):
        train([*members[:1], members[1], members[2]], checkpoint=tmp_path / "progress")


def test_what_a_party_keeps_holds_no_rows_and_a_digest_of_each_answer(tmp_path):
    members = interrupted(tmp_path)
    for place, member in enumerate(members):
        runs = runs_of(member)
        (run,) = runs.keys(RUNS)
        assert set(runs.get(RUNS, run)) == {"request", "task", "rows", "agreement", "auditable"}
        answers = list(RunLog(runs, bytes.fromhex(run)).store.entries(ANSWERS, ""))
        assert [answer.number for answer in answers] == [1, 2, 3, 4, 5, 6, 7]
        assert {len(answer.content) for answer in answers} == {32}
        member.party.close()
        (kept,) = (path for path in (tmp_path / NAMES[place]).iterdir() if path.suffix == ".store")
        own = X[place::3]
        assert all(values.tobytes() not in kept.read_bytes() for values in (*own, *own.T))


def refusal_of(members, tmp_path):
    with pytest.raises(PartyRefusedError) as refused:
        train(members, checkpoint=tmp_path / "progress")
    return str(refused.value)


def other_history(message):
    """Another party's contribution to a sum that was opened before, signed by it for another attempt."""
    if isinstance(message, OpenSum):
        opened = Opened.from_bytes(message.opened)
        if opened.round == 2:
            cut = {k: v[:-1] + bytes([v[-1] ^ 1]) for k, v in opened.contributions.items()}
            return OpenSum(Opened(2, 3, cut).to_bytes())
    return message


def skipped_history(message):
    if isinstance(message, OpenSum):
        opened = Opened.from_bytes(message.opened)
        return OpenSum(Opened(opened.round + 1, opened.number + 1, opened.contributions).to_bytes())
    return message


def fewer_members(message):
    return replace(message, members=message.members[:2]) if isinstance(message, AskSum) else message


def an_earlier_round(message):
    if isinstance(message, AskSum) and message.round == 8:
        return replace(message, round=6, number=7, opened=b"")
    return message


def begun_again(message):
    return replace(message, n_known=-1) if isinstance(message, OpenRun) else message


def another_run(message):
    return replace(message, run=bytes(16)) if isinstance(message, OpenRun) else message


@pytest.mark.parametrize(
    ("alter", "reason"),
    [
        (other_history, "not signed by it for this attempt"),
        (skipped_history, "round 1, attempt 2 was asked for; round 0"),
        (fewer_members, "every sum here is over all of them"),
        (an_earlier_round, "round 6, attempt 7 was asked for; round 7"),
        (begun_again, "has begun already"),
        (another_run, "does not know the run"),
    ],
)
def test_a_coordinator_that_lies_to_a_restarted_party_is_refused(tmp_path, undisturbed, alter, reason):
    members = interrupted(tmp_path)
    restarted(members[0], 0, tmp_path)
    members[0].disturb = lambda number, message, send: send(alter(message))
    assert reason in refusal_of(members, tmp_path)
    # Nothing of it counts: the run goes on when it is asked as it must be.
    members[0].disturb = lambda number, message, send: send()
    assert text_of(train(members, checkpoint=tmp_path / "progress")) == undisturbed


def test_a_run_that_has_not_begun_is_not_taken_up(tmp_path):
    """Before, another task could be put under the roster that was signed for the first one."""
    members = [Between(one) for one in parties(tmp_path)]
    runs = []

    def stop(number, message, send):
        if isinstance(message, OpenRun):
            runs.append(message.run)
        if isinstance(message, BeginRounds):
            raise Killed
        return send()

    members[1].disturb = stop
    with pytest.raises(Killed):
        train(members)
    members[1].disturb = lambda number, message, send: send(
        replace(message, run=runs[0], n_known=0) if isinstance(message, OpenRun) else message
    )
    with pytest.raises(PartyRefusedError, match=r"run.*begun"):
        train(members)


def test_a_sum_that_fails_ends_the_run_for_good(tmp_path):
    """An opened sum cannot be taken back: the question after it is not asked under its number again."""
    members = [Between(party(k, tmp_path, max_rounds=5)) for k in range(3)]
    for member in members:
        rows = replace(member.party.exact_side.rows, max_rows=10)
        object.__setattr__(member.party.exact_side, "rows", rows)
    with pytest.raises(PartyRefusedError, match=r"300 rows.*parties"):
        train(members, checkpoint=tmp_path / "progress")
    with pytest.raises(PartyRefusedError, match=r"300 rows|run has failed"):
        train(members, checkpoint=tmp_path / "progress")


def test_rounds_of_all_runs_are_counted_once_each(tmp_path):
    def bounded():
        end_process(tmp_path)
        return [party(0, tmp_path, max_rounds=5), *parties()[1:]]

    train(bounded())
    end_process(tmp_path)
    members = interrupted(tmp_path)  # two more
    for place, member in enumerate(members):
        member.party.close()
        member.party = party(place, tmp_path, max_rounds=10_000 if place else 5)
    train(members, checkpoint=tmp_path / "progress")
    train(bounded(), 1)
    with pytest.raises(PartyRefusedError, match="taken part in 5"):
        train(bounded(), 1)


def test_rounds_are_counted_of_runs_of_one_number(monkeypatch):
    """Before, a coordinator that gave all its runs one number was not counted again."""
    monkeypatch.setattr("gbdt_parties.run.coordinator.os", SimpleNamespace(urandom=bytes))
    members = [party(0, max_rounds=3), *parties()[1:]]
    train(members)
    with pytest.raises(PartyRefusedError, match="taken part in 2"):
        train(members)


def test_models_longer_than_texts_of_messages(monkeypatch, undisturbed):
    monkeypatch.setattr("gbdt_parties.messages.MAX_TEXT_BYTES", 2000)
    assert text_of(train(parties())) == undisturbed
    assert len(undisturbed) > 2000


def test_long_answers_are_asked_for_in_parts(monkeypatch, undisturbed):
    monkeypatch.setattr("xgb_fed.horizontal.exact.run.MAX_OPENED_BYTES", 3 * 200)
    members = [Between(one) for one in parties()]
    assert text_of(train(members)) == undisturbed
    contents = [len(a.content) for _, a in members[0].answers if isinstance(a, Contributed)]
    assert len(contents) > N_SUMS + 10
    assert max(contents) < 300


class Schedule:
    """What happens to every message, drawn from a seed."""

    def __init__(self, seed, folder):
        self.random, self.folder = np.random.default_rng(seed), folder
        self.lies, self.rate = seed % 4 == 0, self.random.uniform(0.01, 0.05)
        self.down, self.old = {}, []
        self.members = [Between(party(k, folder), self.disturb_of(k)) for k in range(3)]

    def disturb_of(self, place):
        def disturb(number, message, send):
            if self.down.get(place, 0) > 0:
                self.down[place] -= 1
                lost()
            self.old.append(message)
            is_spared = isinstance(message, OpenSum)  # else a party that catches up is killed again and again
            if is_spared or self.random.random() > self.rate:
                return send()
            kinds = [self.lost_request, self.lost_answer, self.killed_before, self.killed_after, self.away]
            lies = [self.replayed, self.other_numbers]
            return self.random.choice(kinds + lies if self.lies else kinds)(place, message, send)

        return disturb

    def lost_request(self, place, message, send):
        lost()

    def lost_answer(self, place, message, send):
        send()
        lost()

    def killed_before(self, place, message, send):
        restarted(self.members[place], place, self.folder)
        return send()

    def killed_after(self, place, message, send):
        send()
        restarted(self.members[place], place, self.folder)
        lost()

    def away(self, place, message, send):
        self.down[place] = int(self.random.integers(2, 6))
        lost()

    def replayed(self, place, message, send):
        return send(self.old[int(self.random.integers(len(self.old)))])

    def other_numbers(self, place, message, send):
        if not isinstance(message, AskSum):
            return send()
        return send(replace(message, round=max(0, message.round - 1), number=max(1, message.number - 1)))


@pytest.mark.parametrize("seeds", [range(1, 6), pytest.param(range(6, 220), marks=pytest.mark.slow)])
def test_under_every_drawn_schedule_the_model_is_the_undisturbed_one(seeds, tmp_path, undisturbed):
    for seed in seeds:
        schedule = Schedule(seed, tmp_path / str(seed))
        try:
            assert text_of(train(schedule.members, patience=60.0)) == undisturbed
        except PartyError:
            assert schedule.lies
        for member in schedule.members:
            assert all(len(contents) == 1 for contents in answers_by_attempt(member).values()), seed
            member.party.close()


def test_altered_requests_are_refused_or_do_not_matter(caplog, undisturbed):
    random, outcomes = np.random.default_rng(0), set()

    def altering():
        def handle(request, to):
            altered = bytearray(request)
            for _ in range(int(random.integers(1, 4))):
                place = int(random.integers(32, len(altered))) if len(altered) > 32 else 0
                altered[place] = int(random.integers(256))
            if random.random() < 0.3:
                del altered[int(random.integers(len(altered))) :]
            return to(bytes(altered))

        return handle

    for number in range(N_CALLS):
        member = Between(party(0))
        handle, calls, alter = member.party.handle, [0], altering()

        def counted(request, handle=handle, calls=calls, alter=alter, number=number):
            calls[0] += 1
            return alter(request, handle) if calls[0] == 1 + number else handle(request)

        member.party.handle = counted
        model = None
        try:
            model = train([member, *parties()[1:]])
        except PartyError as error:
            outcomes.add(str(error))
        assert model is None or text_of(model) == undisturbed
    assert len(outcomes) > 1
    assert "a request failed" not in caplog.text


def test_the_end_of_a_run_is_told_again_to_who_has_not_answered(tmp_path, undisturbed, caplog):
    members = [Between(one) for one in parties(tmp_path)]
    lost_once = []

    def lose_end(number, message, send):
        if isinstance(message, EndRun) and not lost_once:
            lost_once.append(send())
            lost()
        return send()

    members[1].disturb = lose_end
    assert text_of(train(members, patience=60)) == undisturbed
    assert "at the end of the run" in caplog.text
    assert text_of_party(members[1].party) == undisturbed


def text_of_party(member):
    return bytes(member.get_booster().save_raw("json"))


def test_a_party_with_another_model_is_noticed():
    members = [Between(one) for one in parties()]

    class Lying(HorizontalParty):
        def answer(self, kept, message):
            answer = super().answer(kept, message)
            return replace(answer, digests=bytes(32)) if isinstance(answer, FinishedModel) else answer

    members[2] = Lying(X[2::3], Y[2::3], "cyd", categorical_labels=True)
    with pytest.raises(PartyError, match="'cyd' has another model"):
        train(members)


@pytest.mark.parametrize(
    "parts",
    [
        [b"{}"],
        [b"{}", b"[" * 3000],
        [b"{}", b"[]"],
        [b"{}", b"{}"],
        [b"{}", b"no JSON"],
        [b"{}", b"\xff"],
        [b"[" * 300_000, json.dumps({"cuts": []}).encode()],
        [b"\xff", b"{}"],
    ],
)
def test_a_model_that_is_none_is_refused_by_name(parts, monkeypatch):
    """All parties have signed it, and no bracket of it ends in a RecursionError or without a stack."""
    monkeypatch.setattr(run, "content_of", lambda model: parts)
    with pytest.raises(ProtocolError, match="parties' model"):
        train(parties(), 1)


def test_journals_are_held_by_one_party_at_a_time(tmp_path):
    members = interrupted(tmp_path)
    with pytest.raises(StoreError, match=r"'horizontal.store'.*use"):
        party(1, tmp_path)
    train(members, checkpoint=tmp_path / "progress")


def test_an_ended_run_keeps_no_seed(tmp_path, monkeypatch):
    secrets = DrawnSecrets(monkeypatch)
    members = [Between(one) for one in parties(tmp_path)]

    def look(number, message, send):
        if isinstance(message, EndRun):
            assert len(secrets.found_in(tmp_path / "ada", "ada")) == 4
        return send()

    members[0].disturb = look
    train(members, checkpoint=tmp_path / "progress")
    for member in members:
        member.party.close()
    assert set(secrets.of) == set(NAMES)
    for name in (*NAMES, "progress"):
        assert not secrets.found_in(tmp_path / name)


def test_a_full_disk_at_a_served_party_is_waited_for(tmp_path, undisturbed, monkeypatch):
    monkeypatch.setattr("gbdt_parties.patience.SECONDS_BETWEEN_TRIES", 0.0)
    disk = FullDisk(tmp_path, monkeypatch)

    def run(k):
        one = party(0, tmp_path / str(k))
        disk.begin()
        model = train([AsServed(one), party(1), party(2)], patience=30.0)
        disk.end()
        one.close()
        return text_of(model)

    assert full_now_and_then(disk, run) == [undisturbed] * 6
