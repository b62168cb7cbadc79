"""Gain and weights against trees of one split that XGBoost itself grows: equal to the last bit."""

import numpy as np
import pytest
import xgboost
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gbdt_hosts.xgboost.versions import light_nodes_have_weight
from native_trees import read_trees
from xgb_fed.boosting.split_gain import MIN_LOSS_CHANGE, NodeBounds, SplitGain

N_BINS = 5
DEFAULTS = {
    "reg_lambda": 1.0,
    "reg_alpha": 0.0,
    "gamma": 0.0,
    "min_child_weight": 1.0,
    "max_delta_step": 0.0,
    "learning_rate": 0.3,
}
SOME = st.sampled_from([0.0, 0.1, 0.7, 1.0, 3.3])
PARAMS = st.fixed_dictionaries(
    {
        "reg_lambda": SOME | st.just(25.0),
        "reg_alpha": st.just(0.0) | SOME,
        "gamma": SOME,
        "min_child_weight": SOME,
        "max_delta_step": st.just(0.0) | SOME,
        "learning_rate": st.sampled_from([0.3, 0.07, 1.0]),
    }
)


def rounded(params):
    return SplitGain(**{name: np.float32(value) for name, value in params.items()})


def rows_of(seed, scale=0, n_targets=1, n=60):
    """A column of few values, targets and weights: g has 24 bits, so its sums are exact in any order."""
    random = np.random.default_rng(seed)
    column = random.integers(0, N_BINS, n)
    y = random.integers(-(2**11), 2**11, (n, n_targets)) / 2**9 + (column[:, None] > 2) * random.integers(
        -3, 4
    )
    return column, np.ldexp(y, scale), random.integers(1, 2**12, n) / 2**10


def stump(column, y, weight, params, n_constant=0):
    """XGBoost's tree of depth 1; g is −y·weight, h the weight."""
    columns = np.stack([column, *[np.zeros_like(column)] * n_constant], axis=1).astype(np.float32)
    matrix = xgboost.QuantileDMatrix(columns, label=y, max_bin=16)
    matrix.set_weight(weight)
    fixed = {"objective": "reg:squarederror", "base_score": 0, "max_depth": 1, "tree_method": "hist"}
    if y.shape[1] > 1:
        fixed["multi_strategy"] = "multi_output_tree"
    return read_trees(xgboost.train({**fixed, **params, "max_bin": 16, "nthread": 1}, matrix, 1))[0]


def sums_to_the_left(column, values):
    """One row for each of the N_BINS − 1 splits."""
    return np.stack([values[column <= b].sum(axis=0) for b in range(N_BINS - 1)])


@given(st.integers(0, 10**6), st.sampled_from([0, 0, 0, -9, 57, 58, 60, 80]), PARAMS)
@example(0, 0, DEFAULTS)
@example(1, 0, {**DEFAULTS, "gamma": 1e6})
@example(2, 0, {**DEFAULTS, "min_child_weight": 20.0})
@example(3, 0, {**DEFAULTS, "max_delta_step": 0.1, "reg_alpha": 2.0})
@example(172302, 57, {**DEFAULTS, "min_child_weight": 0.0, "reg_lambda": 25.0})
@settings(max_examples=60)
def test_one_split_is_xgboost_s(seed, scale, params):
    column, y, weight = rows_of(seed, scale)
    g, h = -y * weight[:, None], weight[:, None]
    assert (g.astype(np.float32) == g).all()
    left_g, left_h = sums_to_the_left(column, g), sums_to_the_left(column, h)
    own = rounded(params)
    change = own.loss_changes(left_g, left_h, g.sum(axis=0), h.sum(axis=0))
    assert change.dtype == np.float32
    best = int(np.argmax(change))
    theirs = stump(column, y, weight, params)
    splits = theirs["left_children"][0] >= 0
    assert own.is_worth(change[best]) == splits
    root = own.weights(g.sum(axis=0), h.sum(axis=0)) * own.learning_rate
    if not splits:
        assert np.float32(theirs["split_conditions"][0]) == root[0]
        return
    assert theirs["split_conditions"][0] == best + 1
    assert np.float32(theirs["loss_changes"][0]) == change[best]
    for child, (a, b) in enumerate(
        [(left_g[best], left_h[best]), (g.sum(axis=0) - left_g[best], h.sum(axis=0) - left_h[best])], start=1
    ):
        value = own.weights(a, b) * own.learning_rate
        assert np.float32(theirs["split_conditions"][child]) == value[0]


@given(st.integers(0, 10**6), st.sampled_from([-1, 0, 1]), PARAMS)
@example(3, 1, {**DEFAULTS, "reg_alpha": 2.0})
@example(4, 1, {**DEFAULTS, "reg_alpha": 2.0, "max_delta_step": 0.1, "reg_lambda": 0.0})
@settings(max_examples=40)
def test_one_constrained_split_is_xgboost_s(seed, direction, params):
    column, y, weight = rows_of(seed)
    g, h = -y * weight[:, None], weight[:, None]
    left_g, left_h = sums_to_the_left(column, g), sums_to_the_left(column, h)
    own, bounds, directions = rounded(params), NodeBounds(), np.full(len(left_g), direction)
    change = own.loss_changes(left_g, left_h, g.sum(axis=0), h.sum(axis=0), bounds, directions)
    best = int(np.argmax(change))
    # The second column, which is constant, keeps constraints on where the first column has none.
    theirs = stump(column, y, weight, {**params, "monotone_constraints": (direction, 1)}, n_constant=1)
    assert own.is_worth(change[best]) == (theirs["left_children"][0] >= 0)
    if theirs["left_children"][0] >= 0:
        assert theirs["split_conditions"][0] == best + 1
        assert np.float32(theirs["loss_changes"][0]) == change[best]


def test_too_little_hessian_on_a_side_is_no_candidate():
    own = rounded({**DEFAULTS, "min_child_weight": 2.0})
    left_h = np.array([[0.0], [1.9], [2.0], [5.0], [8.0], [8.1], [10.0]])
    change = own.loss_changes(np.full((7, 1), -3.0), left_h, np.array([1.0]), np.array([10.0]))
    assert np.isfinite(change).tolist() == [False, False, True, True, True, False, False]
    without = rounded({**DEFAULTS, "min_child_weight": 0.0, "reg_lambda": 0.0})
    change = without.loss_changes(np.full((7, 1), -3.0), left_h, np.array([1.0]), np.array([10.0]))
    assert np.isfinite(change).tolist() == [False, True, True, True, True, True, False]
    assert without.weights(np.array([3.0]), np.array([0.0])).tolist() == [0.0]


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.just(0.0) | st.floats(1e-6, 1e6)), min_size=1, max_size=10),
    PARAMS,
)
def test_weights_keep_their_bounds(sums, params):
    g, h = np.array(sums).T
    own = rounded(params)
    weight = own.weights(g, h)
    assert np.isfinite(weight).all()
    assert (weight * g <= 0).all()
    assert (weight[(h == 0) | (np.abs(g) <= own.reg_alpha)] == 0).all()
    light = (h > 0) & (h < own.min_child_weight) & (np.abs(g) > own.reg_alpha)
    assert light_nodes_have_weight() or (weight[light] == 0).all()
    if own.max_delta_step:
        assert (np.abs(weight) <= own.max_delta_step).all()


@pytest.mark.parametrize(
    ("gamma", "change", "worth"),
    [
        (0.0, MIN_LOSS_CHANGE, False),
        (0.0, np.nextafter(MIN_LOSS_CHANGE, np.float32(1)), True),
        (2.0, np.float32(2), True),
        (2.0, np.nextafter(np.float32(2), np.float32(0)), False),
        (0.0, np.float32(-np.inf), False),
        (0.0, np.float32(np.nan), False),
    ],
)
def test_what_is_worth_a_split(gamma, change, worth):
    assert rounded({**DEFAULTS, "gamma": gamma}).is_worth(change) == worth
