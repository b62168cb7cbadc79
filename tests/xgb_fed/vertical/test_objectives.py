"""Every objective: the trees are those of stock XGBoost on the pooled columns."""

import warnings

import numpy as np
import pytest
import xgboost

import xgb_fed
from vertical_training import assert_same_trees, parties_of, parts
from xgb_fed.boosting.objectives import OBJECTIVES

BASE = {"max_depth": 4, "max_bin": 16, "nthread": 1}
N_ROWS = 300
INFO = ("label_lower_bound", "label_upper_bound", "qid", "base_margin")
PARAMETERS = {
    "reg:pseudohubererror": {"huber_slope": 2.0},
    "reg:quantileerror": {"quantile_alpha": 0.8},
    "reg:tweedie": {"tweedie_variance_power": 1.3},
    "multi:softprob": {"num_class": 3},
    "multi:softmax": {"num_class": 3},
    "survival:aft": {"aft_loss_distribution": "logistic", "aft_loss_distribution_scale": 1.2},
    "rank:ndcg": {"lambdarank_num_pair_per_sample": 6},
    "rank:map": {"lambdarank_pair_method": "mean"},
}


def problem(objective, missing=0.1, seed=0):
    """Columns, and what `ActiveData` takes besides, of rows that suit an objective."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 6)).astype(np.float32)
    score = X @ rng.uniform(0.5, 1, 6) / 2 + X[:, 0] * X[:, -1] + rng.normal(size=N_ROWS)
    X[rng.random(X.shape) < missing] = np.nan
    times = np.exp(score / 2) * rng.gamma(3, 1 / 3, N_ROWS)
    censored = rng.random(N_ROWS) < 0.3
    given = {
        "reg:logistic": 1 / (1 + np.exp(-score)),
        "count:poisson": rng.poisson(np.exp(score / 2)),
        "reg:tweedie": np.where(censored, 0, times),
        "reg:gamma": times,
        "reg:pseudohubererror": score,
        "reg:squaredlogerror": times,
        "survival:cox": np.where(censored, -times, times),
        "rank:map": score > 0.5,
    }
    kind = objective.split(":")[0]
    if objective in given:
        label = given[objective]
    elif kind in ("binary", "reg", "survival"):
        label = score > 0.3 if kind == "binary" else 10 + 3 * score
    else:
        label = np.digitize(score, [-0.4, 0.4])
    info = {"label": np.asarray(label, dtype=np.float32)}
    if objective == "survival:aft":
        info |= {"label": None, "label_lower_bound": times}
        info["label_upper_bound"] = np.where(censored, np.inf, times * 1.1)
    if kind == "rank":
        info["qid"] = np.sort(rng.integers(0, 20, N_ROWS))
    return X, info


def params_of(objective, **others):
    return {"objective": objective, **BASE, **PARAMETERS.get(objective, {}), **others}


def federated(params, X, info, rounds=4, bounds=(3,), **kwargs):
    active, *passive = parts(X, *bounds)
    parties = parties_of(passive)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
        data = xgb_fed.ActiveData(active, **info)
        options = {"cipher": xgb_fed.Plain(), "verbose_eval": False, **kwargs}
        return xgb_fed.train(params, data, parties, rounds, **options), parties


def pooled_matrix(params, X, info):
    """Cuts of unweighted rows, as parties make them: everything else comes after."""
    matrix = xgboost.QuantileDMatrix(X, max_bin=params["max_bin"])
    matrix.set_info(**{name: value for name, value in info.items() if value is not None})
    return matrix


def pooled(params, X, info, rounds=4, obj=None):
    # XGBoost 2.0.0's own evaluation fails for some objectives, which `xgboost.train` calls.
    matrix = pooled_matrix(params, X, info)
    booster = xgboost.Booster(params, cache=[matrix])
    for number in range(rounds):
        booster.update(matrix, number, obj)
    return booster


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_trees_are_those_of_xgboost(objective, weighted):
    params = params_of(objective)
    X, info = problem(objective)
    if weighted:
        n_weights = len(np.unique(info["qid"])) if "qid" in info else N_ROWS
        info["weight"] = np.random.default_rng(1).exponential(size=n_weights).astype(np.float32)
    model, parties = federated(params, X, info)
    theirs = pooled(params, X, info)
    ours = model.export_booster(parties)
    assert_same_trees(ours, theirs)
    expected = theirs.predict(xgboost.DMatrix(X))
    np.testing.assert_allclose(model.predict(X[:, :3], parties), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.predict(xgboost.DMatrix(X)), expected, rtol=1e-5, atol=1e-6)
