"""Estimators of a cluster fit the model of those of one process, and predict lazily."""

import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import lgb_dp
from dask_estimators import SETTINGS
from dask_training import X, Y, collections
from lgb_dp.dask import DaskDPLGBMClassifier, DaskDPLGBMRegressor, DaskDPLGBMSurvival

pytestmark = pytest.mark.filterwarnings("ignore:random_state is for tests only")
LENGTHS = (100, 0, 540)


@pytest.mark.parametrize("names", [None, np.array(["no", "perhaps", "yes"])])
def test_a_classifier_is_that_of_one_process(client, names):
    classes = None if names is None else names.tolist()
    y = Y if names is None else names[np.digitize(X[:, 0], [-1, 1])]
    Xd, yd = collections(LENGTHS, X, y)
    one = lgb_dp.DPLGBMClassifier(**SETTINGS).fit(X, y, bounds=(-3, 3), classes=classes)
    many = DaskDPLGBMClassifier(**SETTINGS, client=client).fit(Xd, yd, bounds=(-3, 3), classes=classes)
    assert many.booster_.model_to_string() == one.booster_.model_to_string()
    assert many.privacy_.to_dict() == one.privacy_.to_dict()
    for method in ("predict", "predict_proba"):
        lazy, expected = getattr(many, method)(Xd), getattr(one, method)(X)
        assert isinstance(lazy, da.Array)
        assert lazy.chunks[0] == (100, 540)
        assert (lazy.dtype, lazy.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), expected)
        np.testing.assert_array_equal(getattr(many, method)(X), expected)
    local = many.to_local()
    assert type(local) is lgb_dp.DPLGBMClassifier
    np.testing.assert_array_equal(local.predict_proba(X), one.predict_proba(X))
    assert local.get_params() == one.get_params()


def test_a_regressor_is_that_of_one_process(client):
    Xd, yd = collections(LENGTHS, X, X[:, 0])
    known = {"bounds": (-3, 3), "label_bounds": (-2, 2)}
    one = lgb_dp.DPLGBMRegressor(**SETTINGS).fit(X, X[:, 0], **known)
    many = DaskDPLGBMRegressor(**SETTINGS).fit(Xd, yd, **known)  # the most recent client
    assert many.client_ is client
    assert many.booster_.model_to_string() == one.booster_.model_to_string()
    np.testing.assert_array_equal(many.predict(Xd).compute(scheduler="synchronous"), one.predict(X))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="label_bounds must be given"):
        DaskDPLGBMRegressor().fit(Xd, yd, bounds=(-3, 3))


@pytest.mark.parametrize("form", ["fields", "columns", "table"])
def test_times_are_those_of_one_process(client, form):
    time, seen = np.exp(X[:, 0]), np.exp(X[:, 1])
    y = np.rec.fromarrays([time <= seen, np.minimum(time, seen)], names=["event", "time"]).view(np.ndarray)
    known = {"bounds": (-3, 3), "label_bounds": (0.01, 50)}
    one = lgb_dp.DPLGBMSurvival(**SETTINGS).fit(X, y, **known)
    two = np.column_stack([y["time"], np.where(y["event"], y["time"], np.inf)])
    Xd, yd = collections(LENGTHS, X, y)
    if form == "columns":
        yd = da.from_array(two, chunks=(LENGTHS, 2))
    if form == "table":
        Xd, yd = (dd.from_pandas(pd.DataFrame(part), npartitions=2) for part in (X, y))
    many = DaskDPLGBMSurvival(**SETTINGS).fit(Xd, yd, **known)
    np.testing.assert_array_equal(many.predict(X), one.predict(X))
    for method, given in {
        "predict": (),
        "predict_survival_function": ([1, 2],),
        "predict_quantile": (0.9,),
    }.items():
        lazy, expected = getattr(many, method)(Xd, *given), getattr(one, method)(X, *given)
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), expected)
    assert many.score(Xd, yd) == many.score(X, y) == one.score(X, y)
    assert type(many.to_local()) is lgb_dp.DPLGBMSurvival
    held = DaskDPLGBMSurvival(**SETTINGS, validation_fraction=0.3).fit(Xd, yd, **known).evaluation_
    assert held.concordance.low < held.concordance.value < held.concordance.high
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="valid_sets"):
        many.fit(Xd, yd, **known, eval_set=[(Xd, yd)], public_eval_set=True)


def test_public_evaluation_sets_stop_a_fit(client):
    Xd, yd = collections(LENGTHS)
    model = DaskDPLGBMClassifier(**{**SETTINGS, "n_estimators": 30}, early_stopping_round=2)
    model.fit(
        Xd,
        yd,
        bounds=(-3, 3),
        eval_set=[(Xd, 1 - yd)],
        eval_names=["turned"],
        eval_metric="auc",
        public_eval_set=True,
    )
    assert 0 < model.best_iteration_ < 30
    assert list(model.evals_result_) == ["turned"]


def test_clones_and_pickles_leave_the_client_behind(client):
    model = DaskDPLGBMClassifier(**SETTINGS, client=client).fit(*collections(LENGTHS), bounds=(-3, 3))
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert clone(DaskDPLGBMClassifier(timeout=7.0, num_leaves=8)).get_params()["timeout"] == 7.0


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"method": "dpboost"}, "method='dpboost'.*supported.*cluster; 'newton'"),
        ({"method": "mboost"}, "'newton' is"),
        ({"auto_bounds": 0.1}, "auto_bounds=0.1 is not supported"),
    ],
)
def test_settings_that_a_cluster_does_not_have(settings, match):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=match):
        DaskDPLGBMClassifier(**settings).fit(*collections(LENGTHS), bounds=(-3, 3))
