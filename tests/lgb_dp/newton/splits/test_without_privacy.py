"""Without privacy, structures are fitted to the rows; with privacy, nothing but releases decides them."""

import lightgbm as lgb
import numpy as np
import pytest
from scipy.special import softmax

import lgb_dp
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.settings import exact_depth, exact_rate
from lgb_dp.newton.splits.without_privacy import ExactSplits
from newton_training import DELTA, QUIET, boosted
from small_training import dataset

ROWS = np.random.default_rng(3).uniform(-2, 2, (600, 6))
CORNER = ((ROWS[:, 1] > 0.3) & (ROWS[:, 4] > 0.5)).astype(float)


@pytest.mark.filterwarnings("ignore::lgb_dp.PrivacyLeakWarning")
def test_trees_find_an_interaction():
    params = {"learning_rate": 0.3}
    booster = boosted(dataset(ROWS, CORNER), epsilon=np.inf, n_rounds=20, params=params, random_state=0)
    roots = [tree["tree_structure"]["split_feature"] for tree in booster.dump_model()["tree_info"]]
    # A node tries half of the features: four of five nodes see at least one of the two.
    assert np.isin(roots, [1, 4]).sum() >= 13
    assert ((booster.predict(ROWS) > 0.5) == CORNER).mean() > 0.95


@pytest.mark.filterwarnings("ignore::lgb_dp.PrivacyLeakWarning")
@pytest.mark.parametrize("params", [{"objective": "regression"}, {"objective": "multiclass", "num_class": 3}])
def test_other_objectives_are_fitted_too(params):
    label = CORNER + (ROWS[:, 2] > 1)
    bounds = {"label_bounds": (0, 2)} if params["objective"] == "regression" else {}
    data = lgb_dp.Dataset(ROWS, label, bounds=(-2, 2), **bounds)
    trainer = lgb_dp.NewtonBoost(np.inf, DELTA, random_state=0)
    booster = lgb.train({**QUIET, **params, "learning_rate": 0.3}, data, 60, callbacks=[trainer])
    predicted = booster.predict(ROWS)
    predicted = predicted.argmax(axis=1) if predicted.ndim == 2 else np.rint(predicted)
    assert (predicted == label).mean() > 0.9


def test_gradients_are_asked_for_at_the_scores_of_the_model(monkeypatch):
    """Start scores, the prior and the trees so far, also of a continued model."""
    asked = []
    drawn = ExactSplits.draw

    def draw(self, random, ahead=0):
        tree = drawn(self, random, ahead)
        asked.append(self._scores.score.copy())
        return tree

    monkeypatch.setattr(ExactSplits, "draw", draw)
    first = boosted(dataset(ROWS, CORNER), epsilon=np.inf, n_rounds=3)
    second = lgb.train(
        QUIET, dataset(ROWS, CORNER), 2, init_model=first, callbacks=[lgb_dp.NewtonBoost(np.inf, DELTA)]
    )
    # All rows are followed, in their order.
    for score, (model, n) in zip(asked[1:3] + asked[3:4], [(first, 1), (first, 2), (first, 3)], strict=True):
        np.testing.assert_allclose(score[:, 0], model.predict(ROWS, raw_score=True, num_iteration=n))
    np.testing.assert_allclose(
        asked[4][:, 0], second.predict(ROWS, raw_score=True, num_iteration=4), atol=1e-9
    )


def test_a_private_run_never_sees_rows_this_way(monkeypatch):
    def refuse(*args):
        raise AssertionError("rows were read")

    monkeypatch.setattr("lgb_dp.newton.core.ExactSplits", refuse)
    boosted(dataset(ROWS, CORNER), epsilon=1e6, n_rounds=3)
    for structure in ("random", "cyclic"):
        boosted(dataset(ROWS, CORNER), epsilon=np.inf, n_rounds=3, structure=structure)


def test_trees_without_gradients_keep_random_splits():
    data = dataset(ROWS, CORNER).construct()
    flat = ExactSplits(
        data.bins,
        3,
        data.codes,
        np.zeros((600, 2)),
        [],
        lambda rows, score: np.stack([np.zeros_like(score), softmax(score, axis=1)], axis=2),
    )
    tree = flat.draw(SecureRandom(0))
    assert len(tree.feature) == 7
    assert (tree.cell == -1).all()


def test_steps_are_longer_and_trees_deeper_with_more_rows():
    assert [exact_depth(n) for n in (10, 33_000, 1e9)] == [3, 6, 8]
    assert exact_rate(25_000, 1000) == pytest.approx(0.02)
    assert exact_rate(400_000, 1000) == pytest.approx(0.16)
    assert exact_rate(100, 20) == pytest.approx(0.15)
    assert exact_rate(1e12, 10) == 0.3
