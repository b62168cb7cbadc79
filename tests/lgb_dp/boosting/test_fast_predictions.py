"""Private boosters and estimators predict many rows faster, and no bit differs from stock LightGBM's."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import lgb_dp
from gbdt_hosts.lightgbm import booster as private_booster
from small_training import dataset, train


@pytest.fixture(autouse=True)
def _from_the_first_row_on(monkeypatch):
    monkeypatch.setattr(private_booster, "MIN_ROWS_TO_PREPARE", 1)
    monkeypatch.setattr(private_booster, "MIN_FAST_ROWS", 1)


@pytest.fixture
def no_stock(monkeypatch):
    """LightGBM's own prediction by private boosters is an error."""
    predict = lgb.Booster.predict

    def refused(booster, *args, **kwargs):
        assert not isinstance(booster, lgb_dp.DPBooster)
        return predict(booster, *args, **kwargs)

    monkeypatch.setattr(lgb.Booster, "predict", refused)


def rows_with_gaps(n=500):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)).clip(-3, 3)
    X[:, 3] = rng.integers(0, 5, n)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, rng.integers(0, 3, n)


@pytest.mark.usefixtures("no_stock")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers(n_classes):
    X, y = rows_with_gaps()
    table = pd.DataFrame(X, columns=list("abcd"))
    table["d"] = pd.Categorical(table["d"].map(lambda v: "vwxyz"[int(v)] if v == v else None), list("vwxyz"))
    model = lgb_dp.DPLGBMClassifier(50.0, n_estimators=12, max_depth=3, n_jobs=1)
    model.fit(table, y % n_classes, bounds=(-3, 3), classes=range(n_classes), categories="dtype")
    stock = lgb.Booster(model_str=model.booster_.model_to_string())
    expected = stock.predict(X, num_threads=1)
    found = model.predict_proba(table)
    np.testing.assert_array_equal(found if n_classes > 2 else found[:, 1], expected)
    np.testing.assert_array_equal(
        model.predict_proba(table, raw_score=True, start_iteration=2, num_iteration=5),
        stock.predict(X, raw_score=True, start_iteration=2, num_iteration=5, num_threads=1),
    )


@pytest.mark.usefixtures("no_stock")
def test_sparse_rows_and_regressions():
    X, y = rows_with_gaps()
    X[np.abs(X) < 0.5] = 0
    matrix = scipy.sparse.csr_matrix(X)
    model = lgb_dp.DPLGBMRegressor(50.0, n_estimators=12, objective="poisson", n_jobs=1)
    model.fit(matrix, y, bounds=(-3, 5), label_bounds=(0, 2))
    stock = lgb.Booster(model_str=model.booster_.model_to_string())
    np.testing.assert_array_equal(model.predict(matrix), stock.predict(matrix, num_threads=1))


def test_a_booster_in_training_predicts_with_all_its_trees():
    X, y = rows_with_gaps()
    found = []

    def look(env):
        own, stock = env.model.predict(X), lgb.Booster(model_str=env.model.model_to_string()).predict(X)
        np.testing.assert_array_equal(own, stock)
        found.append(own)

    train(dataset(X, (y > 0).astype(float)), lgb_dp.NewtonBoost(50.0, 1e-5), 3, callbacks=[look])
    assert len(found) == 3
    assert (found[0] != found[2]).any()
