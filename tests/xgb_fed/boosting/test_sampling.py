"""Rows and columns of a tree: XGBoost given the same draws grows the same trees."""

import inspect

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from native_trees import read_trees
from vertical_training import assert_same_tree, parties_of, problem, quantile_matrix, stock, train
from xgb_fed.boosting.objectives import XGBoostObjective
from xgb_fed.boosting.sampling import Sampling, TreeColumns
from xgb_fed.ciphers.randomness import SecretStream

PARAMS = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 8, "base_score": 0.5}


def boost(booster, data, number, g, h):
    if "iteration" in inspect.signature(booster.boost).parameters:
        booster.boost(data, number, grad=g, hess=h)
    else:
        booster.boost(data, grad=g, hess=h)


def stream(seed):
    return SecretStream(seed.to_bytes(32, "little"))


@pytest.mark.parametrize("sampling", [{"subsample": 0.5}, {"goss": (0.2, 0.3)}], ids=str)
def test_booster_given_the_same_rows(sampling, monkeypatch):
    X, y = problem(missing=0.1)
    drawn = []
    draw = Sampling.draw_rows

    def remember(self, g, random, uniform=None):
        drawn.append(draw(self, g, random, uniform))
        return drawn[-1]

    monkeypatch.setattr(Sampling, "draw_rows", remember)
    parties = parties_of([X[:, 3:]])
    model = train({**PARAMS, **sampling, "random_state": 3}, X[:, :3], y, parties, 4)
    ours = read_trees(model.export_booster(parties))
    data = quantile_matrix(PARAMS, X, y)
    booster = xgboost.Booster({**PARAMS, "nthread": 1, "tree_method": "hist"}, [data])
    objective, margin = XGBoostObjective("binary:logistic"), np.zeros((len(y), 1), dtype=np.float32)
    for number, (sample, tree) in enumerate(zip(drawn, ours, strict=True)):
        assert 0 < sample.rows.sum() < len(y)
        g, h = (
            v[:, 0] * sample.factor * sample.rows for v in objective.gradients(margin, y, np.ones_like(y))
        )
        boost(booster, data, number, g, h)
        assert_same_tree(tree, read_trees(booster)[number], f"tree {number}")
        margin = booster.predict(data, output_margin=True).reshape(-1, 1)
    np.testing.assert_allclose(
        model.predict(X[:, :3], parties, output_margin=True), margin[:, 0], rtol=1e-5, atol=1e-6
    )


def test_xgboost_given_the_same_columns(monkeypatch):
    """The second draw leaves the active party without columns, the third the passive one."""
    X, y = problem(missing=0.1)
    draws = [np.array([0, 2, 4]), np.array([3, 5]), np.array([1, 2])]
    left = list(draws)

    def draw(self, columns, random, some_of=None):
        return TreeColumns(columns, (0.5, 1, 1), lambda among, count: left.pop(0))

    monkeypatch.setattr(Sampling, "draw_columns", draw)
    parties = parties_of([X[:, 3:]])
    model = train({**PARAMS, "colsample_bytree": 0.5}, X[:, :3], y, parties, 3)
    margin = np.zeros(len(y), dtype=np.float32)
    for columns, tree in zip(draws, read_trees(model.export_booster(parties)), strict=True):
        booster = stock(PARAMS, X[:, columns], y, 1, base_margin=margin)
        theirs = read_trees(booster)[0]
        theirs["split_indices"] = columns[theirs["split_indices"]]
        assert_same_tree(tree, theirs)
        data = xgboost.DMatrix(X[:, columns])
        data.set_base_margin(margin)
        margin = booster.predict(data, output_margin=True)


@given(st.integers(1, 300), st.floats(0.05, 0.6), st.floats(0.05, 0.4), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_goss(n_rows, top, other, seed):
    g = np.random.default_rng(seed).normal(size=(n_rows, 2)).astype(np.float32)
    sample = Sampling(goss=(top, other)).draw_rows(g, stream(seed))
    n_top, n_other = max(1, round(top * n_rows)), max(1, round(other * n_rows))
    assert sample.rows.sum() == n_top + min(n_other, n_rows - n_top)
    strength = np.abs(g).sum(axis=1)
    sure = sample.rows & (sample.factor == 1)
    if (~sure).any():
        assert strength[sure].min() >= strength[~sure].max()
    assert set(np.unique(sample.factor[sample.rows & ~sure])) <= {np.float32((1 - top) / other)}


def test_goss_sums_are_right_on_average():
    g = np.random.default_rng(0).normal(size=(400, 1)).astype(np.float32)
    random = stream(0)
    sampling = Sampling(goss=(0.2, 0.2))
    samples = [sampling.draw_rows(g, random) for _ in range(400)]
    sums = [(g[:, 0] * s.rows * s.factor).sum() for s in samples]
    assert abs(np.mean(sums) - g.sum()) < 5 * np.std(sums) / np.sqrt(400)


@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_sample_too_small_gives_a_tree_without_splits(n_rows, monkeypatch):
    from xgb_fed.boosting.sampling import Sample

    X, y = problem(n=60)
    none = Sample(np.arange(60) < n_rows, np.ones(60, dtype=np.float32))
    monkeypatch.setattr(Sampling, "draw_rows", lambda self, g, random, uniform=None: none)
    model = train({**PARAMS, "colsample_bytree": 0.5}, X[:, :3], y, parties_of([X[:, 3:]]), 2)
    assert [len(tree) for tree in model.trees] == [1, 1]
    assert n_rows or model.trees[0].value == [[0.0]]


def test_columns_are_drawn_without_replacement():
    random = stream(0)
    for n_columns, share, count in [(10, 0.3, 3), (3, 0.1, 1), (7, 1.0, 7)]:
        columns = Sampling(colsample_bytree=share).draw_columns(np.arange(n_columns), random).of_tree
        assert len(set(columns.tolist())) == count
        assert columns.tolist() == sorted(columns)
