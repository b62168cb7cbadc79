"""Figures, texts and pictures of an evaluation of several classes, and tables that are none."""

import numpy as np
import pytest

from lgb_dp.errors import InvalidArgumentError
from lgb_dp.evaluation.several_classes import LOSS_EDGES, MulticlassEvaluation

SHARES = np.array([[0.2, 0.1, 0.0], [0.05, 0.3, 0.05], [0.0, 0.1, 0.2]])
CONFIDENCE = np.array([0, 0, 0, 0.1, 0.2, 0.3, 0.3, 0.1])
LOSSES = np.diff(np.append(np.exp(-np.append(0.0, LOSS_EDGES)), 0.0)) * -1


def table(n_rows=3000, std=0.0, seed=None, alike=1):
    rng = np.random.default_rng(seed)
    shares = SHARES[:, :, None] * CONFIDENCE
    counts, losses = n_rows * shares, n_rows * LOSSES
    if seed is not None:
        counts, losses = rng.multinomial(n_rows, shares.ravel()), rng.multinomial(n_rows, LOSSES)
        counts = counts.reshape(shares.shape) + rng.normal(0, std, shares.shape)
        losses = losses + rng.normal(0, 2 * std, losses.shape)
    return MulticlassEvaluation(alike * counts, std, alike * losses, 2 * std, alike=alike)


def test_figures_are_those_of_the_table():
    found = table()
    assert found.n_rows.value == pytest.approx(3000)
    assert found.accuracy.value == pytest.approx(0.7)
    # Losses of such shares are exponential, of mean 1.
    assert found.log_loss.value == pytest.approx(1.0, abs=0.03)
    confusion = {(row["label"], row["predicted"]): row for row in found.confusion()}
    assert confusion[1, 2]["rows"] == pytest.approx(150)
    assert confusion[1, 1]["share"].value == pytest.approx(0.75)
    assert all(row["observed"].value == pytest.approx(0.7) for row in found.calibration() if row["rows"])
    assert all(name in str(found) for name in found.figures())


@pytest.mark.parametrize(("n_rows", "std"), [(300, 5.0), (3000, 5.0), (30_000, 0.5)])
def test_intervals_hold_the_true_figures(n_rows, std):
    covered = np.zeros(3)
    for seed in range(300):
        found = table(n_rows, std, seed)
        share = found.confusion()[4]["share"]
        ranges = zip((found.accuracy, found.log_loss, share), (0.7, 1.0, 0.75), strict=True)
        covered += [one.low <= true <= one.high for one, true in ranges]
    assert covered.min() >= 0.92 * 300


def test_rows_that_may_be_alike_widen_every_interval():
    apart, alike = table().figures(), table(alike=4).figures()
    assert all(alike[name] == apart[name] for name in ("accuracy", "log-loss"))


def test_the_tables_are_read_back():
    assert MulticlassEvaluation.from_dict(table(seed=1).to_dict()).to_dict() == table(seed=1).to_dict()


@pytest.mark.parametrize(
    "change",
    [
        {"counts": [[[0.0] * 8]]},
        {"counts": [[[0.0] * 8] * 2] * 3},
        {"counts": [[[np.inf] * 8] * 2] * 2},
        {"losses": [1.0]},
        {"losses_std": -1.0},
        {"std": np.nan},
        {"alike": 0},
    ],
)
def test_tables_that_are_none_are_refused(change):
    with pytest.raises(InvalidArgumentError, match="evaluation"):
        MulticlassEvaluation.from_dict({**table().to_dict(), **change})


def test_a_picture_has_two_axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    left, right = table().plot()
    assert left.get_ylabel() == "label"
    assert "right" in right.get_ylabel()
