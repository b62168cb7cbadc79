"""Estimators of a cluster fit the model of those of one process, and predict lazily."""

import pickle

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone

import lgb_dp
from dask_estimators import SETTINGS
from dask_training import X, Y, collections
from lgb_dp.dask import DaskDPLGBMClassifier, DaskDPLGBMRegressor

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
