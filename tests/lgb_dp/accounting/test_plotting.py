"""Plots of what a budget buys."""

import pytest

import lgb_dp
from reports_of_models import DELTA, X, Y
from small_training import dataset, train


def test_plots_show_every_release():
    booster = train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, DELTA))
    axes = lgb_dp.plot_budget(booster.privacy)
    shares = [bar.get_width() for bar in axes.patches]
    assert shares == pytest.approx([0.01, 0.99], rel=1e-6)
    pure = lgb_dp.plot_budget(train(dataset(X, Y), lgb_dp.DPBoost(1.0)).privacy)
    assert sum(bar.get_width() for bar in pure.patches) == pytest.approx(1.0)
