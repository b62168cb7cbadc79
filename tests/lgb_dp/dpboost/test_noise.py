"""Noise is integer, added to integer sums, and empty leaves get it like any other."""

import numpy as np
import pytest

import lgb_dp
from dp_training import grower
from lgb_dp.dpboost.square_loss import GRADIENT_STEPS, VALUE_STEPS, quantise_gradients
from lgb_dp.mechanisms import noise as mechanisms
from small_training import binary_data, dataset, leaf_values, train

X, Y = binary_data()


def test_gradients_are_integers_rounded_toward_zero():
    q = quantise_gradients(np.array([0.9999999, -0.9999999, 1 / 3]), np.ones(3, np.int32))
    assert q.dtype == np.int32
    assert q.tolist() == [GRADIENT_STEPS - 1, 1 - GRADIENT_STEPS, GRADIENT_STEPS // 3]


def test_leaf_noise_is_integer_and_added_to_integers(monkeypatch):
    drawn = []
    original = mechanisms.discrete_laplace

    def spy(n, sensitivity, epsilon, random):
        assert isinstance(sensitivity, int)
        drawn.append(original(n, sensitivity, epsilon, random))
        return drawn[-1]

    monkeypatch.setattr(mechanisms, "discrete_laplace", spy)
    for variant in ("tight", "paper"):
        train(dataset(X, Y), lgb_dp.DPBoost(1.0, variant=variant), n_rounds=1)
    assert all(noise.dtype == np.int64 for noise in drawn)


def test_the_papers_leaf_values_lie_on_their_public_grid():
    booster = train(
        dataset(X, Y), lgb_dp.DPBoost(1.0, variant="paper"), n_rounds=1, lambda_l2=0.1, learning_rate=0.5
    )
    steps = leaf_values(booster) / 0.5 / (1 / 1.1 / 2**20)
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-4)


@pytest.mark.parametrize("variant", ["tight", "paper"])
def test_every_leaf_of_a_tree_on_one_row_has_a_random_value(variant):
    data = dataset(X[:1], Y[:1])
    values = [
        leaf_values(train(data, lgb_dp.DPBoost(0.5, variant=variant), n_rounds=1, max_depth=3, lambda_l2=1.0))
        for _ in range(8)
    ]
    assert (np.std(values, axis=0) > 0).all()


def pair_of(sums):
    n, g = sums[:, 1] * GRADIENT_STEPS, sums[:, 0]
    return np.column_stack([n + g, n - g])


def test_leaves_are_functions_of_the_noisy_integers_alone(monkeypatch):
    training = grower(dataset(X, Y), lgb_dp.DPBoost(1.0), lambda_l2=0.1)
    rng = np.random.default_rng(0)
    released = rng.integers(-(2**28), 2**28, size=(500, 2))
    results = []
    for n_rows in (0, 1, 999):
        n = rng.integers(0, n_rows + 1, 500)
        sums = np.column_stack([n * GRADIENT_STEPS // 3, n])
        noise = (released - pair_of(sums)).ravel()
        monkeypatch.setattr(mechanisms, "discrete_laplace", lambda *_, noise=noise: noise)
        results.append(training._leaves_of_sums(sums, 1.0, 1.0))
    for value, count in results[1:]:
        np.testing.assert_array_equal(value, results[0][0])
        np.testing.assert_array_equal(count, results[0][1])


@pytest.mark.parametrize(
    ("variant", "n", "sensitivity"), [("tight", 2 * 4, 2 * GRADIENT_STEPS), ("paper", 4, VALUE_STEPS + 2)]
)
def test_every_released_number_has_noise_of_its_own(monkeypatch, variant, n, sensitivity):
    asked = []
    monkeypatch.setattr(
        mechanisms, "discrete_laplace", lambda n, s, *_: asked.append((n, s)) or np.zeros(n, dtype=np.int64)
    )
    train(dataset(X, Y), lgb_dp.DPBoost(1.0, variant=variant), n_rounds=1)
    assert asked == [(n, sensitivity)]


@pytest.mark.parametrize(("clip", "bound"), [(1.0, 1 / 1.1), (0.25, 0.5)])
@pytest.mark.parametrize("noise", [0, 2**23])
def test_the_papers_leaves_are_clipped_before_the_noise(monkeypatch, clip, bound, noise):
    training = grower(dataset(X, Y), lgb_dp.DPBoost(1.0, variant="paper"), lambda_l2=0.1)
    monkeypatch.setattr(mechanisms, "discrete_laplace", lambda n, *_: np.full(n, noise))
    sums = np.array([[-1000 * GRADIENT_STEPS, 1000], [1000 * GRADIENT_STEPS, 1000], [0, 0]])
    value, _ = training._leaves_of_values(sums, clip, 1.0)
    expected = np.clip([1000 / 1000.1, -1000 / 1000.1, 0], -clip, clip) + noise * bound / VALUE_STEPS
    np.testing.assert_allclose(value, expected, atol=1e-6)


@pytest.mark.parametrize("variant", ["tight", "paper"])
def test_trees_that_no_row_drew_are_noised_too(variant):
    booster = train(dataset(X[:1], Y[:1]), lgb_dp.DPBoost(0.5, variant=variant), n_rounds=4, lambda_l2=1.0)
    assert all((leaf_values(booster, t) != 0).all() for t in range(4))
