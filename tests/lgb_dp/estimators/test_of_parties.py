"""Estimators on data of several parties look at who calls their fit, as those of rows in one place do."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import lgb_dp
from lgb_dp.federated import FederatedDPLGBMClassifier
from lgb_dp.vertical import ColumnParty, VerticalDPLGBMClassifier

rng = np.random.default_rng(3)
X = rng.uniform(-1, 1, (400, 4))
Y = (X[:, 0] + X[:, 2] > 0).astype(float)
IDS = [f"person {i}" for i in range(len(X))]
SETTINGS = {"epsilon": 50.0, "n_estimators": 4, "n_jobs": 1}


def apart(**settings):
    return VerticalDPLGBMClassifier(**SETTINGS, **settings)


def fitted_behind(step):
    bank = ColumnParty(X[:, 2:], name="bank", bounds=(-1, 1))
    of_fit = {"parties": [bank], "bounds": (-1, 1)}
    keywords = {f"verticaldplgbmclassifier__{name}": value for name, value in of_fit.items()}
    return make_pipeline(step, apart()).fit(X[:, :2], Y, **keywords)[-1]


def test_side_door_a_step_that_learns_from_rows_is_refused():
    """Before, the model of columns that a scaler had learned from the rows said that it was private."""
    with pytest.raises(lgb_dp.InvalidArgumentError, match="StandardScaler in Pipeline learned"):
        fitted_behind(StandardScaler())
    assert fitted_behind(FunctionTransformer()).privacy_.private


def trees(model, X, y=None):
    return float(model.booster_.num_trees())


@pytest.mark.filterwarnings("ignore")  # scikit-learn's, of fits that fail
def test_side_door_a_search_over_fits_of_parties_is_refused():
    """Before, the best model of all fits said what it alone had cost."""
    search = {"param_grid": {"max_depth": [1, 2]}, "cv": 2, "scoring": trees}
    bank = ColumnParty(X[:, 2:], name="bank", bounds=(-1, 1), ids=IDS)
    with pytest.raises(ValueError, match="GridSearchCV fits several models"):
        GridSearchCV(apart(), **search).fit(X[:, :2], Y, parties=[bank], ids=IDS, bounds=(-1, 1))
    pairs = [(X[place::4], Y[place::4]) for place in range(4)]
    rows_apart = FederatedDPLGBMClassifier(**SETTINGS)
    with pytest.raises(ValueError, match="GridSearchCV fits several models"):
        GridSearchCV(rows_apart, **search).fit(pairs, bounds=(-1, 1))


class Wrapper(BaseEstimator):
    def fit(self, pairs):
        self.model_ = FederatedDPLGBMClassifier(**SETTINGS).fit(pairs, bounds=(-1, 1))
        return self


def test_an_unknown_caller_is_warned_of():
    pairs = [(X[place::2], Y[place::2]) for place in range(2)]
    with pytest.warns(lgb_dp.NotPrivateWarning, match="called by Wrapper") as warned:
        Wrapper().fit(pairs)
    assert __file__ in {one.filename for one in warned if "Wrapper" in str(one.message)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", lgb_dp.NotPrivateWarning)
        warnings.filterwarnings("ignore", message="delta")
        warnings.filterwarnings("ignore", category=lgb_dp.FewPartiesWarning)
        FederatedDPLGBMClassifier(**SETTINGS).fit(pairs, bounds=(-1, 1))
