"""A SimFL run that was interrupted, anywhere, goes on and ends in the model of the undisturbed run."""

import contextlib
import os
import shutil

import numpy as np
import pytest

from drawn_secrets import found_in
from full_disks import AsServed, FullDisk, full_now_and_then
from gbdt_commons.errors import StoreError
from gbdt_commons.store_file import StoreFile
from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import InvalidDataError, PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.run.log import ENTRIES, RUNS, RunLog
from gbdt_parties.traffic import Traffic
from kept_stores import copied, damage, end_process
from made_up_coordinator import Coordinator, made_up_tree, victim
from xgb_fed import CheckpointError, HorizontalParty, InvalidArgumentError, train_simfl
from xgb_fed.horizontal.common.messages import Introduce, RowShape, Trees
from xgb_fed.horizontal.common.party_state import KEY_BYTES, PartyState
from xgb_fed.horizontal.simfl.checkpoint import SimFLCheckpoint
from xgb_fed.horizontal.simfl.journal import RunJournal
from xgb_fed.horizontal.simfl.messages import (
    AggregatedGradients,
    AggregateGradients,
    GrowTrees,
    HashRows,
    ResumeBoosting,
    RevealSeed,
)

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")
RANDOM = np.random.default_rng(0)
N_PARTIES, N_ROWS, N_FEATURES, ROUNDS = 3, 60, 5, 4
ROWS = [RANDOM.standard_normal((N_ROWS + 5 * k, N_FEATURES)).astype(np.float32) for k in range(N_PARTIES)]
PARAMS = {"max_depth": 2, "learning_rate": 0.5, "subsample": 0.8, "random_state": 3}
OBJECTIVES = ["binary:logistic", "multi:softprob", "reg:squarederror"]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr("gbdt_parties.patience.SECONDS_BETWEEN_TRIES", 0.0)


def labels(X, objective):
    score = X[:, 0] * X[:, 1] + X[:, 2]
    n_classes = {"binary:logistic": 2, "multi:softprob": 3}.get(objective)
    return score if n_classes is None else np.digitize(score, np.linspace(-1, 1, n_classes + 1)[1:-1])


def made(k, objective, directory, seed=True):
    return HorizontalParty(
        ROWS[k],
        labels(ROWS[k], objective),
        f"party{k}",
        categorical_labels=objective != "reg:squarederror",
        random_state=k if seed else None,
        n_jobs=1,
        directory=directory,
    )


class Mortal:
    """A party that dies at some request, before or after it was answered, and starts again."""

    def __init__(self, make, dies_at=-1, answers_first=False, every=0):
        self.make, self.party = make, make()
        self.name = self.party.name
        self._left, self._answers_first, self._every = dies_at, answers_first, every
        self.deaths = 0
        self.heard = []

    def handle(self, request):
        if self._left == 0:
            if self._answers_first:
                self.party.handle(request)
            self.party.close()
            self.party = self.make()
            self.deaths += 1
            self._left = self._every or -1
            raise PartyUnavailableError(f"party {self.name!r} is gone")
        self._left -= 1
        self.heard.append(type(messages.read(request).message).__name__)
        return self.party.handle(request)


def parties(folder, objective, **mortal):
    end_process(folder)

    def maker(k):
        return lambda: made(k, objective, folder / f"party{k}")

    return [maker(0)(), Mortal(maker(1), **mortal), maker(2)()]


def trained(members, objective, rounds=ROUNDS, **how):
    given = "auto" if objective == "multi:softprob" else objective
    how = {"patience": 5.0, **how}
    return train_simfl({**PARAMS, "objective": given}, members, rounds, verbose_eval=False, **how)


def raw(model):
    return bytes(model.booster.save_raw("json"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    kept = {}

    def model(objective):
        if objective not in kept:
            folder = tmp_path_factory.mktemp("undisturbed")
            members = parties(folder, objective)
            kept[objective] = raw(trained(members, objective)), members[1].heard
        return kept[objective]

    return model


@pytest.mark.parametrize("answers_first", [False, True], ids=["unheard", "answer-lost"])
@pytest.mark.parametrize(
    ("objective", "step"),
    [("binary:logistic", 5), ("multi:softprob", 11)]
    + [pytest.param(objective, 1, marks=pytest.mark.slow) for objective in OBJECTIVES],
)
def test_a_party_killed_at_any_request_ends_in_the_same_model(
    tmp_path, undisturbed, objective, step, answers_first
):
    expected, requests = undisturbed(objective)
    assert {"HashRows", "StartBoosting", "GrowTrees", "Trees", "FinishBoosting"} <= set(requests)
    for number in range(int(answers_first), len(requests), step):
        members = parties(tmp_path / str(number), objective, dies_at=number, answers_first=answers_first)
        assert raw(trained(members, objective)) == expected, requests[number]
        assert members[1].deaths == 1
        assert bytes(members[1].party.get_booster().save_raw("json")) == expected


def test_a_party_that_dies_again_and_again(tmp_path, undisturbed):
    members = parties(tmp_path, "binary:logistic", dies_at=5, every=14, answers_first=True)
    assert raw(trained(members, "binary:logistic", patience=30.0)) == undisturbed("binary:logistic")[0]
    assert members[1].deaths >= 2


def test_without_patience_a_lost_party_ends_the_run_and_the_same_call_goes_on(tmp_path, undisturbed):
    expected, requests = undisturbed("binary:logistic")
    evals = [((ROWS[0], labels(ROWS[0], "binary:logistic")), "valid")]
    whole = trained(parties(tmp_path / "whole", "binary:logistic"), "binary:logistic", evals=evals)
    for number in range(1, len(requests), 5):
        folder = tmp_path / str(number)
        how = {"patience": 0.0, "checkpoint": folder / "checkpoint", "evals": evals}
        with pytest.raises(PartyUnavailableError, match="party1"):
            trained(parties(folder, "binary:logistic", dies_at=number), "binary:logistic", **how)
        # Everybody begins again from its folder.
        seen = parties(folder, "binary:logistic")
        resumed = trained(seen, "binary:logistic", **how)
        assert raw(resumed) == expected
        assert resumed.evals_result == whole.evals_result
        n_finished = requests[:number].count("GrowTrees") + requests[:number].count("Trees")
        assert seen[1].heard.count("GrowTrees") + seen[1].heard.count("Trees") <= ROUNDS - n_finished + 1


def test_a_coordinator_killed_between_any_two_changes_of_its_checkpoint_goes_on(
    tmp_path, undisturbed, monkeypatch
):
    """Before, a kill between the first trees and what else is known left a run that nobody could name."""
    expected, requests = undisturbed("binary:logistic")
    first, left, transaction = tmp_path / "first", [], StoreFile.transaction

    @contextlib.contextmanager
    def copying(store, **how):
        with transaction(store, **how):
            yield
        if store.path.parent == first / "checkpoint" and not store.is_changing:
            left.append(copied(first / "checkpoint", tmp_path / str(len(left))))

    monkeypatch.setattr(StoreFile, "transaction", copying)
    how = {"patience": 0.0, "checkpoint": first / "checkpoint"}
    with pytest.raises(PartyUnavailableError):
        trained(parties(first, "binary:logistic", dies_at=len(requests) - 3), "binary:logistic", **how)
    assert len(left) > 4
    for kept in left:
        again = copied(first, kept.with_suffix(".again"))
        shutil.rmtree(again / "checkpoint")
        copied(kept, again / "checkpoint")
        how = {"patience": 0.0, "checkpoint": again / "checkpoint"}
        assert raw(trained(parties(again, "binary:logistic"), "binary:logistic", **how)) == expected


class Counted:
    """A party whose requests are counted, until one of them is too many."""

    def __init__(self, party, sent, most):
        self.party, self.name, self._sent, self._most = party, party.name, sent, most

    def handle(self, request):
        self._sent.append(len(request))
        if len(self._sent) == self._most:
            raise PartyUnavailableError("lost")
        return self.party.handle(request)


@pytest.mark.parametrize("first", [1, 4, 12, 22])
def test_what_left_is_counted_once_however_often_a_run_failed(tmp_path, first):
    """Before, a run that failed counted nothing, and one taken up not what left since the last round."""
    sent, counted = [], []
    for most in (first, first + 15, 0):
        counted.append(Traffic(encrypted=False))
        members = [Counted(one, sent, most) for one in parties(tmp_path, "binary:logistic")]
        how = {"patience": 0.0, "checkpoint": tmp_path / "coordinator", "traffic": counted[-1]}
        if most:
            with pytest.raises(PartyUnavailableError):
                trained(members, "binary:logistic", **how)
        else:
            model = trained(members, "binary:logistic", **how)
        assert sum(map(of_coordinator, counted)) == sum(sent)
    assert first < 22 or of_coordinator(model.traffic) == sum(sent)  # nothing is kept before


def of_coordinator(traffic):
    """Bytes that left the coordinator."""
    return sum(flow.bytes for (sender, _, _), flow in traffic.flows.items() if sender == "coordinator")


def test_a_second_run_of_the_same_parties_asks_nothing_new(tmp_path):
    """The same seed, groups, draws and trees: a run that is done again, by new processes, tells no more."""
    models, told = [], []
    for _ in range(2):
        end_process(tmp_path)
        members = [made(k, "binary:logistic", tmp_path / str(k), seed=False) for k in range(3)]
        models.append(raw(trained(members, "binary:logistic")))
        told.append(members[1].simfl.disclosures.told.hashes)
    assert models[0] == models[1]
    assert told[0] == told[1]
    assert len(told[0]) == 1
    other = [made(k, "binary:logistic", tmp_path / f"other{k}", seed=False) for k in range(3)]
    assert raw(trained(other, "binary:logistic")) != models[0]


def test_groups_and_hashes_given_away_survive_a_restart(tmp_path):
    first = made(0, "binary:logistic", tmp_path / "0", seed=False)
    trained([first, made(1, "binary:logistic", tmp_path / "1")], "binary:logistic")
    first.close()
    again = made(0, "binary:logistic", tmp_path / "0", seed=False)
    np.testing.assert_array_equal(again.simfl.groups.order, first.simfl.groups.order)
    np.testing.assert_array_equal(again.simfl.groups.starts, first.simfl.groups.starts)
    with pytest.raises(PartyRefusedError, match=r"hashes.*away"):
        trained([again, made(2, "binary:logistic", tmp_path / "2")], "binary:logistic")


def test_a_folder_that_has_told_sums_refuses_other_groups_of_rows(tmp_path):
    members = [made(k, "binary:logistic", tmp_path / str(k)) for k in range(2)]
    trained(members, "binary:logistic", 1)
    members[0].close()
    y, tmp_path = labels(ROWS[0], "binary:logistic"), tmp_path / "0"
    for changed, named in (
        ({"X": ROWS[0][:-1], "y": y[:-1]}, "accept_rows"),
        ({"y": 1 - y}, "accept_rows"),
        ({"sample_weight": np.arange(1, 1 + N_ROWS)}, "accept_rows"),
        ({"min_similar": 4}, "min_similar=4"),
    ):
        with pytest.raises(InvalidDataError, match=named):
            HorizontalParty(**{"X": ROWS[0], "y": y, "directory": tmp_path, **changed})
    (tmp_path / "horizontal.store").write_text("{torn")
    with pytest.raises(StoreError, match=r"'horizontal.store'.*used"):
        HorizontalParty(ROWS[0], y, directory=tmp_path)


@pytest.fixture
def interrupted(tmp_path):
    """A party whose run was interrupted after three rounds, and the name of the run."""
    members = [made(k, "binary:logistic", tmp_path / str(k)) for k in range(2)]
    trained(members, "binary:logistic", 3)
    (run,) = runs_of(members[0]).keys(RUNS)
    members[0].close()
    return made(0, "binary:logistic", tmp_path / "0"), bytes.fromhex(run), members[1]


def runs_of(party):
    """The store of the training runs of a party."""
    return party.simfl.runs


def session_with(party):
    channel = Channel(party, np.random.default_rng().bytes(16), Traffic(), "coordinator")
    channel.ask(Introduce(1), RowShape)
    return channel


def test_attack_a_resumed_run_answers_only_what_it_answered_before(interrupted):
    party, run, _ = interrupted
    journal = RunJournal.take_up(RunLog(party.simfl.runs, run), party.simfl.rows.digest())
    assert [is_own for _, is_own in journal.rounds] == [True, False, True]
    theirs = journal.rounds[1][0]
    made_up = Trees(theirs.lengths + 1, theirs.models + b" ")
    n_rows = len(ROWS[1])
    answers = []
    for _ in range(2):
        channel = session_with(party)
        channel.ask(ResumeBoosting(run, 1, ROUNDS), messages.Done)
        sums = channel.ask(AggregateGradients(1), AggregatedGradients)
        answers.append(np.concatenate([sums.g, sums.h]))
        with pytest.raises(PartyRefusedError, match=r"round 1.*trees"):
            channel.ask(made_up, messages.Done)
    np.testing.assert_array_equal(*answers)
    channel = session_with(party)
    channel.ask(ResumeBoosting(run, 1, ROUNDS), messages.Done)
    with pytest.raises(PartyRefusedError, match=r"turn.*place 1"):
        channel.ask(GrowTrees(1), Trees)
    # Sums that single out a row of the builder do not make it grow another tree.
    for row in (0, 1):
        channel = session_with(party)
        channel.ask(ResumeBoosting(run, 2, ROUNDS), messages.Done)
        g = np.zeros(N_ROWS, dtype=np.float32)
        g[row] = 1e6
        channel.ask(AggregatedGradients(g, np.abs(g)), messages.Done)
        assert channel.ask(GrowTrees(2), Trees).models == journal.rounds[2][0].models
    assert n_rows == 65


def test_a_resumption_that_does_not_fit_is_refused(interrupted, tmp_path):
    party, run, other = interrupted
    for name, number, reason in [
        (bytes(16), 1, "does not know the run"),
        (run, 4, "has 3 rounds"),
        (run, -1, "n_rounds of ResumeBoosting"),
    ]:
        with pytest.raises(PartyRefusedError, match=reason):
            session_with(party).ask(ResumeBoosting(name, number, ROUNDS), messages.Done)
    channel = session_with(party)
    channel.ask(ResumeBoosting(run, 1, ROUNDS), messages.Done)
    with pytest.raises(PartyRefusedError, match="opened already"):
        channel.ask(ResumeBoosting(run, 1, ROUNDS), messages.Done)
    assert runs_of(other).keys(RUNS) == [run.hex()]
    # A round that was not kept before a crash was never answered for.
    RunLog(runs_of(party), run).store.delete(ENTRIES, "", 3)
    with pytest.raises(PartyRefusedError, match="has 2 rounds"):
        session_with(party).ask(ResumeBoosting(run, 3, ROUNDS), messages.Done)
    party.close()
    damage(tmp_path / "0" / "horizontal.store", b'"base_score"', b'"base!score"')
    with pytest.raises(StoreError, match="damaged"):
        made(0, "binary:logistic", tmp_path / "0")


def test_attack_a_seed_agreement_of_a_lost_session_is_used_with_its_own_contributions_only(tmp_path):
    """A later session may use what was revealed before, so that hashes stay those of one seed, but no mix."""
    members = parties(tmp_path, "binary:logistic", dies_at=5)  # when hashes are asked for
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(PartyUnavailableError):
        trained(members, "binary:logistic", patience=0.0, checkpoint=checkpoint)
    path = checkpoint / SimFLCheckpoint.store_file
    whole = path.read_bytes()
    with SimFLCheckpoint(checkpoint).opened() as store:
        (about,) = store.keys(RUNS)
        known = store.get(RUNS, about)
        contributions = bytes.fromhex(known["contributions"])
        assert len(contributions) == 32 * 3
        changed = contributions[:-1] + bytes([contributions[-1] ^ 1])
        store.put(RUNS, about, {**known, "contributions": changed.hex()})
    with pytest.raises(ProtocolError, match="revealed another hash"):
        trained(parties(tmp_path, "binary:logistic"), "binary:logistic", checkpoint=checkpoint)
    path.write_bytes(whole)
    members = parties(tmp_path, "binary:logistic")
    trained(members, "binary:logistic", checkpoint=checkpoint)
    for member in (members[0], members[1].party, members[2]):
        told = member.simfl.disclosures.told
        assert len(told.hashes) == 1
        assert told.n_abandoned == 0


def test_journals_of_many_runs_are_not_kept(tmp_path):
    members = [made(k, "binary:logistic", tmp_path / str(k) if k else None) for k in range(2)]
    for _ in range(6):
        trained(members, "binary:logistic", 1)
    assert [len(runs_of(member).keys(RUNS)) for member in members] == [4, 4]


def test_checkpoints_that_do_not_fit(tmp_path):
    members = parties(tmp_path, "binary:logistic", dies_at=13)
    how = {"checkpoint": tmp_path / "checkpoint", "patience": 0.0}
    with pytest.raises(PartyUnavailableError):
        trained(members, "binary:logistic", **how)
    for other in ({"n_hashes": 2}, {"known_features": 1}):
        with pytest.raises(CheckpointError, match="data, parameters"):
            trained(members, "binary:logistic", **how, **other)
    with pytest.raises(CheckpointError, match="data, parameters"):
        trained(members[:2], "binary:logistic", **how)
    with pytest.raises(CheckpointError, match=r"has \d rounds; num_boost_round=1"):
        trained(members, "binary:logistic", 1, **how)
    path = tmp_path / "checkpoint" / SimFLCheckpoint.store_file
    path.write_bytes(b"torn" * 50 + path.read_bytes())
    with pytest.raises(CheckpointError, match="cannot be read"):
        trained(members, "binary:logistic", **how)
    rows = [(X, labels(X, "binary:logistic")) for X in ROWS]
    with pytest.raises(InvalidArgumentError, match="keep their part"):
        trained(rows, "binary:logistic", **how)
    with pytest.raises(InvalidArgumentError, match="patience=-1"):
        trained(rows, "binary:logistic", patience=-1)


def test_another_description_of_the_rows_ends_the_run(tmp_path):
    """A party that comes back with other rows is not asked on."""
    shorter = HorizontalParty(
        ROWS[1][:-1], labels(ROWS[1], "binary:logistic")[:-1], "party1", categorical_labels=True
    )
    members = parties(tmp_path, "binary:logistic", dies_at=13)
    members[1].make = lambda: shorter
    with pytest.raises(messages.ProtocolError, match="describes other rows"):
        trained(members, "binary:logistic")


class Down:
    """A party that is unavailable at one kind of request."""

    def __init__(self, party, at):
        self.party, self.name, self._at = party, party.name, at

    def handle(self, request):
        if isinstance(messages.read(request).message, self._at):
            raise PartyUnavailableError(f"party {self.name!r} is down")
        return self.party.handle(request)


@pytest.mark.parametrize("at", [RevealSeed, HashRows])
def test_another_run_of_a_party_does_not_lock_out_an_interrupted_one(tmp_path, at):
    """Before, the interrupted run was refused for ever: a party had agreed on another seed meanwhile."""
    first, second, third = (made(k, "binary:logistic", tmp_path / str(k)) for k in range(3))
    params = {**PARAMS, "objective": "binary:logistic"}
    how = {"n_hashes": 1, "verbose_eval": False}
    with pytest.raises(PartyUnavailableError):
        train_simfl(params, [first, Down(second, at)], 2, checkpoint=tmp_path / "run", **how)
    train_simfl(params, [first, third], 2, **how)
    again = train_simfl(params, [first, second], 2, checkpoint=tmp_path / "run", **how)
    assert again.booster.num_boosted_rounds() == 2


def test_a_run_goes_on_in_one_object_of_a_directory_only(tmp_path):
    """Before, both gave sums of the same round after different trees, and damaged the journal."""
    first = Coordinator(victim(directory=tmp_path), turns=(10**6, 100)).started()
    trees = [made_up_tree(1, 0, [0.0], [5.0, -5.0]), made_up_tree(1, 1, [0.3], [5.0, -5.0])]
    first.add(trees[0])
    with pytest.raises(StoreError, match=r"use.*object"):
        victim(directory=tmp_path)
    first.add(trees[0])
    end_process(tmp_path)
    again = victim(directory=tmp_path)
    second = Channel(again, os.urandom(16), Traffic(), "coordinator")
    second.ask(Introduce(0), RowShape)
    second.ask(ResumeBoosting(first.channel.session, 1, 100), messages.Done)
    with pytest.raises(PartyRefusedError, match=r"round 1.*trees"):
        second.ask(Trees(np.array([len(trees[1])]), trees[1]), messages.Done)
    third = Channel(again, os.urandom(16), Traffic(), "coordinator")
    third.ask(Introduce(0), RowShape)
    third.ask(ResumeBoosting(first.channel.session, 2, 100), messages.Done)
    with pytest.raises(PartyRefusedError, match="is closed"):
        first.add(trees[1])


def test_a_round_that_was_interrupted_is_counted_once(tmp_path, monkeypatch):
    """Before, a party that was killed while it grew a tree could not go on with `max_rounds` as trained."""

    def member():
        return HorizontalParty(
            ROWS[0], labels(ROWS[0], "binary:logistic"), "p0", categorical_labels=True, n_jobs=1,
            max_rounds=ROUNDS, directory=tmp_path / "p0",
        )  # fmt: skip

    class Killed:
        name = "p0"

        def __init__(self):
            self._party, self._n_grown = member(), 0

        def handle(self, request):
            if isinstance(messages.read(request).message, GrowTrees):
                self._n_grown += 1
                if self._n_grown == 2:
                    with monkeypatch.context() as patch, contextlib.suppress(MemoryError):
                        patch.setattr("xgb_fed.horizontal.simfl.boosting_state.NativeTreeGrower.grow", _fail)
                        self._party.handle(request)
                    self._party.close()
                    self._party = member()
                    raise PartyUnavailableError("party 'p0' is unavailable")
            return self._party.handle(request)

    others = [made(1, "binary:logistic", tmp_path / "p1")]
    model = trained([Killed(), *others], "binary:logistic", checkpoint=tmp_path / "c", patience=60.0)
    assert model.booster.num_boosted_rounds() == ROUNDS


def _fail(*_):
    raise MemoryError


@pytest.mark.parametrize("damaged", ["key", "told", "groups"])
def test_damage_of_what_a_party_keeps_is_noticed(tmp_path, damaged):
    party = victim(directory=tmp_path, random_state=None)
    Coordinator(party).started()
    key, starts = party.kept.key.hex().encode(), party.simfl.disclosures.groups.starts[:4].tobytes()
    party.close()
    changes = {
        "key": (key, key[:-1] + b"0123456789abcdef"[int(key[-1:], 16) ^ 1 :][:1]),
        "told": (b": 28", b": 18"),
        "groups": (starts, starts[:-1] + b"\1"),
    }
    damage(tmp_path / "horizontal.store", *changes[damaged])
    with pytest.raises(StoreError, match=r"'horizontal.store'.*damaged") as caught:
        victim(directory=tmp_path, random_state=None)
    assert str(tmp_path) not in str(caught.value)


def test_one_folder_for_the_checkpoint_and_a_party_ends_in_an_error(tmp_path):
    """Before, the run waited for ever for a lock that it held itself."""
    members = [made(0, "binary:logistic", tmp_path), made(1, "binary:logistic", tmp_path / "p1")]
    with pytest.raises(CheckpointError, match="training run needs"):
        trained(members, "binary:logistic", checkpoint=tmp_path)
    members[0].close()
    with pytest.raises(CheckpointError, match="keeps the state"):
        trained([*members[1:], made(2, "binary:logistic", None)], "binary:logistic", checkpoint=tmp_path)
    assert made(0, "binary:logistic", tmp_path).name == "party0"


def test_an_ended_run_keeps_no_seed_but_the_partys_own(tmp_path, monkeypatch):
    """The draws of a party are those of one key, which decides them in all runs alike and stays with it.

    It is no run's: other groups, or another order, of the same rows would tell them apart.
    """
    keys, begin = [], PartyState.__init__

    def begun(self, key=None, store=None):
        begin(self, os.urandom(KEY_BYTES), store)

    urandom = os.urandom

    def noted(size):
        keys.append(urandom(size))
        return keys[-1]

    monkeypatch.setattr(PartyState, "__init__", begun)
    monkeypatch.setattr(os, "urandom", noted)
    objective = "binary:logistic"
    members = [made(k, objective, tmp_path / f"party{k}", seed=False) for k in range(N_PARTIES)]
    trained(members, objective, checkpoint=tmp_path / "progress")
    for member in members:
        member.close()
    own = [found_in(tmp_path / f"party{k}", {key for key in keys if len(key) == KEY_BYTES}) for k in range(3)]
    assert all(len(found) == 1 for found in own)
    assert len({found[0] for found in own}) == N_PARTIES
    assert not found_in(tmp_path / "progress", [found[0] for found in own])


def test_a_full_disk_at_a_served_party_is_waited_for(tmp_path, monkeypatch):
    objective, disk = "binary:logistic", FullDisk(tmp_path / "full", monkeypatch)

    def run(k):
        folders = [tmp_path / where / f"{k}-{where}" for where in ("full", "one", "two")]
        members = [made(place, objective, folder) for place, folder in enumerate(folders)]
        disk.begin()
        model = trained([AsServed(members[0]), *members[1:]], objective)
        disk.end()
        for member in members:
            member.close()
        return raw(model)

    assert len(set(full_now_and_then(disk, run))) == 1
