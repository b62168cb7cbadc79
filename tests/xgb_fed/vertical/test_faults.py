"""Losing a party, or the active one, at every message of a training: the model is the uninterrupted one."""

import json
import stat
import threading
import time

import numpy as np
import pytest
import xgboost
from threadpoolctl import threadpool_limits

import xgb_fed
from gbdt_commons.store import bytes_kind
from gbdt_parties import messages
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.run.log import RUNS, RunLog
from gbdt_parties.traffic import Traffic
from kept_stores import full_disk, restarted
from xgb_fed.boosting.features import read_columns
from xgb_fed.errors import CheckpointError
from xgb_fed.vertical.passive.journal import FOUND, Journals
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.training.checkpoint import STORE_FILE, VerticalJournal
from xgb_fed.vertical.trees.tree_record import Restart

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")

BINARY = dict(
    random_state=7, objective="binary:logistic", max_depth=2, max_bin=8, subsample=0.7, colsample_bytree=0.8
)
SOFTPROB = dict(
    random_state=7, objective="multi:softprob", num_class=3, max_depth=2, max_bin=8, goss=(0.3, 0.4)
)
ROUNDS = 2


class Killed(BaseException):
    """The active party's process is gone."""


class Bank:
    """A passive party whose process and connection fail when told to; its disk does not."""

    name = "bank"

    def __init__(self, problem, directory, **how):
        self.problem, self.directory, self.how = problem, directory, how
        self.splits_by_model = {}
        self.requests = 0
        self.faults = {}
        self.kinds = []
        directory.mkdir(exist_ok=True)
        self.restart()

    def restart(self):
        columns, evals = read_columns(self.problem.passive), [read_columns(self.problem.passive_eval)]
        journals = Journals(restarted(self.directory))
        self.handler = PassiveParty(columns, evals, self.splits_by_model, journals=journals, **self.how)

    def handle(self, request):
        fault = self.faults.get(self.requests)
        self.requests += 1
        self.kinds.append(type(messages.read(request).message).__name__)
        if fault == "killed":
            self.restart()
        if fault in ("killed", "unreachable"):
            raise PartyUnavailableError("party 'bank' is unavailable")
        if fault == "active killed before":
            raise Killed
        if fault == "restarted in between":
            self.restart()
        answer = self.handler.handle(request)
        if fault == "killed at work":
            self.restart()
        if fault == "active killed":
            raise Killed
        if fault == "garbage":
            return answer[:-1]
        if fault in ("killed at work", "answer lost"):
            raise PartyUnavailableError("party 'bank' is unavailable")
        return answer


class Problem:
    def __init__(self, n_classes=2, n=90):
        random = np.random.default_rng(5)
        X = random.normal(size=(n, 5)).astype(np.float32)
        score = X @ random.normal(size=5) + random.normal(size=n)
        y = np.digitize(score, np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]))
        train, held = slice(0, 60), slice(60, None)
        self.data = xgb_fed.ActiveData(X[train, :2], y[train])
        self.held = xgb_fed.ActiveData(X[held, :2], y[held])
        self.passive, self.passive_eval = X[train, 2:], X[held, 2:]

    def train(self, bank, params, **how):
        how = {"evals": [(self.held, "held")], "verbose_eval": False, "cipher": xgb_fed.Plain(), **how}
        return xgb_fed.train(params, self.data, [bank], ROUNDS, **how)


def essence(model):
    """Everything but the model's name, which every training run draws, and the restarts."""
    text = json.loads(model.to_json())
    assert text.pop("model_id") == model.model_id.hex()
    assert [Restart(**restart) for restart in text.pop("restarts")] == model.restarts
    assert model.traffic.restarts == [str(restart) for restart in model.restarts]
    return json.dumps(text)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("gbdt_parties.patience.SECONDS_BETWEEN_TRIES", 0.0)
    # So little data is slower on several threads.
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module", params=["binary", pytest.param("softprob", marks=pytest.mark.slow)])
def reference(request, tmp_path_factory):
    params, problem = (BINARY, Problem()) if request.param == "binary" else (SOFTPROB, Problem(3))
    bank = Bank(problem, tmp_path_factory.mktemp("bank"))
    model = problem.train(bank, params)
    assert {"OpenTraining", "Gradients", "SplitNodes", "RouteRows", "Finish"} <= set(bank.kinds)
    return problem, params, model, bank


@pytest.mark.parametrize("number", [1, 4, 9, 12])
def test_what_left_is_counted_once_however_often_a_run_failed(reference, number, tmp_path):
    """Before, a run that failed counted nothing, and one taken up not what left since the last tree."""
    problem, params, _, _ = reference
    bank = Bank(problem, tmp_path / "bank")
    sent, handle, counted = [], bank.handle, []

    def handled(request):
        sent.append(len(request))
        return handle(request)

    bank.handle = handled
    bank.faults = {number: "active killed", number + 5: "unreachable"}
    for error in (Killed, PartyUnavailableError, None):
        counted.append(Traffic())
        how = {"checkpoint": tmp_path / "active", "traffic": counted[-1]}
        if error is None:
            model = problem.train(bank, params, **how)
            continue
        with pytest.raises(error):
            problem.train(bank, params, **how)
        assert of_active(counted[-1])
    assert sum(map(of_active, counted)) == of_active(model.traffic) == sum(sent)


def of_active(traffic):
    """Bytes that left the active party."""
    return sum(flow.bytes for (sender, _, _), flow in traffic.flows.items() if sender == "active")


PASSIVE_FAULTS = ["killed", "killed at work", "restarted in between", "unreachable", "answer lost"]
ACTIVE_FAULTS = ["active killed", "active killed before"]
EVERY = pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
"""By default, a fault is at every third message, and another fault at the next one."""


@EVERY
@pytest.mark.parametrize("fault", PASSIVE_FAULTS)
def test_a_passive_party_lost_at_any_message(reference, fault, step, tmp_path):
    problem, params, model, undisturbed = reference
    for index in range(PASSIVE_FAULTS.index(fault) % step, undisturbed.requests, step):
        bank = Bank(problem, tmp_path / str(index))
        bank.faults = {index: fault}
        same = problem.train(bank, params, patience=60)
        assert essence(same) == essence(model), (index, fault)
        told = undisturbed.kinds[index] == "SplitNodes"
        assert [restart.party for restart in same.restarts] == ["bank"] * told, (index, fault)
        assert same.evals_result == model.evals_result
        assert bank.splits_by_model[same.model_id] == undisturbed.splits_by_model[model.model_id]
        assert bank.handler.journals.store.keys(RUNS) == [same.model_id.hex()]


@EVERY
@pytest.mark.parametrize("fault", ACTIVE_FAULTS)
def test_the_active_party_killed_at_any_message(reference, fault, step, tmp_path):
    problem, params, model, undisturbed = reference
    for index in range(ACTIVE_FAULTS.index(fault) % step, undisturbed.requests, step):
        bank = Bank(problem, tmp_path / f"bank{index}")
        bank.faults = {index: fault}
        kept = tmp_path / f"active{index}"
        with pytest.raises(Killed):
            problem.train(bank, params, checkpoint=kept)
        same = problem.train(bank, params, checkpoint=kept)
        assert essence(same) == essence(model), index
        told = undisturbed.kinds[index] == "SplitNodes"
        assert not told or [restart.party for restart in same.restarts] == ["bank"], index
        assert same.evals_result == model.evals_result
        assert bank.splits_by_model[same.model_id] == undisturbed.splits_by_model[model.model_id]


def test_everything_fails_again_and_again(reference, tmp_path):
    problem, params, model, undisturbed = reference
    random = np.random.default_rng(0)
    bank = Bank(problem, tmp_path / "bank")
    for index in random.choice(60, size=20, replace=False):
        bank.faults[int(index)] = random.choice([*PASSIVE_FAULTS, "active killed"])
    for _ in range(60):
        try:
            same = problem.train(bank, params, patience=60, checkpoint=tmp_path / "active")
            break
        except Killed:
            pass
    assert essence(same) == essence(model)
    assert bank.splits_by_model[same.model_id] == undisturbed.splits_by_model[model.model_id]


def test_resumed_under_encryption_with_a_fresh_key(tmp_path):
    problem = Problem()
    plain = problem.train(Bank(problem, tmp_path / "reference"), BINARY)
    bank = Bank(problem, tmp_path / "bank")
    bank.faults = {6: "active killed", 12: "killed"}
    cipher = xgb_fed.OkamotoUchiyama(key_length=1024, allow_weak_key=True)
    with pytest.raises(Killed):
        problem.train(bank, BINARY, cipher=cipher, checkpoint=tmp_path / "active")
    same = problem.train(bank, BINARY, cipher=cipher, checkpoint=tmp_path / "active", patience=60)
    assert bank.requests > 15
    assert essence(same) == essence(plain)


def test_only_the_unfinished_tree_is_grown_again(reference, tmp_path):
    problem, params, _, undisturbed = reference
    last_tree = len(undisturbed.kinds) - undisturbed.kinds[::-1].index("StartTree") - 1
    bank = Bank(problem, tmp_path / "bank")
    bank.faults = {last_tree + 1: "killed"}
    problem.train(bank, params, patience=60)
    assert bank.kinds[last_tree + 2 : last_tree + 5] == ["OpenTraining", "ResumeTraining", "StartTree"]
    assert bank.kinds.count("StartTree") == undisturbed.kinds.count("StartTree") + 1


def test_early_stopping_and_callbacks_go_on_where_they_were(tmp_path):
    problem = Problem()
    params = {**BINARY, "eval_metric": ["logloss", "auc"]}

    def run(bank, **how):
        rates = xgboost.callback.EarlyStopping(rounds=1, metric_name="logloss", data_name="held", min_delta=1)
        return problem.train(bank, params, callbacks=[rates], **how)

    model = run(Bank(problem, tmp_path / "reference"))
    assert model.best_iteration == 0
    for index in (7, 10, 13):
        bank = Bank(problem, tmp_path / f"bank{index}")
        bank.faults = {index: "active killed"}
        with pytest.raises(Killed):
            run(bank, checkpoint=tmp_path / f"active{index}")
        same = run(bank, checkpoint=tmp_path / f"active{index}")
        assert essence(same) == essence(model)
        assert same.evals_result == model.evals_result


def test_other_parties_are_not_waited_for_when_one_is_lost(tmp_path):
    problem = Problem()
    released = threading.Event()

    class Dead(Bank):
        name = "dead"

    class Slow(Bank):
        def handle(self, request):
            if self.requests == 3:
                self.requests += 1
                released.wait(120)
                raise PartyUnavailableError("party 'slow': given up")
            return super().handle(request)

        def interrupt(self):
            released.set()

    how = dict(evals=[(problem.held, "held")], cipher=xgb_fed.Plain(), verbose_eval=False)
    for order in (1, -1):
        released.clear()
        dead, slow = Dead(problem, tmp_path / "dead"), Slow(problem, tmp_path / "slow")
        dead.faults = {3: "unreachable"}
        start = time.monotonic()
        with pytest.raises(PartyUnavailableError, match="'bank' is unavailable"):
            xgb_fed.train(BINARY, problem.data, [dead, slow][::order], 1, **how)
        assert time.monotonic() - start < 60


def test_estimators_survive_too(tmp_path):
    problem = Problem()
    how = dict(max_depth=2, max_bin=8, n_estimators=2, cipher=xgb_fed.Plain())
    for kind, y in [
        (xgb_fed.VerticalXGBClassifier, problem.data.label),
        (xgb_fed.VerticalXGBRegressor, problem.data.label.astype(float)),
    ]:
        undisturbed = Bank(problem, tmp_path / f"undisturbed {kind.__name__}")
        expected = kind(**how).fit(
            problem.data.data, y, parties=[undisturbed], eval_set=[(problem.held.data, problem.held.label)]
        )
        bank = Bank(problem, tmp_path / kind.__name__)
        bank.faults = {6: "active killed", 12: "killed"}
        checkpoint = tmp_path / f"checkpoint {kind.__name__}"
        fit = dict(parties=[bank], eval_set=[(problem.held.data, problem.held.label)], checkpoint=checkpoint)
        with pytest.raises(Killed):
            kind(**how).fit(problem.data.data, y, **fit)
        survived = kind(**how).fit(problem.data.data, y, patience=60, **fit)
        assert essence(survived.model_) == essence(expected.model_)


def test_patience_runs_out(tmp_path):
    problem = Problem()
    bank = Bank(problem, tmp_path / "bank")
    bank.faults = dict.fromkeys(range(5, 10_000_000), "unreachable")
    start = time.monotonic()
    with pytest.raises(PartyUnavailableError, match="bank"):
        problem.train(bank, BINARY)
    assert bank.requests == 6
    with pytest.raises(PartyUnavailableError, match="bank"):
        problem.train(bank, BINARY, patience=0.5)
    assert time.monotonic() - start < 60


def test_garbage_ends_the_training_with_the_partys_name(reference, tmp_path):
    problem, params, _, undisturbed = reference
    for index in range(undisturbed.requests):
        bank = Bank(problem, tmp_path / str(index))
        bank.faults = {index: "garbage"}
        with pytest.raises(ProtocolError, match="'bank'"):
            problem.train(bank, params, patience=60)
        assert set(bank.kinds[index + 1 :]) <= {"Abort"}


def test_a_full_disk_at_the_passive_party(tmp_path, monkeypatch):
    problem = Problem()
    reference = problem.train(Bank(problem, tmp_path / "reference"), BINARY)
    bank = Bank(problem, tmp_path / "bank")
    commits = full_disk(monkeypatch, tmp_path / "bank" / "party.store", 2)
    with pytest.raises(OSError, match="No space left"):
        problem.train(bank, BINARY, checkpoint=tmp_path / "active")
    assert len(commits) == 3
    monkeypatch.undo()
    monkeypatch.setattr("gbdt_parties.patience.SECONDS_BETWEEN_TRIES", 0.0)
    same = problem.train(bank, BINARY, checkpoint=tmp_path / "active")
    assert essence(same) == essence(reference)


def test_a_full_disk_at_the_active_party_leaves_the_last_progress(tmp_path, monkeypatch):
    problem = Problem()
    reference = problem.train(Bank(problem, tmp_path / "reference"), BINARY)
    bank, kept = Bank(problem, tmp_path / "bank"), tmp_path / "active"
    append, calls = VerticalJournal.add_tree, []

    def full(self, progress):
        calls.append(progress)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        append(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(VerticalJournal, "add_tree", full)
        with pytest.raises(OSError, match="No space"):
            problem.train(bank, BINARY, checkpoint=kept)
    same = problem.train(bank, BINARY, checkpoint=kept)
    assert essence(same) == essence(reference)


def test_a_checkpoint_is_one_trainings(tmp_path):
    problem = Problem()
    problem.train(Bank(problem, tmp_path / "bank"), BINARY, checkpoint=tmp_path / "active")
    for params, other in [({**BINARY, "eta": 0.1}, problem), (BINARY, Problem(n=91))]:
        with pytest.raises(CheckpointError, match="training run"):
            other.train(Bank(other, tmp_path / "bank2"), params, checkpoint=tmp_path / "active")
    (tmp_path / "active" / STORE_FILE).write_bytes(b"PK nonsense")
    with pytest.raises(CheckpointError, match="cannot be read"):
        problem.train(Bank(problem, tmp_path / "bank3"), BINARY, checkpoint=tmp_path / "active")


def test_a_checkpoint_holds_no_key_and_nothing_of_the_other_party(tmp_path, monkeypatch):
    problem = Problem()
    made = []
    generate = xgb_fed.OkamotoUchiyama.generate

    def keep(self):
        made.append(generate(self))
        return made[-1]

    monkeypatch.setattr(xgb_fed.OkamotoUchiyama, "generate", keep)
    cipher = xgb_fed.OkamotoUchiyama(key_length=1024, allow_weak_key=True)
    bank = Bank(problem, tmp_path / "bank")
    problem.train(bank, BINARY, checkpoint=tmp_path / "active", cipher=cipher)
    written = b"".join(path.read_bytes() for path in sorted((tmp_path / "active").iterdir()))
    secret, splits = made[0], next(iter(bank.splits_by_model.values()))
    assert len(written) > 1000
    files = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "active").iterdir()}
    assert (files, stat.S_IMODE((tmp_path / "active").stat().st_mode)) == ({0o600}, 0o700)
    assert len(splits) > 0
    for number in (secret.private_bytes(), *(str(t).encode() for t in splits.thresholds)):
        assert number not in written


def resumable(tmp_path, **how):
    """A passive party, and what it was asked when the active party died in the second tree."""
    problem = Problem()
    bank = Bank(problem, tmp_path / "bank", **how)
    bank.faults = {11: "active killed"}
    with pytest.raises(Killed):
        problem.train(bank, BINARY, checkpoint=tmp_path / "active", cipher=how.pop("cipher", xgb_fed.Plain()))
    return problem, bank


def test_a_training_is_not_taken_up_on_other_data(tmp_path):
    problem, bank = resumable(tmp_path)
    problem.passive = problem.passive.copy()
    problem.passive[0, 0] += 1
    bank.restart()
    with pytest.raises(PartyRefusedError, match="data"):
        problem.train(bank, BINARY, checkpoint=tmp_path / "active")


def test_a_training_is_not_taken_up_with_a_weaker_cipher(tmp_path):
    problem = Problem()
    bank = Bank(problem, tmp_path / "bank")
    bank.faults = {11: "active killed"}
    long = xgb_fed.OkamotoUchiyama(key_length=1536, allow_weak_key=True)
    with pytest.raises(Killed):
        problem.train(bank, BINARY, checkpoint=tmp_path / "active", cipher=long)
    for weaker in (xgb_fed.OkamotoUchiyama(key_length=1024, allow_weak_key=True), xgb_fed.Plain()):
        with pytest.raises(PartyRefusedError, match=r"scheme.*shorter"):
            problem.train(bank, BINARY, checkpoint=tmp_path / "active", cipher=weaker)


def test_a_lost_or_cut_journal_is_not_made_up_for(tmp_path):
    problem, bank = resumable(tmp_path)
    store = bank.handler.journals.store
    (number,) = store.keys(RUNS)
    damages = [
        lambda: RunLog(store, bytes.fromhex(number)).store.delete(FOUND, "", 1),
        lambda: RunLog(store, bytes.fromhex(number)).store.put(bytes_kind(FOUND.name), "", b"[["),
        lambda: store.delete(RUNS, number),
    ]
    for damage in damages:
        damage()
        bank.restart()
        store = bank.handler.journals.store
        with pytest.raises(PartyRefusedError, match=r"kept|cannot be read"):
            problem.train(bank, BINARY, checkpoint=tmp_path / "active")
