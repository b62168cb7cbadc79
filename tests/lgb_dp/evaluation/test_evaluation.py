"""Curves, groups, texts and pictures of an evaluation, and tables that are none."""

import numpy as np
import pytest

from lgb_dp.errors import InvalidArgumentError
from lgb_dp.evaluation.evaluation import PrivateEvaluation

EDGES = np.array([-1.0, 0.0, 1.0])
POINTS = np.array([[-2.0, -1.8, -1.5, -1.3, -1.1], [-0.9, -0.7, -0.5, -0.3, -0.1]])
POINTS = np.concatenate([POINTS, -POINTS[::-1, ::-1]])
COUNTS = np.array([[60.0, 10.0], [30.0, 15.0], [14.0, 33.0], [8.0, 55.0]])


@pytest.fixture
def evaluation():
    return PrivateEvaluation(EDGES, POINTS, COUNTS, 2.0)


def test_figures_are_those_of_the_table(evaluation):
    assert evaluation.n_rows.value == COUNTS.sum()
    assert evaluation.positives.value == pytest.approx(COUNTS[:, 1].sum() / COUNTS.sum())
    assert evaluation.accuracy.value == pytest.approx((60 + 30 + 33 + 55) / COUNTS.sum())
    assert 0.5 < evaluation.auc.value < 1
    assert 0 < evaluation.brier.value < 0.25
    assert evaluation.log_loss.value == pytest.approx(0.5, abs=0.1)
    rows = {(row["label"], row["predicted"]): row for row in evaluation.confusion()}
    assert [rows[pair]["rows"] for pair in ((0, 0), (0, 1), (1, 0), (1, 1))] == [90, 22, 25, 88]
    assert rows[1, 1]["share"].value == pytest.approx(88 / 113)
    assert rows[1, 1]["share"].low < 88 / 113 < rows[1, 1]["share"].high


def test_curves_begin_and_end_where_they_must(evaluation):
    false, true = evaluation.roc()
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert (np.diff(false) >= 0).all()
    assert (np.diff(true) >= 0).all()
    captured = [row["captured"].value for row in evaluation.lift()]
    assert captured == sorted(captured)
    assert captured[-1] == pytest.approx(1.0)
    rows = evaluation.calibration()
    assert [row["predicted"] for row in rows] == sorted(row["predicted"] for row in rows)
    assert sum(row["rows"] for row in rows) == COUNTS.sum()


def test_negative_counts_break_no_curve():
    noisy = PrivateEvaluation(EDGES, POINTS, COUNTS - 40, 40.0)
    assert np.isfinite(np.concatenate(noisy.roc())).all()
    assert str(noisy)
    assert noisy.calibration()


def test_texts_have_every_figure(evaluation):
    for text in (str(evaluation), evaluation._repr_html_()):
        assert all(name in text for name in evaluation.figures())


def test_the_table_is_read_back(evaluation):
    assert PrivateEvaluation.from_dict(evaluation.to_dict()).to_dict() == evaluation.to_dict()


@pytest.mark.parametrize(
    "change",
    [
        {"edges": [0.0, 0.0, 1.0]},
        {"edges": [0.0]},
        {"counts": [[1.0, 2.0]] * 3},
        {"counts": [[1.0, float("nan")]] * 4},
        {"points": [[0.0]] * 4},
        {"std": -1.0},
        {"std": "much"},
        {"std": 1e200},
        {"counts": [[1e300, 1.0]] * 4},
        {"points": [[1e300] * 5] * 4},
        {"alike": 0},
    ],
)
def test_tables_that_are_none_are_refused(evaluation, change):
    with pytest.raises((InvalidArgumentError, ValueError)):
        PrivateEvaluation.from_dict({**evaluation.to_dict(), **change})


def test_rows_that_may_be_alike_widen_every_interval(evaluation):
    apart = PrivateEvaluation(EDGES, POINTS, COUNTS, 0.0)
    alike = PrivateEvaluation(EDGES, POINTS, 9 * COUNTS, 0.0, alike=9)
    for name in ("positives", "AUC", "log-loss", "Brier score", "accuracy"):
        assert alike.figures()[name] == apart.figures()[name]


def test_a_picture_has_three_axes(evaluation):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    left, middle, right = evaluation.plot()
    assert "AUC" in left.get_title()
    assert middle.get_xlabel() == "predicted probability"
    assert "highest scores first" in right.get_xlabel()
    again = evaluation.plot(axes=(left, middle, right))
    assert again == (left, middle, right)
