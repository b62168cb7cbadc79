"""Trees grown by stock XGBoost on given gradients."""

import json

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from gbdt_hosts.xgboost.boosting import NativeTreeGrower, max_tree_bytes, read_tree, write_tree
from gbdt_hosts.xgboost.model import ScalarTree, booster_from_trees

PARAMS = {"max_depth": 4, "learning_rate": 0.3, "max_bin": 64, "gamma": 0.5}


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    X = random.standard_normal((2000, 5)).astype(np.float32)
    X[::7, 1] = np.nan
    y = (np.nan_to_num(X).sum(axis=1) + random.standard_normal(2000) > 0).astype(np.float32)
    return X, y


def test_trees_are_those_of_stock_training(rows):
    X, y = rows
    data = xgboost.QuantileDMatrix(X, label=y, max_bin=64)
    stock = {**PARAMS, "objective": "binary:logistic", "base_score": 0.5, "tree_method": "hist"}
    theirs = xgboost.train(stock, data, 5)
    grower = NativeTreeGrower(X, PARAMS)
    margin, models = np.zeros(len(y), dtype=np.float32), []
    for number in range(5):
        p = 1 / (1 + np.exp(-margin))
        model, values = grower.grow(p - y, np.maximum(p * (1 - p), 1e-16), number)
        margin += values
        models.append(model)
    ours = booster_from_trees(
        [read_tree(model, 5) for model in models],
        objective="binary:logistic",
        n_classes=1,
        n_features=5,
        base_score=[0.5],
        rounds=range(6),
    )
    plain = xgboost.DMatrix(X)
    assert ours.num_boosted_rounds() == 5
    assert np.allclose(ours.predict(plain), theirs.predict(plain), atol=1e-6)
    assert np.allclose(ours.predict(plain, output_margin=True), margin, atol=1e-6)


@pytest.mark.parametrize("depth", [0, 1, 8])
def test_no_tree_is_longer_than_the_longest(depth):
    n = 2 ** (depth + 1) - 1
    left = [2 * k + 1 if 2 * k + 1 < n else -1 for k in range(n)]
    right = [2 * k + 2 if 2 * k + 1 < n else -1 for k in range(n)]
    longest = -np.finfo(np.float32).tiny
    zeros = [0.0] * n
    tree = ScalarTree(left, right, zeros, [2**31 - 2] * n, [longest] * n, [True] * n, zeros, zeros, zeros, 0)
    assert len(write_tree(tree)) <= max_tree_bytes(depth)


def test_seed_decides_what_is_sampled(rows):
    X, y = rows
    params = {**PARAMS, "subsample": 0.5, "colsample_bytree": 0.5}
    g, h = 0.5 - y, np.full(len(y), 0.25, dtype=np.float32)
    first, again, other = (NativeTreeGrower(X, params).grow(g, h, seed)[0] for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_written_tree_has_the_same_splits_and_leaves_and_counts_leaves(rows):
    X, y = rows
    model, _ = NativeTreeGrower(X, PARAMS).grow(0.5 - y, np.full(len(y), 0.25, dtype=np.float32), 0)
    before, after = read_tree(model, 5), read_tree(write_tree(read_tree(model, 5)), 5)
    assert write_tree(after) == write_tree(before)
    assert after.parent == before.parent
    assert sum(before.sum_hessian[:1]) == 500
    for name in ("left", "right", "parent", "feature", "condition", "default_left"):
        assert getattr(before, name) == getattr(after, name)
    leaves = np.array(after.left) == -1
    assert after.sum_hessian[0] == leaves.sum() > 5
    assert (np.array(after.sum_hessian)[leaves] == 1).all()
    assert not np.any(after.loss_change)
    assert not np.any(after.weight)


def test_a_tree_does_not_depend_on_those_grown_before(rows):
    """Not even by the columns and rows that it draws: a process that starts again goes on with the same."""
    X, y = rows
    params = {**PARAMS, "subsample": 0.5, "colsample_bytree": 0.5}
    g, h = 0.5 - y, np.full(len(y), 0.25, dtype=np.float32)
    grower = NativeTreeGrower(X, params)
    grower.grow(-g, h, 1)
    later, fresh = grower.grow(g, h, 2), NativeTreeGrower(X, params).grow(g, h, 2)
    assert later[0] == fresh[0]
    np.testing.assert_array_equal(later[1], fresh[1])
    np.testing.assert_array_equal(
        later[1],
        xgboost.Booster(model_file=bytearray(later[0])).predict(xgboost.DMatrix(X), output_margin=True),
    )


@pytest.fixture(scope="module")
def model(rows):
    X, y = rows
    return NativeTreeGrower(X, PARAMS).grow(0.5 - y, np.full(len(y), 0.25, dtype=np.float32), 0)[0]


def test_a_split_on_a_missing_column_is_refused(model):
    with pytest.raises(ValueError, match="no column"):
        read_tree(model, 1)


def test_no_tree_with_a_flipped_byte_sends_rows_in_circles(model):
    """Whatever is changed, the tree is refused or one whose paths end."""
    random = np.random.default_rng(0)
    for place in random.integers(0, len(model), 400):
        changed = bytearray(model)
        changed[place] ^= 1 << int(random.integers(8))
        try:
            tree = read_tree(bytes(changed), 5)
        except ValueError:
            continue
        inner = np.flatnonzero(np.asarray(tree.left) >= 0)
        assert (np.asarray(tree.left)[inner] > inner).all()
        assert (np.asarray(tree.right)[inner] > inner).all()
        assert (np.asarray(tree.feature)[inner] < 5).all()


def test_more_than_one_tree_is_refused(rows):
    X, y = rows
    booster = xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, label=y), 2)
    with pytest.raises(ValueError, match="not a tree"):
        read_tree(bytes(booster.save_raw("json")), 5)


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 10_000])
def test_what_is_not_json_of_a_model_is_refused(data):
    with pytest.raises(ValueError, match="not a tree"):
        read_tree(data, 5)


def test_every_cut_is_refused(model):
    for end in range(len(model)):
        with pytest.raises(ValueError, match="not a tree"):
            read_tree(model[:end], 5)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", '"a"', "[]", "null"])
def test_a_value_that_is_no_finite_number_is_refused(model, value):
    raw = json.loads(model)
    raw["learner"]["gradient_booster"]["model"]["trees"][0]["split_conditions"][1] = "here"
    with pytest.raises(ValueError, match=r"a tree|finite"):
        read_tree(json.dumps(raw).replace('"here"', value).encode(), 5)


@given(st.binary(max_size=60))
def test_garbage_is_refused(data):
    with pytest.raises(ValueError, match="not a tree"):
        read_tree(data, 5)
