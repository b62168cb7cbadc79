"""A vertical training run with a `LocalParty`, written down to be replayed to a `DaskParty`."""

from functools import cache
from unittest import mock

import dask.array as da
import numpy as np

import xgb_fed
from gbdt_parties import messages
from vertical_training import Recorder, problem, train
from xgb_fed.ciphers.residue_key import ResidueKey
from xgb_fed.dask import DaskParty

X, Y = problem(n=300, missing=0.05)
X_EVAL, Y_EVAL = problem(n=70, seed=3)
N_ACTIVE = 3
PARAMS = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 8, "subsample": 0.9, "seed": 5}
CIPHERS = {"plain": xgb_fed.Plain(), "okamoto-uchiyama": xgb_fed.OkamotoUchiyama(512, True)}
ROWS = np.random.default_rng(8).permutation(300)[:280]
"""Positions of the rows to train on."""


def without_randomness():
    """Ciphertexts are sent back as they come out of the histograms."""
    return mock.patch.object(ResidueKey, "rerandomise", lambda key, a: a)


def chunked(values, lengths):
    return da.from_array(values, chunks=(tuple(lengths), values.shape[1]))


def dask_party(client, lengths, **kwargs):
    """The passive party on a cluster."""
    evals = [chunked(X_EVAL[:, N_ACTIVE:], (30, 40))]
    how = {"eval_sets": evals, "allow_explanations": "per-feature", **kwargs}
    return DaskParty(client, chunked(X[:, N_ACTIVE:], lengths), "bank", **how)


@cache
def recorded(cipher):
    """Requests of a run, a prediction and an explanation, and a local party's answers."""
    how = {"eval_sets": [X_EVAL[:, N_ACTIVE:]], "allow_explanations": "per-feature"}
    party = Recorder(xgb_fed.LocalParty(X[:, N_ACTIVE:], "bank", **how))
    evals = [(xgb_fed.ActiveData(X_EVAL[:, :N_ACTIVE], Y_EVAL), "eval")]
    with without_randomness():
        model = train(PARAMS, X[:, :N_ACTIVE], Y, [party], 2, cipher=CIPHERS[cipher], evals=evals)
        model.predict(X[:, :N_ACTIVE], [party])
        model.explain(X[:, :N_ACTIVE], [party])
    return party.requests, party.answers


def replayed(party, cipher, before=None):
    """Answers of another party to the same requests; `before` is called with each message and its number."""
    answers = []
    with without_randomness():
        for number, request in enumerate(recorded(cipher)[0]):
            if before is not None:
                before(number, messages.read(request).message)
            answers.append(party.handle(request))
    return answers
