"""Sessions with the passive parties: opened once, and anew after a party was lost."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xgb_fed
from gbdt_parties import messages
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.patience import Fanout
from xgb_fed.boosting.params import Settings
from xgb_fed.vertical.protocol.messages import SplitCategories
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
    state = RunState(task, None)
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


N_ROWS = 120
PARAMS = {"objective": "reg:squarederror", "max_depth": 2, "enable_categorical": True}


class Listening:
    """A party that notes the categories that go right."""

    def __init__(self, party):
        self.party, self.name, self.right = party, party.name, []

    def handle(self, request):
        message = messages.read(request).message
        if isinstance(message, SplitCategories):
            self.right.append(np.unpackbits(message.right, count=len(message.nodes) * N_ROWS))
        return self.party.handle(request)


def problem(n_categories):
    rng = np.random.default_rng(0)
    codes = rng.permutation(N_ROWS) % n_categories
    return rng.normal(size=(N_ROWS, 2)), codes, (rng.random(N_ROWS) < 0.4).astype(np.float32)


def test_a_category_per_row_tells_labels_and_fit_warns():
    """Why there is a warning: noise, and everybody follows the protocol."""
    X, codes, y = problem(N_ROWS)
    party = Listening(xgb_fed.LocalParty(codes[:, None], "bank", feature_types=["c"]))
    data, cipher = xgb_fed.ActiveData(X, y), xgb_fed.Plain()
    with (
        pytest.warns(xgb_fed.NotEncryptedWarning),
        pytest.warns(xgb_fed.LabelLeakWarning, match="'bank', column 0: 120.*categories"),
    ):
        xgb_fed.train(PARAMS, data, [party], 1, cipher=cipher, verbose_eval=False)
    (right,) = party.right[:1]
    is_right = right.astype(bool)[codes]
    of_right, of_left = y[is_right], y[~is_right]
    assert min(of_right.mean(), 1 - of_left.mean()) == 0


def test_what_tells_less_does_not_warn():
    X, codes, y = problem(N_ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", xgb_fed.LabelLeakWarning)
        warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
        for n_categories, params in ((N_ROWS, {"max_cat_to_onehot": N_ROWS + 1}), (6, {})):
            party = xgb_fed.LocalParty((codes % n_categories)[:, None], "bank", feature_types=["c"])
            data = xgb_fed.ActiveData(X, y)
            xgb_fed.train({**PARAMS, **params}, data, [party], 1, cipher=xgb_fed.Plain(), verbose_eval=False)
