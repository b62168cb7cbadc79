"""Figures of residuals from a noisy table."""

import numpy as np
import pytest
from scipy.special import ndtr

from lgb_dp.errors import InvalidArgumentError
from lgb_dp.evaluation.model import evaluation_from
from lgb_dp.evaluation.regression import LABEL_EDGES, RegressionEvaluation, residual_edges

EDGES, LABELS = residual_edges(10.0), np.full(16, 30.0)


def of_rows(residual, std=0.0):
    counts = np.bincount(np.searchsorted(EDGES, residual), minlength=len(EDGES) + 1).astype(float)
    noise = np.rint(np.random.default_rng(1).normal(0, std, len(counts))) if std else 0
    return RegressionEvaluation(EDGES, counts + noise, std, LABELS, std, 10.0)


def test_edges_are_finer_towards_zero():
    assert (np.diff(EDGES) > 0).all()
    assert 0.0 in EDGES
    assert np.diff(EDGES)[0] > 30 * np.diff(EDGES)[len(EDGES) // 2]


@pytest.mark.parametrize("std", [0, 3])
def test_figures_are_close_to_those_of_the_rows(std):
    residual = np.random.default_rng(0).normal(0.2, 1.0, 5000)
    evaluation = of_rows(residual, std)
    true = {"RMSE": np.sqrt((residual**2).mean()), "MAE": np.abs(residual).mean(), "bias": residual.mean()}
    for name, value in true.items():
        one = evaluation.figures()[name]
        assert one.low <= value <= one.high
        assert one.value == pytest.approx(value, rel=0.5)


@pytest.mark.parametrize(("n_rows", "std"), [(1000, 0.0), (3000, 5.0), (30_000, 5.0)])
@pytest.mark.parametrize("explained", [0.2, 0.9])
def test_the_interval_of_explained_variance_holds_it(n_rows, std, explained):
    rng, covered, deviation = np.random.default_rng(3), 0, 1.5
    for _ in range(200):
        predicted = np.sqrt(explained) * rng.normal(0, deviation, n_rows)
        label = predicted + np.sqrt(1 - explained) * rng.normal(0, deviation, n_rows)
        residuals = np.bincount(np.searchsorted(EDGES, label - predicted), minlength=len(EDGES) + 1)
        labels = np.bincount(np.searchsorted(LABEL_EDGES * 10 - 5, label), minlength=16)
        noise = rng.normal(0, std, len(residuals)), rng.normal(0, 2 * std, 16)
        found = RegressionEvaluation(EDGES, residuals + noise[0], std, labels + noise[1], 2 * std, 10.0)
        covered += found.r2.low <= explained <= found.r2.high
        assert found.r2.high <= 1
    assert covered >= 0.93 * 200


@pytest.mark.parametrize("alpha", [0.05, 0.3])
@pytest.mark.parametrize(
    ("n_rows", "std", "alike"), [(300, 0.0, 1), (300, 30.0, 1), (300, 0.0, 30), (3000, 5.0, 3)]
)
@pytest.mark.parametrize("kind", ["normal", "at edges"])
def test_intervals_hold_all_but_a_share_of_new_rows(alpha, n_rows, std, alike, kind):
    """Exactly: the probability beyond each edge is known, of persons whose rows have one residual."""
    k = np.arange(1, 16)
    beyond = (
        2 * ndtr(-(2.0 ** (-0.5 * k)) * 10 / 2) if kind == "normal" else np.minimum(1, 2.2 * alpha) + 0 * k
    )
    side = np.diff(np.concatenate([[0.0], beyond, [1.0]])) / 2
    shares, rng = np.concatenate([side, side[::-1]]), np.random.default_rng(5)
    missed = []
    for _ in range(1500):
        counts = alike * rng.multinomial(n_rows // alike, shares) + rng.normal(0, std, 32)
        reach = RegressionEvaluation(EDGES, counts, std, LABELS, std, 10.0, alike=alike).half_width(alpha)
        missed.append(0.0 if np.isinf(reach) else beyond[np.flatnonzero(np.isclose(-EDGES[:15], reach))[0]])
    assert np.mean(missed) <= alpha
    if n_rows > 300:
        assert np.mean(missed) > 0 or kind == "at edges"


def test_residuals_beyond_the_bounds_count_as_the_width():
    assert of_rows(np.full(100, 50.0)).mae.value <= 10.0


def test_the_table_is_read_back_and_drawn():
    evaluation = of_rows(np.linspace(-2, 2, 200))
    assert evaluation_from(evaluation.to_dict()).to_dict() == evaluation.to_dict()
    assert "RMSE" in evaluation._repr_html_()
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    assert "RMSE" in evaluation.plot().get_title()


def test_rows_that_may_be_alike_widen_every_interval():
    one = of_rows(np.random.default_rng(0).normal(size=500))
    alike = RegressionEvaluation(EDGES, 4 * one.counts, 0.0, 4 * LABELS, 0.0, 10.0, alike=4)
    assert (alike.rmse, alike.mae, alike.bias) == (one.rmse, one.mae, one.bias)


@pytest.mark.parametrize(
    "change",
    [
        {"counts": [1.0]},
        {"width": 1.0},
        {"width": 0.0},
        {"std": -1},
        {"labels": [1.0]},
        {"labels_std": np.inf},
        {"std": 1e300},
        {"alike": 0},
        {"edges": [0.0]},
        {"edges": list(range(31, 0, -1)), "width": 99.0},
    ],
)
def test_tables_that_are_none_are_refused(change):
    with pytest.raises(InvalidArgumentError):
        evaluation_from({**of_rows(np.zeros(9)).to_dict(), **change})
