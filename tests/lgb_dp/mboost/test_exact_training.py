"""MBoost at infinite epsilon trains exactly, and says that it is not private."""

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from lgb_dp.mboost.trainer import stopped_at_purity
from small_training import binary_data, dataset, field, leaf_values, train

X, Y = binary_data()


def best_split(x, weight, sign, alpha, edges):
    """Smallest risk over thresholds, by the definition."""
    loss = lgb_dp.MLoss(alpha)

    def risk(mask):
        total = weight[mask].sum()
        return total * loss.bayes_risk(weight[mask & (sign > 0)].sum() / total) if total else 0.0

    return min(risk(x <= edge) + risk(x > edge) for edge in edges)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_exact_training_takes_the_best_split(alpha):
    one = X[:, :1]
    booster = train(
        dataset(one, Y), lgb_dp.MBoost(np.inf, alpha=alpha), n_rounds=1, max_depth=1, learning_rate=1.0
    )
    edges = np.linspace(-3, 3, 9)[1:-1]
    chosen = field(booster, "threshold")[0]
    weight, sign = np.full(len(Y), 0.5), 2 * Y - 1
    assert best_split(one[:, 0], weight, sign, alpha, [chosen]) == pytest.approx(
        best_split(one[:, 0], weight, sign, alpha, edges)
    )


def test_exact_training_is_deterministic_and_said_not_to_be_private():
    a, b = (train(dataset(X, Y), lgb_dp.MBoost(np.inf), n_rounds=5, max_depth=4) for _ in range(2))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert np.mean((a.predict(X) > 0.5) == Y) > 0.9
    assert not a.privacy.private
    assert a.privacy.epsilon == np.inf
    assert "without privacy" in a.privacy.reasons[0]
    later = lgb.train(
        {"objective": "binary", "max_depth": 2, "verbosity": -1},
        dataset(X, Y),
        1,
        init_model=a,
        callbacks=[lgb_dp.MBoost(1.0)],
    )
    assert later.privacy.epsilon == np.inf
    assert not later.privacy.private


def test_exact_training_with_the_papers_coefficient_lowers_the_surrogate():
    loss = lgb_dp.MLoss(1.0)
    trainer = lgb_dp.MBoost(np.inf, alpha=1.0, leverage="noised", leaf_bound=2.0)
    booster = train(dataset(X, Y), trainer, n_rounds=20, max_depth=2, learning_rate=1.0)
    values = [
        loss.surrogate((2 * Y - 1) * booster.predict(X, raw_score=True, num_iteration=t)).mean()
        for t in range(1, 21)
    ]
    assert values[0] < 1
    assert (np.diff(values) < 0).all()


def test_pure_and_empty_nodes_pass_their_weights_on():
    levels = [np.array([[5, 5]]), np.array([[5, 0], [0, 5]]), np.array([[2, 0], [3, 0], [0, 0], [0, 5]])]
    assert stopped_at_purity(levels).tolist() == [[5, 0], [5, 0], [0, 5], [0, 5]]
    levels[1] = np.array([[5, 5], [0, 0]])
    levels[2] = np.array([[4, 1], [1, 4], [0, 0], [0, 0]])
    assert stopped_at_purity(levels).tolist() == [[4, 1], [1, 4], [5, 5], [5, 5]]


def test_a_pure_node_is_not_split_without_privacy():
    """Four levels, but the first separates the classes: two values only."""
    rows = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    booster = train(dataset(rows, [0, 0, 1, 1]), lgb_dp.MBoost(np.inf), n_rounds=1, max_depth=4)
    assert len(np.unique(leaf_values(booster))) == 2
    assert booster.predict([[-3], [-2], [-1], [1], [2], [3]]).round().tolist() == [0, 0, 0, 1, 1, 1]
