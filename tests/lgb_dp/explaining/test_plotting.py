"""Pictures of effects and importances."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import lgb_dp
from explained import estimator


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
