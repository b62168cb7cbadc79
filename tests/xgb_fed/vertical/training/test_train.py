"""Default mode: the trees are those of stock XGBoost on the pooled columns."""

import numpy as np
import pytest
import scipy.sparse
import xgboost

import xgb_fed
from gbdt_parties.errors import InvalidDataError, ProtocolError
from vertical_training import assert_same_trees, parties_of, parts, problem, stock, text_of, train
from xgb_fed import OkamotoUchiyama, Paillier
from xgb_fed.boosting.features import bin_features, read_columns
from xgb_fed.errors import UnsupportedParameterError

BASE = {"max_depth": 4, "max_bin": 16}
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


def xgb_params(case):
    return {"objective": "binary:logistic", **BASE, **case}


def compare(params, X, y, bounds, weight=None, rounds=3):
    active, *passive = parts(X, *bounds)
    parties = parties_of(passive)
    model = train(params, active if active.shape[1] else None, y, parties, rounds, weight)
    ours, theirs = model.export_booster(parties), stock(params, X, y, rounds, weight)
    assert_same_trees(ours, theirs)
    return model, parties, theirs


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


@pytest.mark.parametrize("bounds", [(2, 4, 5), (0,), (0, 3), (5,)], ids=str)
def test_any_division_of_the_columns(bounds):
    """Three passive parties; an active party without features; one with all but one."""
    X, y = problem(missing=0.1, n_features=6)
    compare(xgb_params({}), X, y, bounds)


def test_an_active_party_alone():
    X, y = problem(missing=0.1)
    compare(xgb_params({}), X, y, ())


def test_equal_columns_of_different_parties():
    """Equal gains everywhere: the first column wins, as in XGBoost, across and within parties."""
    X, y = problem(n_features=3, missing=0.1)
    compare(xgb_params({}), np.concatenate([X, X, X[:, ::-1]], axis=1), y, (3, 6))
    compare(xgb_params({}), np.concatenate([X, X, X[:, ::-1]], axis=1), y, (0, 5))


def test_mirrored_columns_and_few_values():
    """Many equal gains within a column, and between a column and its mirror image."""
    rng = np.random.default_rng(2)
    X = rng.integers(0, 4, (300, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = np.nan
    y = (np.nansum(X[:, :2], axis=1) > 3).astype(np.float32)
    compare(xgb_params({}), np.concatenate([X, -X], axis=1), y, (3, 5))


def test_columns_without_a_value_and_of_one_value():
    X, y = problem(missing=0.1)
    X[:, 1] = np.nan
    X[:, 4] = np.nan
    X[:, 5] = 7.0
    compare(xgb_params({}), X, y, (3,))
    X[::2, 5] = np.nan
    compare(xgb_params({}), X, y, (3,))


def test_sparse_columns():
    """Entries that are not stored are missing, stored zeros are zeros."""
    X, y = problem()
    rng = np.random.default_rng(3)
    X[rng.random(X.shape) < 0.7] = 0
    sparse = scipy.sparse.csr_matrix(X)
    sparse.data[::9] = 0
    params = xgb_params({})
    parties = parties_of([sparse[:, 3:]])
    model = train(params, sparse[:, :3], y, parties)
    assert_same_trees(model.export_booster(parties), stock(params, sparse, y))
    dense = sparse.toarray()
    dense[(sparse != 0).toarray() == 0] = np.nan
    stored = scipy.sparse.coo_matrix(sparse)
    dense[stored.row, stored.col] = stored.data
    got = model.predict(sparse[:, :3], parties)
    np.testing.assert_array_equal(model.predict(dense[:, :3], [parties[0].with_rows(dense[:, 3:])]), got)


def test_more_bins_than_a_byte_holds():
    """257 codes a feature, missing values included."""
    X, y = problem("reg:squarederror", n=1500, n_features=3, missing=0.1)
    compare({"objective": "reg:squarederror", "max_depth": 5, "max_bin": 256}, X, y, (1,), rounds=3)
    assert bin_features(read_columns(X[:, 1:]), 256).codes.dtype == np.uint16


@pytest.mark.parametrize(
    "scheme",
    [Paillier(512, True), OkamotoUchiyama(512, True), OkamotoUchiyama(1024, True)],
    ids=lambda s: f"{type(s).__name__}-{s.key_length}",
)
@pytest.mark.parametrize("extra", [{}, {"multi_output": True}], ids=["trees", "multi_output"])
def test_ciphers_give_the_same_model(scheme, extra):
    """The same text, to the last digit: a ciphertext sum is the sum of the integers that `Plain` adds."""
    objective = "multi:softprob" if extra else "binary:logistic"
    X, y = problem(objective, n=60, n_features=4, missing=0.1)
    params = {"objective": objective, "max_depth": 3, "max_bin": 6, **extra}
    params |= {"num_class": 3} if extra else {}
    texts = []
    for cipher in (None, scheme):
        parties = parties_of([X[:, 2:]])
        texts.append(text_of(train(params, X[:, :2], y, parties, 2, cipher=cipher)))
        splits = next(iter(parties[0]._splits_by_model.values()))
        texts.append(str(splits.__dict__))
    assert texts[:2] == texts[2:]


def test_equal_trainings_give_equal_models():
    X, y = problem(n=100)
    params = xgb_params({"subsample": 0.7, "colsample_bytree": 0.7, "random_state": 4})
    texts = {text_of(train(params, X[:, :3], y, parties_of([X[:, 3:]]))) for _ in range(2)}
    assert len(texts) == 1
    assert text_of(train({**params, "random_state": 5}, X[:, :3], y, parties_of([X[:, 3:]]))) not in texts


X, Y = problem(n=50)


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
        ({"active": np.array([["a", "b", "c"]] * 50)}, InvalidDataError, "must be numbers"),
        ({"active": X[:0, :3], "label": Y[:0]}, InvalidDataError, "no rows"),
        ({"active": X[:, :0], "parties": []}, InvalidDataError, "no columns"),
        ({"rounds": 0}, ValueError, "num_boost_round"),
        ({"rounds": 2.5}, ValueError, "num_boost_round"),
        ({"early_stopping_rounds": 3}, ValueError, "evaluation set"),
        (
            {
                "parties": parties_of(
                    [X[:, 3:], X[:, 3:]],
                )[:1]
                * 2
            },
            ValueError,
            "in common: .'party 0'",
        ),
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
        with pytest.raises(UnsupportedParameterError, match="one of them must be at least 4e-07"):
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
