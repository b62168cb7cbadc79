"""The M-loss: its parts fit one another, and LightGBM can minimise it."""

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lgb_dp import MLoss
from small_training import binary_data

alphas = st.one_of(st.floats(1e-6, 1), st.sampled_from([1e-9, 0.1, 0.5, 1.0]))
probabilities = st.floats(0, 1)
margins = st.floats(-50, 50)
X, Y = binary_data(600)


def expected_loss(loss, truth, stated):
    positive, negative = loss.partial_losses(stated)
    return sum(p * part for p, part in ((truth, positive), (1 - truth, negative)) if p > 0)


@settings(max_examples=300, deadline=None)
@given(alphas, probabilities)
def test_the_bayes_risk_is_the_expected_loss_of_the_truth(alpha, u):
    loss = MLoss(alpha)
    assert expected_loss(loss, u, u) == pytest.approx(float(loss.bayes_risk(u)), rel=1e-9, abs=1e-12)


@settings(max_examples=300, deadline=None)
@given(alphas, probabilities, probabilities)
def test_no_other_probability_has_a_smaller_expected_loss(alpha, truth, stated):
    loss = MLoss(alpha)
    assert expected_loss(loss, truth, stated) >= float(loss.bayes_risk(truth)) - 1e-9


@settings(max_examples=200, deadline=None)
@given(alphas, st.floats(0, 1))
def test_the_loss_is_symmetric_and_normalised(alpha, u):
    loss = MLoss(alpha)
    positive, negative = loss.partial_losses(u)
    mirrored = loss.partial_losses(1.0 - u)
    if u == 1.0 - (1.0 - u):
        assert (positive, negative) == (mirrored[1], mirrored[0])
    assert loss.bayes_risk(u) == pytest.approx(float(loss.bayes_risk(1.0 - u)), abs=1e-7)
    assert loss.bayes_risk([0.0, 0.5, 1.0]).tolist() == pytest.approx([0, 1, 0])


@settings(max_examples=200, deadline=None)
@given(alphas, margins)
def test_the_surrogate_is_the_conjugate_of_the_bayes_risk(alpha, z):
    """F(z) = sup L(u) - z u: no u is above it, and u = ψ⁻¹(-z) reaches it."""
    loss = MLoss(alpha)
    u = np.linspace(0, 1, 2001)
    tolerance = 1e-9 * (1 + abs(z))
    assert (loss.bayes_risk(u) - z * u).max() <= loss.surrogate(z) + tolerance
    # ψ⁻¹ near 1 is only as exact as float64 near 1, where the root of 1 - u is not.
    best = loss.weight(z)
    assert loss.bayes_risk(best) - z * best == pytest.approx(float(loss.surrogate(z)), abs=1e-6)


@settings(max_examples=300, deadline=None)
@given(st.floats(1e-3, 1), margins)
def test_gradients_are_those_of_finite_differences(alpha, z):
    loss = MLoss(alpha)
    step = 1e-6 * max(1.0, abs(z))
    slope = (loss.surrogate(z + step) - loss.surrogate(z - step)) / (2 * step)
    assert slope == pytest.approx(-float(loss.weight(z)), abs=1e-8 + step / alpha)
    # Steps that keep to one side of the flat part's ends.
    if abs(abs(z) - loss.flat) > 1e-3:
        step = 1e-4 * alpha
        bend = (loss.weight(z - step) - loss.weight(z + step)) / (2 * step)
        assert bend == pytest.approx(float(loss.curvature(z)), rel=1e-3, abs=1e-6 / alpha)


@settings(max_examples=300, deadline=None)
@given(alphas, st.floats(1e-12, 1 - 1e-12))
def test_link_and_inverse_link_undo_each_other(alpha, u):
    loss = MLoss(alpha)
    assert loss.inverse_link(loss.link(u)) == pytest.approx(u, rel=1e-6, abs=1e-15)


@settings(max_examples=300, deadline=None)
@given(alphas, st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_nothing_overflows_and_everything_is_monotone(alpha, a, b):
    loss = MLoss(alpha)
    low, high = min(a, b), max(a, b)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert 0 <= loss.inverse_link(low) <= loss.inverse_link(high) <= 1
        assert 0 <= loss.surrogate(high) <= loss.surrogate(low) < np.inf
        assert 0 <= loss.curvature(low) <= 1 / (4 * alpha) * (1 + 1e-12)


def test_small_probabilities_keep_their_digits():
    """1 - z'/√(4α² + z'²) would be 0 from z' = 1e8 on."""
    assert MLoss(1.0).weight(1e10) == pytest.approx(1e-20, rel=1e-9)
    assert MLoss(1.0).surrogate(1e10) == pytest.approx(1e-10, rel=1e-9)


def test_alpha_one_is_matsushitas_loss():
    loss, u, z = MLoss(1.0), np.linspace(0.01, 0.99, 99), np.linspace(-5, 5, 101)
    np.testing.assert_allclose(loss.bayes_risk(u), 2 * np.sqrt(u * (1 - u)))
    np.testing.assert_allclose(loss.link(u), (2 * u - 1) / np.sqrt(u * (1 - u)))
    np.testing.assert_allclose(loss.surrogate(z), (-z + np.sqrt(4 + z**2)) / 2)


def test_alpha_towards_zero_is_the_0_1_loss():
    u, z = np.linspace(0.01, 0.99, 98), np.linspace(-5, 5, 101)
    loss = MLoss(1e-12)
    np.testing.assert_allclose(loss.bayes_risk(u), 2 * np.minimum(u, 1 - u), atol=1e-9)
    np.testing.assert_allclose(loss.link(u), 2 * np.sign(u - 0.5), atol=1e-9)
    np.testing.assert_allclose(loss.surrogate(z), np.maximum(np.maximum(1 - z / 2, 0), -z), atol=1e-9)
    assert loss.inverse_link([-1.9, 0.0, 1.9]).tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("alpha", [0, -0.1, 1.1, np.nan, np.inf])
def test_alpha_out_of_range_is_refused(alpha):
    with pytest.raises(ValueError, match=r"alpha.*\(0, 1\]"):
        MLoss(alpha)


@pytest.mark.parametrize("alpha", ["0.5", None, True])
def test_alpha_of_another_type_is_refused(alpha):
    with pytest.raises(TypeError, match=r"alpha.*number"):
        MLoss(alpha)


@pytest.mark.parametrize("method", ["link", "bayes_risk", "partial_losses"])
def test_what_is_no_probability_is_refused(method):
    with pytest.raises(ValueError, match=r"u.*\[0, 1\], got.*1.5"):
        getattr(MLoss(0.5), method)([0.5, 1.5])


# As LightGBM's objective.


def trained(alpha, n_rounds=30, **params):
    loss, history = MLoss(alpha), {}
    data = lgb.Dataset(X, Y, weight=params.pop("weight", None))
    params = {"objective": loss, "verbosity": -1, "learning_rate": 0.5, "num_leaves": 8, **params}
    callbacks = [lgb.record_evaluation(history)]
    booster = lgb.train(params, data, n_rounds, valid_sets=[data], feval=loss.metric, callbacks=callbacks)
    return loss, booster, history["training"]["m_loss"]


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
def test_stock_lightgbm_minimises_it_without_ever_going_up(alpha):
    loss, booster, values = trained(alpha)
    assert (np.diff(values) <= 1e-12).all()
    assert values[-1] < 0.6
    raw = booster.predict(X)
    assert values[-1] == pytest.approx(loss.surrogate((2 * Y - 1) * raw).mean(), rel=1e-9)
    assert np.mean((loss.inverse_link(raw) > 0.5) == Y) > 0.93


def test_leaf_values_are_the_papers_leveraging_coefficient():
    """First tree: w = ½, so a leaf is a·4α times the mean of y/2 over its rows."""
    _, booster, _ = trained(0.3, n_rounds=1, learning_rate=1.0)
    leaf = booster.predict(X, pred_leaf=True).ravel()
    raw = booster.predict(X)
    for number in np.unique(leaf):
        rows = leaf == number
        assert raw[rows][0] == pytest.approx(4 * 0.3 * np.mean((2 * Y[rows] - 1) / 2), rel=1e-5, abs=1e-7)


def test_weights_of_rows_count_as_repeated_rows():
    weight = np.where(np.arange(len(X)) % 3 == 0, 2.0, 1.0)
    loss, booster, values = trained(0.5, weight=weight)
    margin = (2 * Y - 1) * booster.predict(X)
    assert values[-1] == pytest.approx(np.average(loss.surrogate(margin), weights=weight), rel=1e-6)
    gradient, hessian = loss(np.zeros(len(X)), lgb.Dataset(X, Y, weight=weight).construct())
    np.testing.assert_allclose(gradient, -weight * (2 * Y - 1) / 2)
    np.testing.assert_allclose(hessian, weight / 2)


def test_the_order_of_lightgbms_estimators_means_the_same():
    """They call an objective with labels and scores."""
    loss, score = MLoss(0.5), X[:, 0]
    native = loss(score, lgb.Dataset(X, Y).construct())
    np.testing.assert_array_equal(loss(Y, score), native)


def test_labels_and_scores_are_checked():
    data = lgb.Dataset(X, Y + 1).construct()
    with pytest.raises(ValueError, match=r"labels.*M-loss.*0 or 1"):
        MLoss(0.5)(np.zeros(len(X)), data)
    with pytest.raises(ValueError, match="the M-loss is binary"):
        MLoss(0.5)(np.zeros((len(X), 3)), lgb.Dataset(X, Y).construct())
