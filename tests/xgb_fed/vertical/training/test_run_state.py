"""The state of a run between two trees: it is complete from the beginning."""

import numpy as np
import pytest

import xgb_fed
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import UnsupportedParameterError
from xgb_fed.vertical.protocol.splits import NamedSplit
from xgb_fed.vertical.training.run_state import RunState
from xgb_fed.vertical.training.task import TrainingTask

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(float)


def task(cipher):
    settings = Settings.from_params({"objective": "binary:logistic", "random_state": 5})
    with pytest.warns(xgb_fed.NotEncryptedWarning):
        return TrainingTask(
            settings, xgb_fed.ActiveData(X[:, :2], Y), [xgb_fed.LocalParty(X[:, 2:], "bank")], [], cipher
        )


def test_a_run_begins_without_trees():
    state = RunState(task(xgb_fed.Plain()), None)
    assert (state.n_finished, state.is_kept, state.earlier) == (0, False, None)
    assert state.progress.seed == 5
    assert state.traffic is state.model.traffic
    assert (state.n_splits(0), state.n_splits(1), state.n_known_splits(1)) == (0, 0, 0)


def test_a_run_without_parties_makes_no_key():
    class NoneMade(xgb_fed.Paillier):
        def generate(self):
            raise AssertionError("a key was made")

    settings = Settings.from_params({"objective": "binary:logistic"})
    alone = TrainingTask(settings, xgb_fed.ActiveData(X, Y), [], [], NoneMade())
    assert RunState(alone, None).traffic.encrypted


def test_splits_count_once_their_tree_is_finished():
    state = RunState(task(xgb_fed.Plain()), None)
    state.model.splits.add(0, 0.5, False)
    state.progress.named[1] = [NamedSplit(0, 1, False, None)] * 2
    assert (state.n_splits(0), state.n_splits(1)) == (0, 0)
    state.note_splits()
    assert (state.n_splits(0), state.n_splits(1)) == (1, 2)
    assert state.n_known_splits(1) == 0  # a run that is taken up before its first tree begins anew


def test_a_cipher_that_does_not_encrypt_is_refused():
    class Careless:
        def generate(self):
            return xgb_fed.Plain().generate()

    settings = Settings.from_params({"objective": "binary:logistic"})
    parties = [xgb_fed.LocalParty(X[:, 2:], "bank")]
    careless = TrainingTask(settings, xgb_fed.ActiveData(X[:, :2], Y), parties, [], Careless())
    with pytest.raises(UnsupportedParameterError, match="does not encrypt"):
        RunState(careless, None)
