"""An estimator fitted without parties trains on this party alone, and warns."""

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xgb_fed

X = np.random.default_rng(0).normal(size=(80, 4))
Y = (X[:, 0] + X[:, 2] > 0).astype(int)
SMALL = {"n_estimators": 2, "max_depth": 2, "random_state": 0}


@pytest.mark.parametrize("kind", [xgb_fed.VerticalXGBClassifier, xgb_fed.HorizontalXGBClassifier])
def test_a_classifier_trains_alone_and_warns(kind):
    with pytest.warns(xgb_fed.NoPartiesWarning, match="without parties") as caught:
        model = kind(**SMALL).fit(X, Y)
    assert caught[0].filename == __file__
    assert model.score(X, Y) > 0.6
    assert model.predict_proba(X).shape == (80, 2)
    assert model.n_features_in_ == 4


@pytest.mark.parametrize("kind", [xgb_fed.VerticalXGBRegressor, xgb_fed.HorizontalXGBRegressor])
def test_a_regressor_trains_alone_and_warns(kind):
    with pytest.warns(xgb_fed.NoPartiesWarning):
        model = kind(**SMALL).fit(X, X[:, 0])
    assert model.score(X, X[:, 0]) > 0.3


def test_a_model_alone_has_as_many_rounds_as_asked_for():
    with pytest.warns(xgb_fed.NoPartiesWarning):
        model = xgb_fed.HorizontalXGBClassifier(n_estimators=15, max_depth=1).fit(X, Y)
    assert model.get_booster().num_boosted_rounds() == 15


@pytest.mark.filterwarnings("ignore::xgb_fed.FewPartiesWarning")
def test_rows_of_this_party_are_those_of_the_first():
    kind = xgb_fed.HorizontalXGBClassifier
    ours, theirs = (X[:40], Y[:40]), (X[40:], Y[40:])
    one = kind(**SMALL).fit(*ours, parties=[theirs])
    other = kind(**SMALL).fit(parties=[ours, theirs])
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    with pytest.raises(xgb_fed.InvalidArgumentError, match="X must be given"):
        kind(**SMALL).fit(y=Y)


@pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")
def test_parties_are_routed_through_a_pipeline():
    with config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("error", xgb_fed.NoPartiesWarning)
        model = xgb_fed.VerticalXGBClassifier(**SMALL, cipher=xgb_fed.Plain()).set_fit_request(parties=True)
        pipeline = make_pipeline(StandardScaler(), model)
        pipeline.fit(X[:, :2], Y, parties=[xgb_fed.LocalParty(X[:, 2:], "bank")])
    assert pipeline.score(X[:, :2], Y) > 0.6
