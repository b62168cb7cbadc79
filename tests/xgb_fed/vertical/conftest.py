"""Fixtures of the tests of xgb_fed.vertical."""

import warnings

import numpy as np
import pytest
import xgboost

import explained_models
import xgb_fed
from categorical_columns import BASE, frames
from fitted_estimators import X, Y, classifier, party, stock_model
from vertical_training import Recorder, parties_of, parts, problem, train


@pytest.fixture(scope="module")
def recorded():
    _, theirs, y = frames(120)
    party = Recorder(xgb_fed.LocalParty(theirs, "bank", enable_categorical=True, allow_export=True))
    model = train({**BASE, "max_depth": 2, "enable_categorical": True}, None, y, [party], 1)
    model.predict(None, [party])
    model.export_booster([party])
    return party, theirs


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return classifier().fit(X[:, :3], Y, parties=[party()])


@pytest.fixture(scope="module")
def theirs():
    return stock_model(xgboost.XGBClassifier)


@pytest.fixture(scope="module")
def explained():
    """Two classes, missing values, weights, a base score, two passive parties that consent."""
    X, y = problem(n=300, n_features=9, missing=0.2)
    active, *passive = parts(X, 3, 6)
    parties = parties_of(passive, allow_explanations="per-feature")
    weight = np.random.default_rng(0).random(300).astype(np.float32)
    model = train({**explained_models.PARAMS, "base_score": 0.3}, active, y, parties, 4, weight)
    return model, X, y, weight, parties
