"""Pictures of effects, importances, and rows between bounds."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import lgb_dp
from explained import SCORE, X, estimator
from small_training import dataset, train


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_each_feature_has_axes_of_its_own():
    found = lgb_dp.effects(estimator(), n=2)
    axes = lgb_dp.plot_effects(found)
    assert [ax.get_title() for ax in axes] == list(found)
    assert np.array_equal(axes[0].lines[1].get_ydata(), found["a"].effect[:, 0])
    assert len(axes[0].collections) == 1  # the band
    (given,) = lgb_dp.plot_effects(estimator("multiclass"), ["kind"], n=2, axes=plt.subplots()[1])
    assert len(given.containers) == 3  # error bars of each class
    assert [tick.get_text() for tick in given.get_xticklabels()] == ["0", "1", "2"]


def test_the_floor_is_a_line_and_noise_is_grey():
    found = lgb_dp.importances(estimator(), n=8, random_state=1)
    ax = lgb_dp.plot_importance(found, max_num_features=3)
    order = np.argsort(found.gain)[-3:]
    assert [bar.get_width() for bar in ax.containers[0]] == found.gain[order].tolist()
    (line,) = [one for one in ax.patches if hasattr(one, "get_data")]
    assert np.array_equal(line.get_data().values, found.floor[order])
    grey = [bar.get_facecolor()[0] == 0.75 for bar in ax.containers[0]]
    assert grey == (~found.stands_out[order]).tolist()
    assert lgb_dp.plot_importance(estimator(), n=8, ax=ax) is ax


def test_rows_between_bounds_are_those_that_were_released(tmp_path):
    rows = np.tile(np.column_stack([X[:, 0], X[:, 0].clip(0, 9), X[:, 4], X[:, 4]]), (5, 1))
    rows[:4000, 2] = np.nan
    bounds = {0: (-1, 1), 1: (0, 1e4), 3: (0, 2)}
    data = lgb_dp.Dataset(
        rows,
        np.tile(SCORE > 0, 5),
        bounds=bounds,
        categories={2: range(3)},
        max_bin={0: 64, 1: 255, 3: 4},
        spacing="mixed",
    )
    model = train(data, lgb_dp.NewtonBoost(200.0, 1e-6), 20)
    model.save_model(path := tmp_path / "model.txt")
    narrow, wide, kinds, few = lgb_dp.plot_bounds(path)
    assert [ax.get_title() for ax in lgb_dp.plot_bounds(model, ["Column_2", 0])] == ["Column_2", "Column_0"]
    heights = [bar.get_height() for bar in narrow.patches]
    assert sum(heights) == pytest.approx(1, abs=0.02)
    assert heights[0] == pytest.approx((rows[:, 0] <= -0.95).mean(), abs=0.02)
    assert [bar.get_facecolor() for bar in narrow.patches].count(narrow.patches[0].get_facecolor()) == 2
    assert [line.get_xdata()[0] for line in narrow.lines[:2]] == [-1, 1]
    assert (narrow.get_xscale(), wide.get_xscale()) == ("linear", "asinh")
    assert "declared 20" in kinds.get_xlabel()
    assert len(kinds.containers) == len(few.containers) == 2  # bars and how far noise reaches
    assert [tick.get_text()[0] for tick in few.get_xticklabels()] == [*"≤" * (len(few.patches) - 1), ">"]


def test_histograms_that_noise_would_have_hidden_are_named():
    model = train(dataset(X[:300], SCORE[:300] > 0), lgb_dp.NewtonBoost(0.1, 1e-6))
    for features in (None, [1]):
        with pytest.raises(lgb_dp.UnsupportedParameterError, match="Column_1"):
            lgb_dp.plot_bounds(model, features)
