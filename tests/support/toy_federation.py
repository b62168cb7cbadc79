"""Training runs of toy questions across parties: coordinator and ledgers are real, trees are not."""

import hashlib
import os

import numpy as np
import pytest

from gbdt_parties.secure_sum.messages import Contributed
from lgb_dp import Dataset
from lgb_dp.accounting.cost import Cost
from lgb_dp.federated import coordinator, run
from lgb_dp.federated import party as party_module
from lgb_dp.federated.replica import NoisedQuestion

MU = 0.25
STD = 100.0


ROWS = Dataset(np.zeros((2, 1)), [0, 1], bounds=(-1, 1)).construct()
"""Everybody's: making them takes longer than all else in a schedule."""


class ToyModel:
    def __init__(self, model_str=""):
        self.text = model_str

    def model_to_string(self, num_iteration=None):
        return self.text


def toy_replica(data, task, n_parties, public_seed, own_key):
    """Sums of the number of rows; every structure follows from the sums before."""
    own = np.full(3, data.num_data(), dtype=np.int64)

    def training():
        history = public_seed
        for _ in range(task.n_rounds):
            structure = hashlib.sha256(history).digest()
            answer = yield NoisedQuestion(
                "leaf sums", structure, (own,), (STD,), MU, n_parties * data.num_data()
            )
            assert np.abs(answer.sums).max() < n_parties * data.num_data() + 12 * 2 * STD
            history += answer.sums.tobytes()
        return ToyModel(hashlib.sha256(history).hexdigest())

    return training(), Cost(mu=MU * (task.max_attempts + 1.5) ** 0.5)


@pytest.fixture(autouse=True)
def toy_runs(monkeypatch):
    monkeypatch.setattr(run, "train_replica", toy_replica)
    monkeypatch.setattr(coordinator, "DPBooster", ToyModel)
    monkeypatch.setattr(party_module, "Dataset", lambda *data, **settings: ROWS)
    # What was written survives a process that is killed; waiting for the disk is for power failures.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def answers_by_attempt(member):
    given = {}
    for asked, answer in member.answers:
        if isinstance(answer, Contributed) and answer.content:
            given.setdefault(asked.number, set()).add(answer.content)
    return given
