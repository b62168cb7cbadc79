"""Vertical models that explain their predictions, and what they are compared with."""

import numpy as np

from counted_answers import Talk
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.protocol.messages import OpenModel
from xgb_fed.vertical.protocol.splits import Splits

NONE = np.empty(0, dtype=np.int32)
PARAMS = {"objective": "binary:logistic", "max_depth": 4, "max_bin": 12}


def bank_of(n_rows=11, level="per-feature", **kwargs):
    columns = read_columns(np.random.default_rng(0).normal(size=(n_rows, 3)))
    splits = Splits(["a", "b", "c"])
    for feature in (2, 0, 2, 1):
        splits.add(feature, 0.1 * feature, True)
    return PassiveParty(columns, [], {b"m" * 16: splits}, allow_explanations=level, **kwargs), columns


def asked(party, *requests):
    """The last answer in a session about the model."""
    talk = Talk(party.handle)
    talk.ask(OpenModel(b"m" * 16, 0, NONE))
    return [talk.ask(request) for request in requests][-1]


def ids(*numbers):
    return np.array(numbers, dtype=np.int32)
