"""Two parties with different columns of the same few rows, for tests of runs, servers and restarts."""

import numpy as np

import lgb_dp
from lgb_dp.vertical.party import ColumnParty
from lgb_dp.vertical.replica import PartyRows
from lgb_dp.vertical.sums import PointHolder, TableHolder
from lgb_dp.vertical.train import train

N = 301
_rng = np.random.default_rng(11)
X = _rng.uniform(-1, 1, (N, 4))
Y = (X[:, 0] + X[:, 2] + _rng.normal(0, 0.3, N) > 0).astype(float)
IDS = [f"row-{k}" for k in range(N)]
PARAMS = {"objective": "binary", "num_threads": 1, "max_depth": 2}
CLASSES = np.digitize(X[:, 0] + X[:, 2], [-0.9, 0.4]).astype(float)
OF_CLASSES = {**PARAMS, "objective": "multiclassova", "num_class": 3}
BUDGET = (40.0, 1e-5)


def bank(x=X[:, 2:], **kw):
    return ColumnParty(x, name="bank", bounds=(-1, 1), max_bin=64, **kw)


def own_rows(rows=slice(None), y=Y):
    return lgb_dp.Dataset(X[rows, :2], y[rows], bounds=(-1, 1), max_bin=64)


def trained(party, n_trees=4, epsilon=30.0, rows=slice(None), per_round=2, params=PARAMS, y=Y, **kw):
    trainer = lgb_dp.NewtonBoost(epsilon, 1e-5)
    return train(
        params,
        own_rows(rows, y),
        n_trees,
        parties=[party],
        callbacks=[trainer],
        trees_per_round=per_round,
        **kw,
    )


def inputs_drawn(monkeypatch):
    """The latest inputs of both parties to every round, by place and by the number of the round."""
    drawn = {0: {}, 1: {}}
    for place, cls in enumerate((TableHolder, PointHolder)):

        def note(self, refresh, draws, made=cls.inputs, place=place):
            given = made(self, refresh, draws)
            if place == 0:  # tables are asked for again by the oracle
                whole = given.secret(0, N)
                given = type(given)(lambda a, b: whole[a:b], given.leaves, given.noise)
            drawn[place][refresh.number] = refresh, given
            return given

        monkeypatch.setattr(cls, "inputs", note)
    return drawn


def rows_used(monkeypatch):
    """A list of the rows that runs will train on, by their labels (None at the bank) and codes."""
    used = []

    def noted(self, *args, do=PartyRows.holder):
        used.append((self.label, np.asarray(self.codes.codes)))
        return do(self, *args)

    monkeypatch.setattr(PartyRows, "holder", noted)
    return used


def assert_rows_are(used, rows):
    """Both parties have trained on `rows`, in this order."""
    by_labels = {label is None: (label, codes) for label, codes in used}
    assert len(used) == len(by_labels) == 2
    np.testing.assert_array_equal(by_labels[False][0], Y[rows])
    expected = own_rows(rows).construct().codes, bank(x=X[rows, 2:]).codes
    for at_bank, codes in zip((False, True), expected, strict=True):
        np.testing.assert_array_equal(by_labels[at_bank][1], codes.codes)


def text_of(booster):
    return booster.model_to_string(num_iteration=-1)
