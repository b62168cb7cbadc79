"""Figures of residuals from a noisy table."""

import numpy as np
import pytest

from lgb_dp.errors import InvalidArgumentError
from lgb_dp.evaluation.model import evaluation_from
from lgb_dp.evaluation.regression import RegressionEvaluation, residual_edges

EDGES = residual_edges(10.0)


def of_rows(residual, std=0.0):
    counts = np.bincount(np.searchsorted(EDGES, residual), minlength=len(EDGES) + 1).astype(float)
    noise = np.rint(np.random.default_rng(1).normal(0, std, len(counts))) if std else 0
    return RegressionEvaluation(EDGES, counts + noise, std, 10.0)


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
    alike = RegressionEvaluation(EDGES, 4 * one.counts, 0.0, 10.0, 4)
    assert (alike.rmse, alike.mae, alike.bias) == (one.rmse, one.mae, one.bias)


@pytest.mark.parametrize(
    "change",
    [
        {"counts": [1.0]},
        {"width": 1.0},
        {"width": 0.0},
        {"std": -1},
        {"std": 1e300},
        {"alike": 0},
        {"residuals": [0.0]},
        {"residuals": list(range(31, 0, -1)), "width": 99.0},
    ],
)
def test_tables_that_are_none_are_refused(change):
    with pytest.raises(InvalidArgumentError):
        evaluation_from({**of_rows(np.zeros(9)).to_dict(), **change})
