"""Either side of a run with columns apart is killed at every event, and the run goes on to one model."""

import shutil
import threading
from collections import defaultdict
from contextlib import contextmanager

import numpy as np
import pytest

from columns_apart import BUDGET, CLASSES, OF_CLASSES, N, bank, inputs_drawn, text_of, trained
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyError
from gbdt_parties.run.flights.frames import Link
from gbdt_parties.run.flights.kept import EVENTS, Charge, Opening, Value
from gbdt_parties.run.log import RUNS, THIS_PROCESS, RunLog, runs_of
from kept_stores import kept_of_runs
from lgb_dp.federated.ledger import LEDGER_FILE, ROLE, read_ledger
from lgb_dp.vertical.replica import ReplicaAnswers
from lgb_dp.vertical.run import OWN_RUNS
from vertical_oracle import SEATS, central_sums

pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")
N_ROUNDS = 2
"""Of each class."""
KINDS = {1: {}, 3: {"params": OF_CLASSES, "y": CLASSES}}
"""Arguments of a run by the classes that take turns."""


class Killed(BaseException):
    """The end of a process."""


class Events:
    """Sends, receipts and transactions of one side, at one of which its process ends."""

    def __init__(self):
        self.place, self.kill_at, self.n = 0, None, 0
        self._depth = defaultdict(int)

    def begin(self, place, kill_at=None):
        self.place, self.kill_at, self.n = place, kill_at, 0

    def happens(self):
        is_main = threading.current_thread() is threading.main_thread()
        if is_main != (self.place == 0):
            return
        self.n += 1
        if self.n == self.kill_at:
            raise Killed

    def around(self, do):
        def method(link, *args):
            self.happens()
            result = do(link, *args)
            self.happens()
            return result

        return method

    def around_steps(self, do):
        def steps(link, *args):
            self.happens()
            result = yield from do(link, *args)
            self.happens()
            return result

        return steps

    def transaction(self, do):
        @contextmanager
        def whole(store, *, sync=True):
            thread = threading.get_ident()
            if self._depth[thread] == 0:
                self.happens()
            self._depth[thread] += 1
            try:
                with do(store, sync=sync):
                    yield
            finally:
                self._depth[thread] -= 1
            if self._depth[thread] == 0:
                self.happens()

        return whole


@pytest.fixture
def events(monkeypatch):
    found = Events()
    monkeypatch.setattr(Link, "send", found.around(Link.send))
    monkeypatch.setattr(Link, "take_view", found.around_steps(Link.take_view))
    monkeypatch.setattr(StoreFile, "transaction", found.transaction(StoreFile.transaction))
    return found


@pytest.fixture
def inputs(monkeypatch):
    """The latest inputs to every round, by place."""
    return inputs_drawn(monkeypatch)


def process(folder, n_classes, is_apart, auditable):
    """One process of each side, from its beginning on; the ledger may be apart from the checkpoint."""
    party = bank(folder=folder / "bank", budget=BUDGET, auditable=auditable)
    how = {"folder": folder / "labels", "budget": BUDGET, "checkpoint": folder / "progress"}
    try:
        return trained(
            party,
            n_trees=N_ROUNDS,
            per_round=1,
            auditable=auditable,
            **(how if is_apart else {"checkpoint": folder / "labels"}),
            **KINDS[n_classes],
        )
    finally:
        party.close()


def check(folder, booster, inputs, n_classes, auditable):
    """Both sides have one model, of the sums of the attempts that counted, and every charge.

    Unless they are kept for an auditor, the lists of the run have ended with it.
    """
    (kept,) = (folder / "bank" / "models").glob("*.txt")
    assert kept.read_text() == text_of(booster)
    opened, n_rounds = [], n_classes * N_ROUNDS
    for name in ("labels", "bank"):
        charges = {row["release"]: row["answers"] for row in read_ledger(folder / name).rows}
        whole = StoreFile(folder / name / LEDGER_FILE, ROLE, read_only=True)
        assert charges["leaf sums"] >= n_rounds
        assert charges.get("label counts", 0) == n_classes * (name == "labels")
        if not auditable:
            assert not kept_of_runs(whole)
            whole.close()
            continue
        runs = runs_of(whole, OWN_RUNS if name == "labels" else THIS_PROCESS)
        logs = {run: RunLog(runs, bytes.fromhex(run)).store for run in runs.keys(RUNS)}
        store = logs.pop(kept.stem)
        # A side that was killed as the run began has begun another one: nothing was answered in the first.
        assert not any(log.kinds() for log in logs.values())
        events = list(store.entries(EVENTS, ""))
        kinds = [type(event) for event in events]
        assert charges["leaf sums"] == kinds.count(Charge)
        assert kinds.count(Value) == n_classes
        opened.append([event.sums for event in events if isinstance(event, Opening)])
        whole.close()
    assert not opened or opened[0] == opened[1]
    for number, words in enumerate(opened[0] if opened else ()):
        (refresh, a), (_, b) = (inputs[place][number] for place in (0, 1))
        expected = np.concatenate(list(central_sums(refresh.layout(SEATS, N), a, b)))
        assert words == expected.astype("<u8").tobytes()


def killed_and_resumed(folder, events, inputs, place, kill_at, *how):
    """Whether the side had so many events."""
    n_classes, _, auditable = how
    events.begin(place, kill_at)
    try:
        booster = process(folder, *how)
    except Killed:
        events.begin(place)
        check(folder, process(folder, *how), inputs, n_classes, auditable)
        return True
    check(folder, booster, inputs, n_classes, auditable)
    return False


def every(folder, events, inputs, place, step, n_classes, is_apart=None, auditable=None):
    """Kill the side at events of a distance, with the ledger apart every other time unless it is said.

    Likewise with lists and messages that outlive the run.
    """
    kill_at = 1 + (step > 1) * (5 * place + 2)
    while killed_and_resumed(
        folder / f"{place}-{kill_at}",
        events,
        inputs,
        place,
        kill_at,
        n_classes,
        kill_at % 2 == 1 if is_apart is None else is_apart,
        kill_at // (2 * step) % 2 == 1 if auditable is None else auditable,
    ):
        kill_at += step
    return kill_at


@pytest.mark.parametrize(
    ("place", "n_classes", "step"),
    [
        (0, 1, 31),
        (1, 3, 79),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((1, 1, 31), (0, 3, 79))),
    ],
)
def test_a_side_that_is_killed_at_some_events_goes_on(tmp_path, events, inputs, place, n_classes, step):
    assert every(tmp_path, events, inputs, place, step, n_classes) > 2 * step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classes", "is_apart", "auditable"),
    [(1, False, False), (1, True, False), (3, True, False), (1, True, True)],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_side_that_is_killed_at_any_event_goes_on(
    tmp_path, events, inputs, place, n_classes, is_apart, auditable
):
    assert every(tmp_path, events, inputs, place, 1, n_classes, is_apart, auditable) > 60


def test_an_older_store_that_is_put_back_is_refused(tmp_path, monkeypatch):
    """Of either side: the rounds since would be opened a second time, with other noise."""
    stop_after = []

    def stopped(self, asked, do=ReplicaAnswers.opened):
        sums = yield from do(self, asked)
        if self.place == 0 and stop_after == [asked.refresh.number]:
            raise Killed
        return sums

    monkeypatch.setattr(ReplicaAnswers, "opened", stopped)

    def run():
        party = bank(folder=tmp_path / "bank", budget=BUDGET)
        try:
            trained(party, n_trees=4, per_round=1, checkpoint=tmp_path / "labels")
        finally:
            party.close()

    for number in (0, 2):
        stop_after[:] = [number]
        with pytest.raises(Killed):
            run()
        for name in ("bank", "labels"):
            shutil.copytree(tmp_path / name, tmp_path / f"{name}-{number}")
    stop_after.clear()
    for name in ("bank", "labels"):
        for each in ("bank", "labels"):
            shutil.rmtree(tmp_path / each)
            shutil.copytree(tmp_path / f"{each}-{0 if each == name else 2}", tmp_path / each)
        with pytest.raises(PartyError, match="one history"):
            run()
