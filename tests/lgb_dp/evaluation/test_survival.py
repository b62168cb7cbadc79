"""Curves and concordance of times from a noisy table: what they cover, and tables that are none."""

import numpy as np
import pytest

from gbdt_kernels.concordance import concordance
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.evaluation.model import evaluation_from
from lgb_dp.evaluation.survival import QUARTERS, SurvivalEvaluation
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.times import N_TIMES, TIMES, time_edges
from lgb_dp.newton.releases.held_out_rows import HeldOutCells, HeldOutRows

LOW, HIGH = 0.05, 40.0
SCALE = LabelScale("aft_logistic", 1, LOW, HIGH, of_objective={"aft_loss_distribution_scale": 0.5})
ENDS = time_edges(LOW, HIGH)


def table(score, lower, upper, n_bins=4):
    """Shares of rows by cell, as held-out rows are counted, and the edges of scores."""
    label, n = np.empty(len(score), TIMES), len(score)
    label["lower"], label["upper"] = lower, upper
    edges = np.quantile(score, np.arange(1, n_bins) / n_bins)
    rows = HeldOutRows(np.arange(n), label, np.ones(n, np.int64), np.zeros(n, np.int64))
    raw = (score - SCALE.centre) / SCALE.scale
    counts = rows.counts(HeldOutCells("scores, times", edges), SCALE, raw[:, None])
    return edges, counts.reshape(n_bins, -1) / n


def population(n, last, seed=0):
    """Scores that are somewhat off, times until an event or the end of a look, and Harrell's index."""
    random = np.random.default_rng(seed)
    score = random.normal(2, 1, size=n)
    time = np.exp(score + 0.5 * random.normal(size=n) + 0.6 * random.logistic(size=n))
    seen = np.minimum(random.uniform(0, last, size=n), HIGH)
    lower, upper = np.minimum(time, seen), np.where(time <= seen, time, np.inf)
    pairs, in_order = concordance(lower, upper, score)
    return score, lower, upper, in_order / pairs


@pytest.fixture
def evaluation():
    score, lower, upper, _ = population(2000, 60)
    edges, shares = table(score, lower, upper)
    return SurvivalEvaluation(edges, ENDS, 2000 * shares, 2.0)


@pytest.mark.parametrize("last", [5, 60])
@pytest.mark.parametrize(("n_rows", "n_bins", "std"), [(300, 4, 1.0), (1000, 4, 5.0), (6000, 8, 5.0)])
def test_intervals_hold_what_they_say(last, n_rows, n_bins, std):
    score, lower, upper, index = population(20_000, last)
    edges, shares = table(score, lower, upper, n_bins)
    true = [row["survived"].value for row in SurvivalEvaluation(edges, ENDS, 1e8 * shares, 0.0).survival()]
    rng, covered, of_curves = np.random.default_rng(2), 0, []
    for _ in range(100):
        drawn = rng.multinomial(n_rows, shares.ravel()).reshape(shares.shape)
        found = SurvivalEvaluation(edges, ENDS, drawn + np.rint(rng.normal(0, std, shares.shape)), std)
        covered += found.concordance.low <= index <= found.concordance.high
        ranges = [row["survived"] for row in found.survival()]
        of_curves += [one.low <= value <= one.high for one, value in zip(ranges, true, strict=True)]
    assert covered >= 93
    assert np.mean(of_curves) >= 0.93


def test_a_table_without_noise_gives_the_index_and_the_curves_of_its_rows():
    score, lower, upper, index = population(20_000, 60)
    edges, shares = table(score, lower, upper, 16)
    found = SurvivalEvaluation(edges, ENDS, 20_000 * shares, 0.0)
    assert found.concordance.value == pytest.approx(index, abs=0.005)
    assert found.events.value == pytest.approx(np.isfinite(upper).mean())
    # Kaplan and Meier's, of the quarter that scores lowest.
    is_first = score <= np.quantile(score, 0.25)
    order = np.argsort(lower[is_first])
    left = is_first.sum() - np.arange(is_first.sum())
    curve = np.append(1.0, np.cumprod(1 - np.isfinite(upper[is_first][order]) / left))
    expected = curve[np.searchsorted(lower[is_first][order], ENDS, side="right")]
    rows = [row for row in found.survival() if row["quarter"] == QUARTERS[0]]
    np.testing.assert_allclose([row["survived"].value for row in rows], expected, atol=0.01)
    assert rows[0]["rows"] == pytest.approx(5000, abs=1)


@pytest.mark.parametrize(
    ("lower", "upper", "place"),
    [
        (ENDS[3], ENDS[3], 3),
        (ENDS[3], np.inf, N_TIMES + 4),
        (0.0, LOW, 0),
        (0.0, np.inf, N_TIMES),
        (HIGH, HIGH, N_TIMES - 1),
        (HIGH, np.inf, 2 * N_TIMES),
        (ENDS[2], ENDS[8], 5),
    ],
)
def test_a_row_is_in_one_cell(lower, upper, place):
    _, counts = table(np.array([0.0]), lower, upper, 1)
    assert np.flatnonzero(counts).tolist() == [place]


@pytest.mark.parametrize("std", [0.0, 30.0])
def test_hidden_or_empty_tables_leave_the_whole_range(evaluation, std):
    noise = np.random.default_rng(0).normal(0, std, evaluation.counts.shape)
    hidden = SurvivalEvaluation(evaluation.edges, ENDS, 0 * evaluation.counts + noise, std)
    assert hidden.concordance.high - hidden.concordance.low > 0.9 or not std
    for row in hidden.survival():
        assert 0 == row["survived"].low <= row["survived"].value <= row["survived"].high == 1


def test_rows_that_may_be_alike_widen_every_interval(evaluation):
    apart = SurvivalEvaluation(evaluation.edges, ENDS, evaluation.counts, 2.0)
    alike = SurvivalEvaluation(evaluation.edges, ENDS, 9 * evaluation.counts, 18.0, alike=9)
    assert alike.concordance == apart.concordance
    assert alike.events == apart.events
    assert [row["survived"] for row in alike.survival()] == [row["survived"] for row in apart.survival()]


def test_the_table_is_read_back_and_drawn(evaluation):
    assert evaluation_from(evaluation.to_dict()).to_dict() == evaluation.to_dict()
    assert "concordance" in evaluation._repr_html_()
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = evaluation.plot()
    assert "concordance" in axes.get_title()
    assert len(axes.lines) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"edges": [0.0, 0.0, 1.0]},
        {"edges": [0.0]},
        {"times": [-1.0, *ENDS[1:]]},
        {"times": ENDS[:3]},
        {"times": [*ENDS[:-1], np.inf]},
        {"counts": [[1.0]]},
        {"std": -1.0},
        {"alike": 0},
    ],
)
def test_tables_that_are_none_are_refused(evaluation, change):
    with pytest.raises(InvalidArgumentError):
        evaluation_from({**evaluation.to_dict(), **change})
