"""Every sensitivity the mechanisms rely on, over drawn neighbouring data sets."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lgb_dp
from dp_training import grower
from gbdt_kernels.trees import BinLayout, DenseCodes, candidate_gains, level_histograms, segment_sums
from lgb_dp.data.weights import WEIGHT_STEPS, quantise_weights
from lgb_dp.dpboost.square_loss import (
    G_STAR,
    GAIN_RANGE,
    GRADIENT_STEPS,
    VALUE_STEPS,
    SquareLossTraining,
    leaf_value_sensitivity,
    quantise_gradients,
)
from lgb_dp.mechanisms import noise as mechanisms
from small_training import binary_data, dataset, leaf_values, train

X, Y = binary_data()

Q = GRADIENT_STEPS
gradients = st.one_of(st.floats(-1, 1), st.sampled_from([-1.0, 1.0, 0.0]))
lambdas = st.sampled_from([0.0, 0.1, 1.0, 25.0])


@st.composite
def neighbours(draw, weighted=False):
    """Codes, quantised gradients and weights; the last row is the one that is added."""
    n = draw(st.integers(1, 40))
    kind = draw(st.sampled_from(["any", "all +1, last -1", "all -1, last +1"]))
    if kind == "any":
        g = np.array(draw(st.lists(gradients, min_size=n, max_size=n)))
    else:
        g = np.full(n, 1.0 if "+1, last" in kind else -1.0)
        g[-1] *= -1
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 5, size=(n, 2)).astype(np.uint8)
    if draw(st.booleans()):
        codes[:, 0] = 1
    if weighted:
        weight, steps = quantise_weights(rng.choice([0.0, 0.01, 1.0, 2.5], n), 2.5, n)
    else:
        weight, steps = quantise_weights(None, None, n)
    return codes, quantise_gradients(g, weight), weight, steps


def layout():
    subsets = np.random.default_rng(5).random((3, 10)) < 0.5
    return BinLayout(np.array([4, 4]), np.array([False, True]), subsets)


def gains(codes, gradient, weight, n_rows, lambda_steps, steps):
    rows = np.arange(n_rows, dtype=np.int32)
    starts = np.array([0, n_rows])
    histogram = level_histograms(DenseCodes(codes), rows, starts, gradient, weight, layout())
    return candidate_gains(histogram, layout(), lambda_steps)[0] / (Q**2 * steps)


@settings(max_examples=150, deadline=None)
@given(neighbours(), lambdas)
def test_adding_a_row_changes_every_gain_within_minus_three_and_plus_one(data, lambda_l2):
    codes, gradient, weight, steps = data
    n = len(codes)
    change = gains(codes, gradient, weight, n, lambda_l2, steps) - gains(
        codes, gradient, weight, n - 1, lambda_l2, steps
    )
    assert change.min() >= -3 - 1e-9
    assert change.max() <= 1 + 1e-9
    assert np.ptp(change) <= GAIN_RANGE["tight"] + 1e-9
    assert np.abs(change).max() <= GAIN_RANGE["paper"] / 2 + 1e-9


@settings(max_examples=150, deadline=None)
@given(neighbours(weighted=True), lambdas)
def test_weighted_rows_change_gains_within_the_same_range_times_the_bound(data, lambda_l2):
    codes, gradient, weight, steps = data
    n = len(codes)
    lambda_steps = lambda_l2 * steps / 2.5
    change = gains(codes, gradient, weight, n, lambda_steps, steps) - gains(
        codes, gradient, weight, n - 1, lambda_steps, steps
    )
    assert change.min() >= -3 - 1e-9
    assert change.max() <= 1 + 1e-9


def test_the_gain_range_is_attained():
    n = 4001
    codes = np.full((n, 2), 1, dtype=np.uint8)
    codes[-1, 1] = 3
    weight, steps = quantise_weights(None, None, n)
    gradient = quantise_gradients(np.r_[np.ones(n - 1), -1.0], weight)
    change = gains(codes, gradient, weight, n, 0.0, steps) - gains(codes, gradient, weight, n - 1, 0.0, steps)
    assert np.ptp(change) == pytest.approx(4, abs=2e-3)


def leaf_value(gradient_sum, weight_sum, lambda_l2):
    denominator = weight_sum + lambda_l2
    return -gradient_sum / denominator if denominator > 0 else 0.0


@settings(max_examples=300, deadline=None)
@given(st.lists(gradients, min_size=0, max_size=30), gradients, lambdas)
@example([], 1.0, 0.0)
@example([1.0], -1.0, 0.0)
@example([-1.0], 1.0, 0.1)
def test_adding_a_row_moves_the_papers_leaf_value_by_at_most_its_lemma(before, added, lambda_l2):
    change = leaf_value(sum(before) + added, len(before) + 1, lambda_l2) - leaf_value(
        sum(before), len(before), lambda_l2
    )
    assert abs(change) <= 1 / (1 + lambda_l2) + 1e-9


@settings(max_examples=300, deadline=None)
@given(
    st.floats(0, 50),
    st.floats(-1, 1),
    st.floats(0, 1),
    st.sampled_from([-1.0, 1.0]),
    lambdas,
    st.sampled_from([0.5, 1.0, 4.0]),
)
def test_adding_a_weighted_row_moves_the_leaf_value_by_at_most_the_bound(total, mean, w, g, lambda_l2, bound):
    w *= bound
    change = leaf_value(total * mean + w * g, total + w, lambda_l2) - leaf_value(
        total * mean, total, lambda_l2
    )
    assert abs(change) <= leaf_value_sensitivity(lambda_l2, bound) + 1e-9


@pytest.mark.parametrize("lambda_l2", [0.1, 1.0, 25.0])
@pytest.mark.parametrize("bound", [0.5, 1.0, 4.0])
def test_the_weighted_leaf_bound_is_attained(lambda_l2, bound):
    totals = np.linspace(0, 100, 200_001)
    change = bound * (2 * totals + lambda_l2) / ((totals + lambda_l2) * (totals + bound + lambda_l2))
    assert change.max() == pytest.approx(leaf_value_sensitivity(lambda_l2, bound), rel=1e-3)


@settings(max_examples=150, deadline=None)
@given(neighbours(weighted=True))
def test_adding_a_row_raises_the_pair_together_by_at_most_its_sensitivity(data):
    _, gradient, weight, steps = data
    n = len(gradient)

    def pair(n_rows):
        rows = np.arange(n_rows, dtype=np.int32)
        total = segment_sums(rows, np.array([0, n_rows]), gradient, weight)[0]
        return np.array([total[1] * Q + total[0], total[1] * Q - total[0]])

    change = pair(n) - pair(n - 1)
    assert (change >= 0).all()
    assert change.sum() <= 2 * Q * steps


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 2.5)), min_size=1, max_size=50))
def test_quantised_gradients_never_exceed_their_weight(rows):
    g, w = (np.array(column) for column in zip(*rows, strict=True))
    weight, steps = quantise_weights(w, 2.5, len(w))
    q = quantise_gradients(g, weight)
    assert steps == WEIGHT_STEPS
    assert (weight >= 0).all()
    assert (weight <= steps).all()
    assert (weight <= w * steps / 2.5).all()
    assert (np.abs(q.astype(np.int64)) <= Q * weight.astype(np.int64)).all()
    assert (np.abs(q) <= np.abs(g) * Q * weight).all()


def test_quantisation_takes_gradients_out_of_range_back():
    assert quantise_gradients(np.array([-7.0, 7.0]), np.ones(2, np.int32)).tolist() == [-Q, Q]


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
        results.append(training.leaves_of_sums(sums, 1.0, 1.0))
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
    value, _ = training.leaves_of_values(sums, clip, 1.0)
    expected = np.clip([1000 / 1000.1, -1000 / 1000.1, 0], -clip, clip) + noise * bound / VALUE_STEPS
    np.testing.assert_allclose(value, expected, atol=1e-6)


def test_the_papers_leaf_of_one_row_is_its_mean_and_an_empty_one_is_0(monkeypatch):
    training = grower(dataset(X, Y), lgb_dp.DPBoost(1.0, variant="paper"), lambda_l2=0.0)
    monkeypatch.setattr(mechanisms, "discrete_laplace", lambda n, *_: np.zeros(n, dtype=np.int64))
    value, _ = training.leaves_of_values(np.array([[-GRADIENT_STEPS // 2, 1], [0, 0]]), 1.0, 1.0)
    np.testing.assert_allclose(value, [0.5, 0.0], atol=1e-6)


def test_gradients_are_clipped_where_rows_are_not_filtered():
    training = grower(dataset(X, Y), lgb_dp.DPBoost(1.0, gdf=False))
    rows, gradient = training.clipped_gradients(G_STAR * np.array([-3.0, -0.5, 0.0, 0.75, 2.0]))
    assert gradient.tolist() == (G_STAR * np.array([-1.0, -0.5, 0.0, 0.75, 1.0])).tolist()
    assert rows.tolist() == [0, 1, 2, 3, 4]
    assert rows.dtype == np.int32


def test_selections_are_scaled_by_the_steps_of_the_largest_weight():
    plain = grower(dataset(X, Y), lgb_dp.DPBoost(1.0))
    weighed = grower(dataset(X, Y, weight=np.full(len(Y), 0.5), weight_bound=2.0), lgb_dp.DPBoost(1.0))
    assert weighed.selection_scale == plain.selection_scale / WEIGHT_STEPS


@pytest.mark.parametrize("variant", ["tight", "paper"])
def test_trees_that_no_row_drew_are_noised_too(variant):
    booster = train(dataset(X[:1], Y[:1]), lgb_dp.DPBoost(0.5, variant=variant), n_rounds=4, lambda_l2=1.0)
    assert all((leaf_values(booster, t) != 0).all() for t in range(4))


def test_a_tree_reads_the_codes_of_its_own_rows(monkeypatch):
    seen, grow = [], SquareLossTraining.grow_tree

    def noted(self, plan, codes, *rest):
        seen.append(len(plan.rows))
        np.testing.assert_array_equal(codes.codes, self.codes.take(plan.rows).codes)
        return grow(self, plan, codes, *rest)

    monkeypatch.setattr(SquareLossTraining, "grow_tree", noted)
    train(dataset(X, Y), lgb_dp.DPBoost(1.0), n_rounds=3)
    assert sum(seen) == len(X)
    assert max(seen) < len(X)
    train(dataset(X, Y), lgb_dp.DPBoost(1.0), n_rounds=1)
    assert seen[-1] == len(X)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(-8, 8), min_size=1, max_size=40), lambdas)
def test_filtering_moves_a_leaf_by_at_most_the_papers_theorem_5(gradient, lambda_l2):
    """|V(I) - V(I without the filtered)| ≤ p(|mean of the filtered| + g*), p their share: no term in |I|."""
    g = np.array(gradient)
    filtered = np.abs(g) > G_STAR

    def value(part):
        return -part.sum() / (len(part) + lambda_l2) if len(part) else 0.0

    error = abs(value(g) - value(g[~filtered]))
    of_filtered = abs(g[filtered].mean()) if filtered.any() else 0.0
    assert error <= filtered.mean() * (of_filtered + G_STAR) + 1e-9


@settings(max_examples=100, deadline=None)
@given(st.floats(0.001, 1), st.floats(-1, 1), lambdas)
def test_the_leaf_of_one_row_shrinks_as_the_papers_theorem_6_says_where_lambda_is_0(rate, label, lambda_l2):
    """The row's gradient shrinks by η/(1+λ) per tree: its leaf is below the clip for λ = 0, and for λ > 0
    only until (1 - η/(1+λ))^t > (1+λ)(1-η)^t, as the paper's proof takes the whole gradient for the leaf."""
    score, t = 0.0, np.arange(50)
    leaves = []
    for _ in t:
        leaves.append((label - score) / (1 + lambda_l2))
        score += rate * leaves[-1]
    clip = G_STAR * (1 - rate) ** t
    exact = abs(label) / (1 + lambda_l2) * (1 - rate / (1 + lambda_l2)) ** t
    np.testing.assert_allclose(np.abs(leaves), exact, atol=1e-9)
    if lambda_l2 == 0:
        assert (np.abs(leaves) <= clip + 1e-9).all()
    else:
        early = (1 - rate / (1 + lambda_l2)) ** t <= (1 + lambda_l2) * (1 - rate) ** t
        assert early[0]
        assert (np.abs(leaves) <= clip + 1e-9)[early].all()
