"""Sessions with the passive parties: opened once, and anew after a party was lost."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xgb_fed
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.patience import Fanout
from xgb_fed.boosting.params import Settings
from xgb_fed.vertical.training.run_state import RunState
from xgb_fed.vertical.training.sessions import Sessions
from xgb_fed.vertical.training.task import TrainingTask

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(float)


@pytest.fixture
def sessions():
    party = xgb_fed.LocalParty(X[:, 2:], "bank")
    settings = Settings.from_params({"objective": "binary:logistic", "max_bin": 8})
    with pytest.warns(xgb_fed.NotEncryptedWarning):
        task = TrainingTask(settings, xgb_fed.ActiveData(X[:, :2], Y), [party], [], xgb_fed.Plain())
    state = RunState.begin(task, None)
    with ThreadPoolExecutor(1) as pool:
        yield Sessions(task, state, Fanout(pool, task.parties), patience=60)


def test_sessions_are_opened_once(sessions):
    assert sessions.passive == sessions.channels == {}
    sessions.open()
    (finder,) = sessions.passive.values()
    sessions.open()
    assert sessions.passive == {1: finder}
    assert sessions.state.model.party_features == [1]
    assert len(sessions.state.progress.agreed) == 1


def test_lost_parties_are_asked_in_new_sessions(sessions, monkeypatch):
    monkeypatch.setattr("gbdt_parties.patience.SECONDS_BETWEEN_TRIES", 0.0)
    sessions.open()
    first = sessions.channels[1]
    asked = []

    def work():
        asked.append(sessions.channels[1])
        if len(asked) == 1:
            raise PartyUnavailableError("party 'bank' is lost")
        return "done"

    assert sessions.reconnecting(work) == "done"
    assert asked[0] is first is not asked[1] is sessions.channels[1]
    sessions.finish()
