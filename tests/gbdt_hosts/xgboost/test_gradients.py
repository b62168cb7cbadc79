"""Gradients of XGBoost's objectives, without a public call for them."""

import inspect

import numpy as np
import pytest
import xgboost

from gbdt_hosts.xgboost import gradients
from gbdt_hosts.xgboost.gradients import XGBoostGradients, custom_gradients
from gbdt_hosts.xgboost.margins import margins_of, objective_config, predictions_of, words_of
from gbdt_hosts.xgboost.model import read_trees
from gbdt_hosts.xgboost.targets import Targets

RNG = np.random.default_rng(0)
N = 200
X = RNG.normal(size=(N, 3)).astype(np.float32)
TIMES = RNG.gamma(2, 1, N).astype(np.float32)
MARGIN = RNG.normal(size=(N, 1)).astype(np.float32)
WEIGHT = RNG.uniform(0.1, 1, N).astype(np.float32)
CLASSES = (RNG.random(N) < 0.3).astype(np.float32)
LABELS = {
    "reg:squarederror": TIMES,
    "reg:squaredlogerror": TIMES,
    "reg:pseudohubererror": TIMES,
    "reg:absoluteerror": TIMES,
    "reg:quantileerror": TIMES,
    "reg:gamma": TIMES,
    "reg:tweedie": np.where(CLASSES, 0, TIMES),
    "reg:logistic": (X[:, 0] > 0) * 0.9,
    "count:poisson": np.floor(TIMES),
    "binary:logistic": CLASSES,
    "binary:logitraw": CLASSES,
    "binary:hinge": CLASSES,
    "survival:cox": np.where(CLASSES, -TIMES, TIMES),
    "survival:aft": TIMES,
    "rank:pairwise": np.minimum(np.floor(TIMES), 3),
    "rank:ndcg": np.minimum(np.floor(TIMES), 3),
    "rank:map": CLASSES,
}


def targets_of(objective):
    label = LABELS[objective].astype(np.float32)
    if objective.startswith("rank"):
        return Targets(label, WEIGHT[: N // 10], query_sizes=np.full(N // 10, 10))
    bounds = (TIMES * 0.9, TIMES * 1.2) if objective == "survival:aft" else (None, None)
    return Targets(label, WEIGHT, *bounds)


def params_of(objective):
    own = {"quantile_alpha": 0.7} if objective == "reg:quantileerror" else {}
    return {"objective": objective, **own}


def grown(params, targets):
    """Booster and data set of which the columns were cut before anything else was known of the rows."""
    data = xgboost.QuantileDMatrix(X, max_bin=16)
    other = targets.matrix()
    info = {name: getattr(other, f"get_{name}")() for name in ("label", "weight")}
    info |= {"label_lower_bound": targets.lower, "label_upper_bound": targets.upper}
    info |= {"group": targets.query_sizes, "base_margin": MARGIN[:, 0]}
    data.set_info(**{name: value for name, value in info.items() if value is not None})
    settings = {**params, "max_depth": 3, "max_bin": 16, "nthread": 1, "base_score": 0.5}
    return xgboost.Booster(settings, cache=[data]), data


@pytest.mark.parametrize("objective", LABELS)
def test_xgboost_grows_the_tree_of_these_gradients(objective):
    targets, params = targets_of(objective), params_of(objective)
    g, h = XGBoostGradients(params, targets)(MARGIN, 2)
    assert g.shape == h.shape == (N, 1)
    assert g.dtype == h.dtype == np.float32
    theirs, data = grown(params, targets)
    theirs.update(data, 2)
    step = {"max_delta_step": 0.7} if objective == "count:poisson" else {}
    ours, data = grown({"objective": "reg:squarederror", **step}, Targets(targets.label))
    which = {"iteration": 2} if "iteration" in inspect.signature(ours.boost).parameters else {}
    ours.boost(data, grad=g[:, 0].copy(), hess=h[:, 0].copy(), **which)
    (a,), (b,) = read_trees(ours), read_trees(theirs)
    assert len(a["left_children"]) > 3
    for key in ("left_children", "split_indices", "base_weights", "loss_changes", "sum_hessian"):
        assert a[key] == b[key], key


def test_rows_are_told_apart_by_two_columns_where_one_is_too_short(monkeypatch):
    targets = targets_of("reg:gamma")
    expected = XGBoostGradients(params_of("reg:gamma"), targets)(MARGIN, 0)
    monkeypatch.setattr(gradients, "_COLUMN_BITS", 3)
    got = XGBoostGradients(params_of("reg:gamma"), targets)(MARGIN, 0)
    np.testing.assert_array_equal(got, expected)


def test_one_row():
    g, h = XGBoostGradients(params_of("reg:squarederror"), Targets(np.ones(1, dtype=np.float32)))(
        np.full((1, 1), 3, dtype=np.float32), 0
    )
    assert g.tolist() == [[2]]
    assert h.tolist() == [[1]]


def test_gradients_beside_large_hessians_are_exact():
    """(m − y)·w with a weight beyond 2^31."""
    targets = Targets(np.zeros(3, dtype=np.float32), np.array([1, 3, 2e12], dtype=np.float32))
    margin = np.array([[0.3], [-1.7], [1.1]], dtype=np.float32)
    g, h = XGBoostGradients(params_of("reg:squarederror"), targets)(margin, 0)
    np.testing.assert_array_equal(g[:, 0], margin[:, 0] * targets.weight)
    np.testing.assert_array_equal(h[:, 0], targets.weight)


@pytest.mark.parametrize(
    ("objective", "label"), [("count:poisson", -1.0), ("reg:tweedie", -1.0), ("rank:map", 3.0)]
)
def test_labels_that_xgboost_refuses(objective, label):
    targets = targets_of(objective)
    wrong = Targets(np.where(np.arange(N) == 7, label, targets.label), query_sizes=targets.query_sizes)
    with pytest.raises(ValueError, match=r"label|[Rr]elevance") as error:
        XGBoostGradients(params_of(objective), wrong)(MARGIN, 0)
    words = words_of(error.value)
    assert "\n" not in words
    assert not words.startswith("[")


def test_gradients_of_a_user():
    targets = targets_of("reg:squarederror")
    data = targets.matrix()

    def square(margin, rows):
        assert rows is data
        assert margin.shape == (N,)
        return (margin - rows.get_label()) * rows.get_weight(), rows.get_weight()

    g, h = custom_gradients(square, data, MARGIN)
    np.testing.assert_array_equal(
        np.stack([g, h]), XGBoostGradients(params_of("reg:squarederror"), targets)(MARGIN, 0)
    )
    for wrong in (
        lambda margin, _: margin,
        lambda margin, _: (margin, margin[1:]),
        lambda margin, _: (margin, margin, margin),
    ):
        with pytest.raises(ValueError, match="gradients and hessians"):
            custom_gradients(wrong, data, MARGIN)


@pytest.mark.parametrize("score", [0.3, 1.3128658e1, -3.75, 1e-7])
def test_base_scores_are_read_to_the_last_bit(score):
    exact = np.array([score], dtype=np.float32)
    np.testing.assert_array_equal(margins_of({"objective": "reg:squarederror"}, exact), exact)


def test_predictions_of_margins():
    margin = np.array([[-1.0], [0.0], [2.0]], dtype=np.float32)
    mean = predictions_of({"objective": "count:poisson"}, margin)
    np.testing.assert_allclose(mean, np.exp(margin[:, 0]), rtol=1e-6)
    assert predictions_of({"objective": "binary:hinge"}, margin).tolist() == [0, 0, 1]
    three = np.array([[1, 0, 3], [2, 1, 0]], dtype=np.float32)
    assert predictions_of({"objective": "multi:softmax", "num_class": 3}, three).tolist() == [2, 0]
    assert predictions_of({"objective": "multi:softprob", "num_class": 3}, three[:0]).shape == (0, 3)


def test_an_objective_as_a_model_has_it():
    config = objective_config({"objective": "reg:tweedie", "tweedie_variance_power": 1.25})
    assert config["tweedie_regression_param"]["tweedie_variance_power"] == "1.25"
    with pytest.raises(ValueError, match="tweedie_variance_power"):
        objective_config({"objective": "reg:tweedie", "tweedie_variance_power": 2.5})
