"""Bins, label scales, initial scores and categories come from public inputs only."""

import numpy as np
import pandas as pd
import pytest

import lgb_dp
from lgb_dp.dpboost.square_loss import quantise_gradients
from small_training import binary_data, dataset, train

X, Y = binary_data()


def test_the_first_gradients_start_from_zero_whatever_the_labels(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "lgb_dp.dpboost.square_loss.quantise_gradients",
        lambda g, w: seen.append(g.copy()) or quantise_gradients(g, w),
    )
    train(dataset(X, np.ones(len(X))), lgb_dp.DPBoost(1.0), n_rounds=1)
    assert (seen[0] == -1.0).all()


@pytest.mark.parametrize("rows", [list("xy") * 200, list("w") * 300])
@pytest.mark.parametrize("categories", [{"a": list("wxyz")}, {"a": "dtype"}])
def test_the_model_file_holds_the_declared_categories_of_a_dtype(rows, categories):
    frame = pd.DataFrame({"a": pd.Categorical(rows, categories=list("wxyz")), "b": 0.5})
    data = lgb_dp.Dataset(frame, Y[: len(rows)], categories=categories, bounds={"b": (0, 1)})
    text = train(data, lgb_dp.DPBoost(1.0)).model_to_string()
    (line,) = [line for line in text.splitlines() if line.startswith("pandas_categorical")]
    assert line == 'pandas_categorical:[["w", "x", "y", "z"]]'
