"""Default mode: the trees are those of stock XGBoost on the pooled columns."""

import numpy as np
import pytest
import xgboost

import xgb_fed
from compared_trees import BASE, X, Y, compare, xgb_params
from gbdt_parties.errors import InvalidDataError, ProtocolError
from vertical_training import parties_of, parts, problem, stock, text_of, train
from xgb_fed.errors import UnsupportedParameterError

CASES = {
    "binary": {},
    "regression": {"objective": "reg:squarederror"},
    "softprob": {"objective": "multi:softprob", "num_class": 3},
    "alpha": {"reg_alpha": 3.0},
    # Without lambda, a split of a node of one label gains nothing but what float32 rounds: gamma ends it.
    "lambda 0": {"reg_lambda": 0.0, "min_child_weight": 0.5, "gamma": 1e-3},
    "delta step": {"max_delta_step": 0.2},
    "delta step and alpha": {"max_delta_step": 0.2, "reg_alpha": 1.0},
    "gamma": {"gamma": 2.0},
    "child weight": {"min_child_weight": 8.0},
    "scale_pos_weight": {"scale_pos_weight": 3.5},
    "base_score": {"base_score": 0.3},
    "base_score of regression": {"objective": "reg:squarederror", "base_score": 0.25},
    "learning rate": {"learning_rate": 0.07},
    "256 bins": {"max_bin": 256},
}


@pytest.mark.parametrize(
    ("case", "missing"),
    [(case, 0.2) for case in CASES.values()] + [(CASES[name], 0.0) for name in ("binary", "softprob")],
    ids=[*CASES, "binary, nothing missing", "softprob, nothing missing"],
)
def test_trees_are_those_of_xgboost(case, missing):
    params = xgb_params(case)
    X, y = problem(params["objective"], missing=missing)
    model, parties, theirs = compare(params, X, y, (3,))
    margin = theirs.predict(xgboost.DMatrix(X), output_margin=True)
    got = model.predict(X[:, :3], parties, output_margin=True)
    np.testing.assert_allclose(got, margin, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror", "multi:softprob"])
def test_sample_weights(objective):
    params = {"objective": objective, **BASE} | ({"num_class": 3} if "multi" in objective else {})
    X, y = problem(objective, missing=0.1)
    weight = np.random.default_rng(1).exponential(size=len(y)).astype(np.float32)
    weight[:40] = 0
    compare(params, X, y, (3,), weight)


def bad(params=None, active=None, label=Y, parties=None, rounds=2, weight=None, **kwargs):
    parties = parties_of([X[:, 3:]]) if parties is None else parties
    return train(
        xgb_params(params or {}),
        X[:, :3] if active is None else active,
        label,
        parties,
        rounds,
        weight,
        **kwargs,
    )


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"label": Y[:-1]}, InvalidDataError, "49 labels"),
        ({"label": Y + 1}, InvalidDataError, "must be in"),
        ({"label": np.where(Y == 1, np.nan, Y)}, InvalidDataError, "missing or infinite"),
        ({"label": ["a"] * 50}, InvalidDataError, "label of active_data"),
        ({"label": np.stack([Y, Y], axis=1)}, InvalidDataError, "shape"),
        ({"weight": -np.ones(50)}, InvalidDataError, "weight of active_data"),
        ({"weight": np.zeros(50)}, InvalidDataError, "not all zero"),
        ({"weight": np.ones(49)}, InvalidDataError, "49 weights"),
        ({"active": np.full((50, 3), np.inf)}, InvalidDataError, "infinite"),
        ({"active": X[:, 0]}, InvalidDataError, "dimensions"),
        ({"active": np.array([["a", "b", "c"]] * 50)}, InvalidDataError, "must hold numbers"),
        ({"active": X[:0, :3], "label": Y[:0]}, InvalidDataError, "no rows"),
        ({"active": X[:, :0], "parties": []}, InvalidDataError, "no columns"),
        ({"rounds": 0}, ValueError, "num_boost_round"),
        ({"rounds": 2.5}, ValueError, "num_boost_round"),
        ({"early_stopping_rounds": 3}, ValueError, "evaluation set"),
        ({"parties": parties_of([X[:, 3:], X[:, 3:]])[:1] * 2}, ValueError, "in common: .'party 0'"),
        ({"parties": [(X, Y)]}, TypeError, "LocalParty"),
        ({"parties": parties_of([X[:40, 3:]])}, ProtocolError, "'party 0' refuses: .*50 rows, this one 40"),
        ({"cipher": "paillier"}, TypeError, "cipher"),
        ({"cipher": xgb_fed.Paillier}, TypeError, "cipher"),
        ({"evals": [(xgb_fed.ActiveData(X[:, :2], Y), "a")]}, InvalidDataError, "other columns"),
        ({"evals": [(xgb_fed.ActiveData(X[:, :3], Y), "a")]}, ProtocolError, "evaluation sets"),
        ({"evals": [(xgb_fed.ActiveData(X[:, :3], Y), "a-b")]}, ValueError, "names"),
    ],
)
def test_bad_input(arguments, error, words):
    with pytest.raises(error, match=words):
        bad(**arguments)


def test_one_party_in_place_of_a_sequence():
    with pytest.raises(TypeError, match="parties"):
        bad(parties=parties_of([X[:, 3:]])[0])


@pytest.mark.parametrize(
    ("params", "error", "named"),
    [
        ({"objective": "reg:linear"}, UnsupportedParameterError, "objective"),
        ({"booster": "dart"}, UnsupportedParameterError, "booster"),
        ({"tree_method": "exact"}, UnsupportedParameterError, "tree_method"),
        ({"monotone_constraints": (2, 0)}, ValueError, "monotone_constraints"),
        ({"colsample_bylevel": 1.5}, ValueError, "colsample_bylevel"),
        ({"colsample_bynode": 0}, ValueError, "colsample_bynode"),
        ({"scale_pos_weight": 2, "objective": "reg:squarederror"}, UnsupportedParameterError, "scale_pos"),
        ({"tree_mode": "mixed"}, UnsupportedParameterError, "tree_mode"),
        ({"max_depth": -1}, ValueError, "max_depth"),
        ({"max_bin": 1}, ValueError, "max_bin"),
        ({"max_bin": 70_000}, ValueError, "max_bin"),
        ({"learning_rate": 0}, ValueError, "learning_rate"),
        ({"gamma": -1}, ValueError, "gamma"),
        ({"reg_lambda": float("nan")}, ValueError, "reg_lambda"),
        ({"reg_alpha": "1"}, ValueError, "reg_alpha"),
        ({"base_score": 1.0}, ValueError, "base_score"),
        ({"base_score": [0.1, 0.2]}, ValueError, "base_score"),
        ({"subsample": 0}, ValueError, "subsample"),
        ({"subsample": "all"}, ValueError, "subsample"),
        ({"colsample_bytree": 1.5}, ValueError, "colsample_bytree"),
        ({"goss": (0.5, 0.6)}, ValueError, "goss"),
        ({"goss": (0.2, 0.1), "subsample": 0.5}, ValueError, "goss"),
        ({"goss": 0.2}, ValueError, "goss"),
        ({"goss": (0.2,)}, ValueError, "goss"),
        ({"num_class": 3}, ValueError, "num_class"),
        ({"multi_output": True}, ValueError, "multi_output"),
        ({"objective": "multi:softprob", "num_class": 1}, ValueError, "num_class"),
        ({"tree_mode": "mix", "trees_per_party": 0}, ValueError, "trees_per_party"),
        ({"tree_mode": "mix", "trees_per_party": 1.5}, ValueError, "trees_per_party"),
        ({"tree_mode": "layered", "active_depth": 4}, ValueError, "active_depth"),
        ({"tree_mode": "layered", "active_depth": "2"}, ValueError, "active_depth"),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"eta": 0.1, "learning_rate": 0.2}, ValueError, "learning_rate"),
    ],
    ids=str,
)
def test_parameters_that_are_refused(params, error, named):
    with pytest.raises(error, match=named):
        bad(params)


def test_parameters_that_are_none_or_without_effect():
    params = {"eta": 0.1, "learning_rate": None, "n_jobs": 4, "tree_method": "hist", "max_leaves": 0}
    params |= {"colsample_bynode": 1.0, "interaction_constraints": None}
    assert text_of(bad(params)) == text_of(bad({"learning_rate": 0.1}))


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_rows_without_weight_break_ties_as_in_xgboost(seed):
    """XGBoost floors their hessians at 1e-16, near the unit of the grid that sums are made on."""
    X, y = problem("multi:softprob", n=16, n_features=4, seed=seed)
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "max_bin": 8, "base_score": 0.5}
    weight = np.random.default_rng(seed).choice([0.0, 1.0, 2.0], 16).astype(np.float32)
    compare({**params, "min_child_weight": 0.1}, X, y, (2,), weight)


@pytest.mark.parametrize("lightest", [0.0, 1e-17])
def test_rows_without_weight_are_refused_where_xgboost_splits_them(lightest):
    """Without `min_child_weight`, XGBoost's rounding of sums with 1e-16 in them decides."""
    X, y = problem("multi:softprob", n=16, n_features=4, seed=20)
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "max_bin": 8, "base_score": 0.5}
    weight = np.random.default_rng(20).choice([lightest, 1.0, 2.0], 16)
    with pytest.raises(UnsupportedParameterError, match="min_child_weight=0 is not supported"):
        train({**params, "min_child_weight": 0}, X[:, :2], y, parties_of([X[:, 2:]]), 3, weight=weight)
    binary = xgb_params({"min_child_weight": 0, "base_score": 0.5})
    compare(binary, X, (y > 0).astype(np.float32), (2,), weight)


def test_saturated_rows_are_refused_where_their_smallest_hessians_would_decide():
    """Before, with 3 of 400 labels positive, trees differed from the fourth on."""
    X = np.random.default_rng(0).integers(0, 4, (400, 5)).astype(np.float32)
    y = np.zeros(400, dtype=np.float32)
    y[[17, 101, 333]] = 1
    params = {"learning_rate": 0.3, "reg_lambda": 0.0, "min_child_weight": 0.0, "max_bin": 16, "max_depth": 4}
    for objective in ({"objective": "binary:logistic"}, {"objective": "multi:softprob", "num_class": 2}):
        with pytest.raises(UnsupportedParameterError, match="at least 4e-07"):
            train({**params, **objective}, X[:, :2], y, parties_of([X[:, 2:]]), 3)
    for enough in ({"reg_lambda": 1e-6}, {"min_child_weight": 1e-6}):
        compare(xgb_params({**params, **enough}), X, y, (2,), rounds=10)
    compare(xgb_params({**params, "objective": "reg:squarederror"}), X, y, (2,))


@pytest.mark.parametrize("scale", [1e-16, 1e-30])
def test_squared_error_keeps_hessians_of_whatever_size(scale):
    """Before, those of rows without a gradient were taken for XGBoost's floor: leaves were off by 0.2."""
    X, _ = problem(n=300, n_features=5)
    y = np.where(X[:, 0] + X[:, 3] * X[:, 1] > 0.5, 2.0, 0.0).astype(np.float32)
    params = {"objective": "reg:squarederror", "base_score": 0.0, "max_depth": 3, "max_bin": 16}
    active, *passive = parts(X, 2)
    parties, weight = parties_of(passive), np.full(300, scale, dtype=np.float32)
    params |= {"reg_lambda": 0.0, "min_child_weight": 0.0}
    ours = train(params, active, y, parties, 3, weight).export_booster(parties)
    theirs = stock(params, X, y, 3, weight)
    matrix = xgboost.DMatrix(X)
    np.testing.assert_array_equal(
        ours.predict(matrix, pred_leaf=True), theirs.predict(matrix, pred_leaf=True)
    )
    np.testing.assert_allclose(ours.predict(matrix), theirs.predict(matrix), rtol=1e-6, atol=1e-6)
