"""A model of two parties, and the parties that are asked about rows with it."""

from functools import cache

import numpy as np

import lgb_dp
from lgb_dp.vertical import ColumnParty, Consent, train
from lgb_dp.vertical.prediction.answering import PartyAnswers
from lgb_dp.vertical.prediction.models import digest_of, text_of

X = np.random.default_rng(3).uniform(-1, 1, (300, 4))
X[::7, 3] = np.nan
X[:, 1] = np.arange(300) % 3
SCORE = X[:, 0] + X[:, 2]
OWN, OTHER = X[:, :2], X[:, 2:]
CATEGORIES = {1: [0, 1, 2]}
IDS = [f"person {k}" for k in range(300)]
EVERYTHING = ("label", "rounded", "point", "score")


def trained(objective="binary"):
    """A booster of two parties, and the bounds of its label."""
    return trained_once(objective)


@cache
def trained_once(objective):
    label, bounds = {
        "binary": (SCORE > 0, None),
        "regression": (SCORE, (-2.0, 2.0)),
        "poisson": (np.exp(SCORE), (0.0, 8.0)),
    }[objective]
    rows = lgb_dp.Dataset(
        OWN,
        np.asarray(label, dtype=float),
        bounds={0: (-1, 1)},
        categories=CATEGORIES,
        label_bounds=bounds,
        label_overflow="clip",
        max_bin=255,
        spacing="mixed",
    )
    trainers = [lgb_dp.NewtonBoost(50.0, 1e-5)]
    params = {"objective": objective, "num_threads": 1, "max_depth": 3}
    return train(params, rows, 12, parties=[bank()], callbacks=trainers), bounds


def bank(consent=None):
    return ColumnParty(OTHER, name="bank", bounds=(-1, 1), consent=consent)


def knowing(objective="binary", store=None, **limits):
    """The other party, which has trained the model."""
    booster, bounds = trained(objective)
    party = bank(Consent(**limits))
    party.answers = PartyAnswers(party.answers.answered.consent, store)
    party.answers.remember(booster, party.bins, bounds)
    return party


def model_of(party, booster):
    """The party's own copy of a model."""
    return party.answers.model(digest_of(text_of(booster)), party.name)


def counted(party):
    return party.answers.answered.count(model_of(party, trained()[0]).digest)
