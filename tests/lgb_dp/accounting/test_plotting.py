"""Plots of what a budget buys."""

import pytest

import lgb_dp
from reports_of_models import DELTA, X, Y
from small_training import dataset, train


def test_plots_show_every_method_and_every_release():
    axes = lgb_dp.plot_utility({"a": {0.1: [0.7, 0.8], 1.0: [0.9]}, "b": {1.0: [0.5]}}, metric="accuracy")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert axes.get_ylabel() == "accuracy"
    assert axes.lines[0].get_ydata().tolist() == [0.75, 0.9]
    booster = train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, DELTA))
    axes = lgb_dp.plot_budget(booster.privacy)
    shares = [bar.get_width() for bar in axes.patches]
    assert shares == pytest.approx([0.01, 0.99], rel=1e-6)
    pure = lgb_dp.plot_budget(train(dataset(X, Y), lgb_dp.DPBoost(1.0)).privacy)
    assert sum(bar.get_width() for bar in pure.patches) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="results"):
        lgb_dp.plot_utility({})
