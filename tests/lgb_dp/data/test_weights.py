"""Row weights need a public bound, and all sensitivities are in its units."""

import numpy as np
import pytest

import lgb_dp
from dp_training import grower
from lgb_dp.data.weights import WEIGHT_STEPS
from lgb_dp.dpboost import square_loss
from lgb_dp.dpboost.square_loss import GRADIENT_STEPS, VALUE_STEPS, leaf_value_sensitivity, quantise_gradients
from lgb_dp.mechanisms import noise as mechanisms
from lgb_dp.mechanisms.noise import selection_scale
from small_training import binary_data, dataset, field, train

X, Y = binary_data()


def test_a_weighted_tree_uses_the_weighted_sensitivity(monkeypatch):
    from lgb_dp.mechanisms import noise as module

    asked = []
    original = module.discrete_laplace
    monkeypatch.setattr(
        module, "discrete_laplace", lambda n, s, e, r: asked.append(s) or original(n, s, e, r)
    )
    train(dataset(X, Y, weight=np.ones(len(X)), weight_bound=5.0), lgb_dp.DPBoost(1.0), n_rounds=1)
    assert asked == [2 * GRADIENT_STEPS * WEIGHT_STEPS]


def test_weights_of_an_evaluation_set_need_no_bound_until_it_is_trained_on():
    data = dataset(X, Y)
    valid = data.create_valid(X, Y, weight=np.arange(len(X)), public=True)
    train(data, lgb_dp.DPBoost(1.0), valid_sets=[valid])
    with pytest.raises(ValueError, match="weight_bound"):
        train(valid, lgb_dp.DPBoost(1.0))


def test_not_a_number_never_counts_for_more_than_a_row():
    q = quantise_gradients(np.array([np.nan, np.inf, -np.inf, np.nan]), np.array([1, 1, 1, 0], np.int32))
    assert q.tolist() == [0, GRADIENT_STEPS, -GRADIENT_STEPS, 0]


def test_a_weight_bound_that_vanishes_raises():
    with pytest.raises(ValueError, match="weight_bound"):
        dataset(X, Y, weight=np.zeros(len(X)), weight_bound=1e-310).construct()


def test_huge_weights_leave_counts_that_lightgbm_can_add_up():
    data = dataset(X, Y, weight=np.full(len(X), 1e9), weight_bound=1e9)
    booster = train(data, lgb_dp.DPBoost(1e-4), n_rounds=1, max_depth=6)
    assert booster.privacy.private
    assert field(booster, "internal_count").min() > 0
    assert np.isfinite(booster.predict(X, pred_contrib=True)).all()


def test_splits_and_lambda_are_in_units_of_the_weight_bound(monkeypatch):
    asked = []
    grow = square_loss.grow_structure
    monkeypatch.setattr(
        square_loss, "grow_structure", lambda *args: asked.append((args[3], args[5], args[6])) or grow(*args)
    )
    data = dataset(X, Y, weight=np.full(len(X), 1.0), weight_bound=5.0)
    booster = train(data, lgb_dp.DPBoost(1.0), n_rounds=1, lambda_l2=0.1)
    (weight, lambda_steps, scales), epsilon = asked[0], booster.privacy.ledger[0]["epsilon"]
    assert (weight == WEIGHT_STEPS // 5).all()
    assert lambda_steps == pytest.approx(0.1 * WEIGHT_STEPS / 5)
    assert scales == [selection_scale(epsilon, 4.0) / (GRADIENT_STEPS**2 * WEIGHT_STEPS)] * 2


@pytest.mark.parametrize("clip", [1.0, 0.01])
@pytest.mark.parametrize("bound", [0.5, 5.0])
def test_the_papers_weighted_leaves_use_the_weighted_sensitivity(monkeypatch, bound, clip):
    data = dataset(X, Y, weight=np.full(len(X), 0.25), weight_bound=bound)
    training = grower(data, lgb_dp.DPBoost(1.0, variant="paper"), lambda_l2=0.1)
    monkeypatch.setattr(mechanisms, "discrete_laplace", lambda n, *_: np.ones(n, dtype=np.int64))
    value, _ = training.leaves_of_values(np.zeros((1, 2), dtype=np.int64), clip, 1.0)
    assert value[0] * VALUE_STEPS == pytest.approx(min(leaf_value_sensitivity(0.1, bound), 2 * clip))


def test_subsets_keep_the_public_weight_bound():
    data = dataset(X, Y, weight=np.ones(len(X)), weight_bound=5.0)
    assert data.subset(np.arange(10)).weight_bound == 5.0
