"""Our kernel's predictions are LightGBM's, bit for bit, whatever the model, the rows and the question."""

import pickle
from dataclasses import replace

import lightgbm
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_hosts.lightgbm import PrivateBooster
from gbdt_hosts.lightgbm import booster as private_booster
from gbdt_hosts.lightgbm.predicting import fast_predictor
from gbdt_hosts.lightgbm.text import model_text, tree_block
from host_trees import header, random_rows, random_tree, random_trees, text_of

SEEDS = st.integers(0, 2**32 - 1)
TINY = np.float32(1e-35)
EDGES = [0.0, -0.0, 5e-324, TINY, -TINY, np.nextafter(np.float64(TINY), 1), 1e-36, -0.5, 2.9, 1e300, np.inf]
"""Values that LightGBM may take for 0 or for a category."""


def edgy_rows(trees, seed, n_rows=280):
    rng = np.random.default_rng(seed)
    rows = random_rows(trees, seed, n_rows)
    is_edge = rng.random(rows.shape) < 0.2
    rows[is_edge] = rng.choice([*EDGES, -np.inf, np.nan], is_edge.sum())
    return rows


def expect_equal(text, rows, **how):
    """Compare bits, so that signs of zeros and NaN count."""
    first, n = how.pop("start_iteration", 0), how.pop("num_iteration", -1)
    fast = fast_predictor(text).predict(rows, first, n, how.get("raw_score", False), 1)
    native = lightgbm.Booster(model_str=text).predict(rows, first, n, num_threads=1, **how)
    assert fast.shape == native.shape
    assert fast.tobytes() == np.ascontiguousarray(native).tobytes()


@settings(max_examples=50, deadline=None)
@given(
    seed=SEEDS,
    n_iterations=st.integers(1, 4),
    objective=st.sampled_from(
        ["regression", "binary sigmoid:2", "poisson", "regression sqrt", "multiclass num_class:3"]
    ),
    kind=st.sampled_from([np.float64, np.float32, "F", "every second", "csr", "csc"]),
    raw_score=st.booleans(),
    first=st.integers(-1, 5),
    n=st.integers(-1, 5),
)
def test_random_models(seed, n_iterations, objective, kind, raw_score, first, n):
    n_classes = 3 if "num_class" in objective else 1
    trees = random_trees(seed, n_iterations * n_classes)
    text = model_text(header(n_classes, objective), [tree_block(tree) for tree in trees], {})
    rows = edgy_rows(trees, seed)
    if kind in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            rows = rows.astype(kind)
    elif kind == "F":
        rows = np.asfortranarray(rows)
    elif kind == "every second":
        rows = np.repeat(rows, 2, axis=0)[::2]
    else:
        rows[np.random.default_rng(seed).random(rows.shape) < 0.5] = 0
        rows = (scipy.sparse.csr_matrix if kind == "csr" else scipy.sparse.csc_matrix)(rows)
    expect_equal(text, rows, raw_score=raw_score, start_iteration=first, num_iteration=n)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.float16])
def test_other_types_are_read_as_lightgbm_reads_them(dtype):
    trees = random_trees(5, 4)
    rows = (
        np.random.default_rng(5).integers(0, 2 ** (15 if dtype is np.float16 else 25), (300, 4)).astype(dtype)
    )
    expect_equal(text_of(trees), rows)


def stock_model(objective="binary", **params):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).round(2)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 3] = rng.integers(0, 40, 600)
    X[::7, 3] = np.nan
    y = rng.integers(0, 3 if objective == "multiclass" else 2, 600)
    data = lightgbm.Dataset(X, y, categorical_feature=[3])
    params = {"objective": objective, "verbosity": -1, "num_threads": 1, "num_leaves": 15, **params}
    if objective == "multiclass":
        params["num_class"] = 3
    return lightgbm.train(params, data, 5).model_to_string(), X


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression", "poisson", "cross_entropy"])
@pytest.mark.parametrize("use_missing", [True, False])
def test_stock_models(objective, use_missing):
    text, X = stock_model(objective, use_missing=use_missing)
    expect_equal(text, X)
    X[:, 3] -= 20.5
    expect_equal(text, X)


@pytest.mark.parametrize("params", [{"linear_tree": True}, {"zero_as_missing": True}, {"boosting": "rf"}])
def test_other_models_stay_with_lightgbm(params):
    if params.get("boosting"):
        params = {**params, "bagging_freq": 1, "bagging_fraction": 0.5}
    text, _ = stock_model("binary", **params)
    assert fast_predictor(text) is None


def test_trees_of_one_leaf():
    block = "num_leaves=1\nnum_cat=0\nsplit_feature=\nthreshold=\nleaf_value=0.1\nis_linear=0\nshrinkage=1\n"
    text = model_text(header(), [block, *(tree_block(tree) for tree in random_trees(1, 3))], {})
    expect_equal(text, edgy_rows(random_trees(1, 3), 1))


def test_more_thresholds_than_a_byte_counts():
    rng = np.random.default_rng(0)
    trees = [
        replace(random_tree(rng, 400), threshold=rng.normal(size=399), left_categories=(None,) * 399)
        for _ in range(3)
    ]
    expect_equal(text_of(trees), rng.normal(size=(2500, 4)))


class TestBooster:
    @pytest.fixture(autouse=True)
    def _soon(self, monkeypatch):
        monkeypatch.setattr(private_booster, "MIN_ROWS_TO_PREPARE", 500)
        monkeypatch.setattr(private_booster, "MIN_FAST_ROWS", 100)

    @pytest.fixture
    def calls(self, monkeypatch):
        """Numbers of rows that LightGBM was asked for."""
        found = []
        predict = lightgbm.Booster.predict

        def noted(booster, data, *args, **kwargs):
            if isinstance(booster, PrivateBooster):
                found.append(data.shape[0])
            return predict(booster, data, *args, **kwargs)

        monkeypatch.setattr(lightgbm.Booster, "predict", noted)
        return found

    def test_lightgbm_predicts_few_rows_and_what_we_cannot(self, calls):
        trees = random_trees(2, 6)
        booster = PrivateBooster(model_str=text_of(trees))
        stock = lightgbm.Booster(model_str=text_of(trees))
        rows = edgy_rows(trees, 2, 300)
        for n_rows in (*[50] * 11, 300, 300, 300, 50):
            np.testing.assert_array_equal(booster.predict(rows[:n_rows]), stock.predict(rows[:n_rows]))
        assert calls == [*[50] * 11, 300, 50]
        calls.clear()
        for how in ({"pred_leaf": True}, {"pred_contrib": True}, {"pred_early_stop": True}):
            np.testing.assert_array_equal(booster.predict(rows, **how), stock.predict(rows, **how))
        assert calls == [300, 300, 300]
        assert booster.predict(rows, n_jobs=2).tolist() == stock.predict(rows).tolist()
        assert calls == [300, 300, 300]

    def test_altered_trees_are_read_anew(self, calls):
        trees = random_trees(3, 6)
        booster = PrivateBooster(model_str=text_of(trees))
        rows = edgy_rows(trees, 3, 600)
        before = booster.predict(rows)
        assert calls == []
        booster.set_leaf_output(0, int(booster.predict(rows[:1], pred_leaf=True)[0, 0]), 100.0)
        after = booster.predict(rows)
        assert (before != after).any()
        assert after.tolist() == lightgbm.Booster(model_str=booster.model_to_string()).predict(rows).tolist()
        booster.model_from_string(text_of(trees))
        np.testing.assert_array_equal(booster.predict(rows), before)
        booster.shuffle_models()
        booster.predict(rows, num_iteration=2)
        shuffled = lightgbm.Booster(model_str=booster.model_to_string())
        np.testing.assert_array_equal(
            booster.predict(rows, num_iteration=2), shuffled.predict(rows, num_iteration=2)
        )

    def test_what_was_read_is_not_pickled(self):
        trees = random_trees(4, 6)
        booster = PrivateBooster(model_str=text_of(trees))
        before = len(pickle.dumps(booster))
        rows = edgy_rows(trees, 4, 600)
        prediction = booster.predict(rows)
        assert len(pickle.dumps(booster)) < before + 100
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(booster)).predict(rows), prediction)

    def test_the_best_iteration_is_the_default(self):
        trees = random_trees(4, 6)
        booster = PrivateBooster(model_str=text_of(trees))
        booster.best_iteration = 2
        rows = edgy_rows(trees, 4, 600)
        stock = lightgbm.Booster(model_str=text_of(trees))
        np.testing.assert_array_equal(booster.predict(rows), stock.predict(rows, num_iteration=2))
        np.testing.assert_array_equal(
            booster.predict(rows, start_iteration=1), stock.predict(rows, start_iteration=1)
        )
