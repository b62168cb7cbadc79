"""Gradients against XGBoost's: a tree of one row has its hessian as `sum_hessian` and −g / h as its leaf."""

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from gbdt_hosts.xgboost.gradients import XGBoostGradients
from gbdt_hosts.xgboost.targets import Targets
from gbdt_parties.errors import InvalidDataError
from native_trees import read_trees
from xgb_fed.boosting.objectives import XGBoostObjective, sigmoid, softmax

LOGISTIC, SQUARE, SOFTPROB = "binary:logistic", "reg:squarederror", "multi:softprob"
EXTREME = [0.0, -1e-8, 16.0, -16.0, 40.0, -40.0, 88.0, -88.0, 120.0, -120.0]


def of_xgboost(objective, margin, y, weight):
    """(sum_hessian, leaf) of each class for one row."""
    matrix = xgboost.DMatrix(np.zeros((1, 1)), label=[y], weight=[weight], base_margin=margin[None])
    params = {"objective": objective.name, "reg_lambda": 0, "min_child_weight": 0, "eta": 1, "nthread": 1}
    params |= {"num_class": objective.n_classes} if objective.n_classes > 1 else {}
    params |= {"scale_pos_weight": objective.scale_pos_weight} if objective.scale_pos_weight != 1 else {}
    trees = read_trees(xgboost.train({**params, "max_depth": 1}, matrix, 1))
    return [(np.float32(t["sum_hessian"][0]), np.float32(t["split_conditions"][0])) for t in trees]


@pytest.mark.parametrize(
    "objective",
    [
        XGBoostObjective(LOGISTIC),
        XGBoostObjective(LOGISTIC, 1, 3.5),
        XGBoostObjective(SQUARE),
        XGBoostObjective(SOFTPROB, 3),
    ],
    ids=["logistic", "scale_pos_weight", "square", "softprob"],
)
def test_gradients_are_xgboost_s(objective):
    random = np.random.default_rng(0)
    margin = random.normal(0, 4, (40, objective.n_classes)).astype(np.float32)
    margin[: len(EXTREME), 0] = EXTREME
    y = random.integers(0, max(2, objective.n_classes), 40).astype(np.float32)
    if objective.name == LOGISTIC:
        y[::7] = 0.25
    weight = random.choice([1, 0.3, 7], 40).astype(np.float32)
    g, h = objective.gradients(margin, y, weight)
    assert g.dtype == h.dtype == np.float32
    theirs = np.array([of_xgboost(objective, *row) for row in zip(margin, y, weight, strict=True)])
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        leaf = (-g.astype(np.float64) / h).astype(np.float32)
    # Some floats of a C library's exp are not the nearest, and 1 − p enlarges that.
    np.testing.assert_allclose(h, theirs[..., 0], rtol=5e-7)
    np.testing.assert_allclose(leaf, theirs[..., 1], rtol=5e-7)


@pytest.mark.parametrize("name", [LOGISTIC, SQUARE, "reg:logistic", "binary:logitraw"])
def test_closed_forms_are_what_xgboost_computes_for_many_rows(name):
    random = np.random.default_rng(0)
    margin = random.normal(0, 4, (500, 1)).astype(np.float32)
    y = (random.random(500) < 0.3).astype(np.float32)
    weight = random.exponential(size=500).astype(np.float32)
    objective = XGBoostObjective(name)
    assert objective.is_closed_form
    ours = objective.gradients_of(Targets(y, weight))(margin, 0)
    theirs = XGBoostGradients(objective.of_xgboost, Targets(y, weight))(margin, 0)
    np.testing.assert_allclose(ours, theirs, rtol=5e-7, atol=1e-9)


def loss_of(objective, margin, y):
    """Negative log-likelihood, or half the squared error, in float64."""
    if objective.name == SQUARE:
        return (margin[0] - y) ** 2 / 2
    if objective.name == LOGISTIC:
        return np.logaddexp(0, margin[0]) - y * margin[0]
    return np.logaddexp.reduce(margin) - margin[int(y)]


@given(
    st.sampled_from([XGBoostObjective(LOGISTIC), XGBoostObjective(SQUARE), XGBoostObjective(SOFTPROB, 4)]),
    st.lists(st.floats(-6, 6, width=32), min_size=4, max_size=4),
    st.integers(0, 3),
    st.floats(0.125, 8, width=32),
)
def test_gradients_are_derivatives_of_the_loss(objective, margin, label, weight):
    at = np.array(margin[: objective.n_classes])
    y = float(label if objective.name != LOGISTIC else label / 3)
    g, h = objective.gradients(
        at[None].astype(np.float32), np.array([y], dtype=np.float32), np.array([weight], dtype=np.float32)
    )
    # Of softprob, XGBoost takes twice the second derivative, an upper bound of the matrix of them.
    factor = 2 if objective.name == SOFTPROB else 1
    for k, step in enumerate(1e-4 * np.eye(len(at))):
        below, here, above = (loss_of(objective, at + sign * step, y) for sign in (-1, 0, 1))
        assert g[0, k] == pytest.approx(weight * (above - below) / 2e-4, abs=1e-5 * weight)
        assert h[0, k] == pytest.approx(
            factor * weight * (above - 2 * here + below) / 1e-8, abs=1e-5 * weight
        )


@pytest.mark.parametrize(
    "objective", [XGBoostObjective(LOGISTIC), XGBoostObjective(SQUARE), XGBoostObjective(SOFTPROB, 3)]
)
def test_predictions_are_xgboost_s(objective):
    n_classes = objective.n_classes
    margin = np.random.default_rng(1).normal(0, 9, (200, n_classes)).astype(np.float32)
    margin[: len(EXTREME), 0] = EXTREME
    matrix = xgboost.DMatrix(np.zeros((200, 1)), label=np.zeros(200), base_margin=margin)
    params = {"objective": objective.name} | ({"num_class": n_classes} if n_classes > 1 else {})
    theirs = xgboost.train(params, matrix, 0).predict(matrix)
    np.testing.assert_allclose(objective.to_prediction(margin), theirs, rtol=3e-7, atol=1e-38)


@pytest.mark.parametrize("objective", [XGBoostObjective(LOGISTIC), XGBoostObjective(SQUARE)])
@pytest.mark.parametrize("base_score", [0.5, 0.3, 0.999, 1e-5])
def test_margins_of_base_scores_are_xgboost_s(objective, base_score):
    matrix = xgboost.DMatrix(np.zeros((2, 1)), label=np.array([0, 1]))
    booster = xgboost.train({"objective": objective.name, "base_score": base_score}, matrix, 0)
    theirs = booster.predict(matrix, output_margin=True)
    ours = objective.to_margin(np.array([base_score], dtype=np.float32))
    np.testing.assert_allclose(np.repeat(ours, 2), theirs, rtol=3e-7)


def test_margins_of_one_class_alone_are_finite():
    """Labels of one class estimate a base_score of 0 or 1."""
    low, high = XGBoostObjective(LOGISTIC).to_margin(np.array([0, 1], dtype=np.float32))
    assert -14 < low < -13 < 13 < high < 14


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=6))
def test_probabilities_of_any_margins(margins):
    margin = np.array(margins, dtype=np.float32)
    with np.errstate(over="ignore"):
        p, one = softmax(margin[None])[0], sigmoid(margin)
    assert ((p >= 0) & (p <= 1)).all()
    assert p.sum() == pytest.approx(1, abs=1e-6)
    assert ((one > 0) & (one <= 1)).all()
    assert (np.diff(one[np.argsort(margin)]) >= 0).all()


def test_labels_that_an_objective_does_not_know():
    for objective, fine, wrong in [
        (XGBoostObjective(LOGISTIC), [0, 0.5, 1], [[-0.1], [1.1], [np.nan], [np.inf]]),
        (XGBoostObjective(SQUARE), [-1e30, 0, 7], [[np.nan], [-np.inf]]),
        (XGBoostObjective(SOFTPROB, 3), [0, 1, 2], [[3], [-1], [0.5], [np.nan]]),
    ]:
        objective.check_labels(np.array(fine, dtype=np.float32))
        for y in wrong:
            with pytest.raises(InvalidDataError, match="y "):
                objective.check_labels(np.array([*fine, *y], dtype=np.float32))
