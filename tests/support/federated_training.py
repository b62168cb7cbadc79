"""Small private training runs across parties, and ways to disturb them."""

import warnings

import numpy as np

import lgb_dp
from lgb_dp import federated

rng = np.random.default_rng(7)
N_ROWS = 360
X = rng.uniform(-1, 1, (N_ROWS, 3))
Y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.2, N_ROWS) > 0).astype(float)
BOUNDS = (-1.0, 1.0)
DELTA = 1e-5
BINARY = {"objective": "binary", "max_depth": 2, "num_threads": 1}
NAMES = ("ada", "bob", "cyd", "dan", "eve")


def rows_of(place, n_parties):
    return np.array_split(np.arange(N_ROWS), n_parties)[place]


def party(place=0, n_parties=3, **settings):
    rows = rows_of(place, n_parties)
    settings = {"bounds": BOUNDS, "max_bin": 8, "name": NAMES[place], **settings}
    return federated.Party(settings.pop("X", X[rows]), settings.pop("y", Y[rows]), **settings)


def parties(n_parties=3, **settings):
    return [party(place, n_parties, **settings) for place in range(n_parties)]


def train(members, n_rounds=4, params=BINARY, epsilon=50.0, structure="auto", held=0.0, **settings):
    trainer = lgb_dp.NewtonBoost(epsilon, DELTA, structure=structure, validation_fraction=held)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgb_dp.FewPartiesWarning)
        warnings.simplefilter("ignore", lgb_dp.NotPrivateWarning)
        return federated.train(params, members, n_rounds, callbacks=[trainer], **settings)


def charges(member):
    """All charges in the ledger of a party."""
    return member.ledger.charges()
