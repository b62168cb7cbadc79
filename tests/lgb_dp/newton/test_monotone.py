"""Monotone constraints: kept by every prediction, and free of privacy cost."""

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lgb_dp
from lgb_dp.boosting.params import training_parameters
from lgb_dp.data.bins import public_bins
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.monotone import MonotoneConstraints
from lgb_dp.newton.splits.random import CyclicSplits, RandomSplits
from small_training import dataset

DELTA = 1e-5


def rows_of(n, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-3, 3, size=(n, 4))
    # Neither rises nor falls with any feature.
    score = np.sin(2 * X[:, 0]) - X[:, 1] ** 2 / 3 + X[:, 2] * X[:, 3] / 3
    return X, (score + random.normal(size=n) * 0.3 > 0).astype(float)


def trained(n_rounds=40, constraints=(1, -1, 0, 0), data=None, **params):
    X, y = rows_of(2000)
    params = {"objective": "binary", "verbosity": -1, "monotone_constraints": constraints, **params}
    init_model = params.pop("init_model", None)
    return lgb.train(
        params,
        dataset(X, y, free_raw_data=False) if data is None else data,
        n_rounds,
        init_model=init_model,
        callbacks=[lgb_dp.NewtonBoost(4.0, DELTA)],
    )


def steps(booster, feature, n=300):
    """How predictions of random rows change as one feature rises from its lower to its upper bound."""
    X = np.random.default_rng(5).uniform(-3, 3, size=(n, 4))
    X[: n // 4, (feature + 1) % 4] = np.nan
    grid = np.linspace(-3.2, 3.2, 41)
    scores = []
    for x in grid:
        X[:, feature] = x
        scores.append(booster.predict(X, raw_score=True))
    return np.diff(scores, axis=0)


@pytest.mark.parametrize("params", [{}, {"max_depth": 1}, {"max_depth": 5}, {"learning_rate": 0.9}])
def test_predictions_keep_to_constraints(params):
    booster = trained(**params)
    assert (steps(booster, 0) >= -1e-9).all()
    assert (steps(booster, 1) <= 1e-9).all()
    # Enough trees that each feature has many splits, whatever is drawn.
    free = trained(200, constraints=None, **params)
    assert (steps(free, 0) < -1e-6).any(), "the data alone would not do"
    assert (steps(free, 1) > 1e-6).any()


@pytest.mark.parametrize("structure", ["random", "cyclic"])
def test_all_kinds_of_trees_keep_to_constraints(structure):
    X, y = rows_of(1000)
    booster = lgb.train(
        {"objective": "binary", "verbosity": -1, "monotone_constraints": "1,-1,0,0"},
        dataset(X, y, max_bin=32),
        30,
        callbacks=[lgb_dp.NewtonBoost(4.0, DELTA, structure=structure)],
    )
    assert (steps(booster, 0) >= -1e-9).all()
    assert (steps(booster, 1) <= 1e-9).all()


@pytest.mark.parametrize("objective", ["regression", "multiclass"])
def test_every_objective_keeps_to_constraints(objective):
    X, y = rows_of(1000)
    y = y + (X[:, 2] > 0) if objective == "multiclass" else X[:, 0] * X[:, 1] + y
    extra = {"num_class": 3} if objective == "multiclass" else {}
    data = dataset(X, y, label_bounds=None if extra else (-10, 10))
    booster = trained(30, data=data, objective=objective, **extra)
    assert (steps(booster, 0) >= -1e-9).all()
    assert (steps(booster, 1) <= 1e-9).all()


def test_constraints_cost_nothing():
    assert trained(5).privacy.epsilon == trained(5, constraints=None).privacy.epsilon
    assert trained(5).privacy.private


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.lists(st.integers(-1, 1), min_size=3, max_size=3))
def test_leaf_values_are_ordered_at_every_constrained_node(seed, depth, signs):
    bins = public_bins(np.zeros((1, 3)), ("a", "b", "c"), (0, 1), 16, None, None)
    random = np.random.default_rng(seed)
    for source in (RandomSplits(bins, depth), CyclicSplits(bins)):
        tree = source.draw(SecureRandom(seed))
        n_leaves = len(tree.feature) + 1
        value, weight = random.normal(size=(n_leaves, 2)), random.uniform(0.1, 5, size=(n_leaves, 2))
        held = MonotoneConstraints(signs, bins).hold(tree, value, weight)
        assert held.min() >= value.min() - 1e-12
        assert held.max() <= value.max() + 1e-12
        for node in range(len(tree.feature)):
            level = (node + 1).bit_length() - 1
            size = n_leaves >> level
            first = (node + 1 - 2**level) * size
            left, right = held[first : first + size // 2], held[first + size // 2 : first + size]
            sign = signs[tree.feature[node]]
            if sign > 0:
                assert (left.max(axis=0) <= right.min(axis=0) + 1e-12).all()
            elif sign < 0:
                assert (left.min(axis=0) >= right.max(axis=0) - 1e-12).all()


def test_values_that_keep_to_the_constraints_stay():
    bins = public_bins(np.zeros((1, 1)), ("a",), (0, 1), 8, None, None)
    tree = CyclicSplits(bins).draw(SecureRandom(0))
    value = np.linspace(0, 1, len(tree.feature) + 1)[:, None]
    weight = np.ones_like(value)
    np.testing.assert_allclose(MonotoneConstraints([1], bins).hold(tree, value, weight), value)
    flat = MonotoneConstraints([-1], bins).hold(tree, value, weight)
    np.testing.assert_allclose(flat, 0.5, atol=1e-9)


@pytest.mark.parametrize("constraints", [[1, 0, 0, 2], "a,b", "1, -1,0", [0.5, 0, 0, 0], 3])
def test_malformed_constraints_are_refused(constraints):
    with pytest.raises(lgb_dp.InvalidArgumentError, match="monotone_constraints"):
        training_parameters({"monotone_constraints": constraints}, 255)


@pytest.mark.parametrize("constraints", [None, "", [], [0, 0], "0,0", (0.0, -0.0)])
def test_constraints_of_nothing_but_zeros_are_none(constraints):
    assert training_parameters({"monotone_constraints": constraints}, 255).monotone == ()
    assert training_parameters({"monotonic_cst": "1,-1,0"}, 255).monotone == (1, -1, 0)


def test_constraints_must_be_as_many_as_features():
    bins = public_bins(np.zeros((1, 3)), ("a", "b", "c"), (0, 1), 16, None, None)
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"monotone_constraints has 2 values; data.*3"):
        MonotoneConstraints([1, 0], bins)
    # LightGBM itself says so before training begins.
    with pytest.raises(lgb.basic.LightGBMError, match="monotone_constraints"):
        trained(1, [1, 0])


def test_a_constrained_categorical_feature_is_refused_before_anything_is_spent():
    X, y = rows_of(500)
    X[:, 0] = np.arange(500) % 3
    budget = lgb_dp.Budget(1.0, DELTA)
    data = lgb_dp.Dataset(X, y, bounds=(-3, 3), categories={0: [0, 1, 2]})
    params = {"objective": "binary", "verbosity": -1, "monotone_constraints": [1, 0, 0, 0]}
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="categorical features"):
        lgb.train(params, data, 2, callbacks=[lgb_dp.NewtonBoost(1.0, DELTA, budget=budget)])
    assert budget.spent.mu == 0


def test_a_model_to_continue_from_must_keep_to_the_constraints():
    first = trained(5)
    again = trained(5, init_model=first)
    assert (steps(again, 0) >= -1e-9).all()
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="init_model"):
        trained(5, init_model=trained(5, constraints=None))


@pytest.mark.parametrize(
    "parameter", [{"monotone_constraints_method": "advanced"}, {"monotone_penalty": 1.0}], ids=str
)
def test_other_methods_are_refused(parameter):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=next(iter(parameter))):
        trained(1, **parameter)
    same = {"monotone_constraints_method": "basic", "monotone_penalty": 0}
    assert trained(1, **same).num_trees() == 1


def test_no_constraint_is_no_constraint_for_every_trainer():
    X, y = rows_of(200)
    params = {"objective": "binary", "verbosity": -1, "max_depth": 2}
    for trainer in (lgb_dp.DPBoost(1.0), lgb_dp.MBoost(1.0)):
        zeros = {**params, "monotone_constraints": [0, 0, 0, 0]}
        assert lgb.train(zeros, dataset(X, y), 1, callbacks=[trainer]).num_trees() == 1
        constrained = {**params, "monotone_constraints": [0, 0, 0, 1]}
        with pytest.raises(lgb_dp.UnsupportedParameterError, match="monotone_constraints"):
            lgb.train(constrained, dataset(X, y), 1, callbacks=[trainer])


def test_estimators_take_constraints():
    X, y = rows_of(1000)
    model = lgb_dp.DPLGBMClassifier(
        epsilon=4.0, delta=DELTA, n_estimators=20, monotone_constraints=[1, 0, 0, 0]
    )
    model.fit(X, y, bounds=(-3, 3))
    assert (steps(model.booster_, 0) >= -1e-9).all()
