"""Columns of an initial model are those of the data."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import lgb_dp
from continued_models import QUIET, X, Y, fit


@pytest.mark.parametrize("odd", ["b", None, 1.5, (1,)])
def test_side_door_no_cell_decides_whether_an_init_model_of_lightgbms_own_can_be_read(odd):
    cells = np.where(Y > 0, "a", "b")
    plain = lgb.train(QUIET, lgb.Dataset(pd.DataFrame({"c": pd.Categorical(cells), "x": X[:, 0]}), Y), 3)
    column = pd.Series([*cells[:-1], odd], dtype=object)
    frame = pd.DataFrame({"c": column, "x": X[:, 0]})
    data = lgb_dp.Dataset(frame, Y, bounds=(-3, 3), categories={"c": ["b", "a"]}, free_raw_data=False)
    fit(data, init_model=plain)
    known = frame.assign(c=pd.Categorical(column.where(column.isin(["a", "b"])), ["a", "b"]))
    np.testing.assert_allclose(data.start_scores[:, 0], plain.predict(known, raw_score=True))


def test_category_columns_of_an_init_model_are_counted():
    frame = pd.DataFrame({"c": pd.Categorical(np.where(Y > 0, "a", "b")), "x": X[:, 0]})
    plain = lgb.train(QUIET, lgb.Dataset(frame, Y), 3)
    data = lgb_dp.Dataset(frame.assign(c=X[:, 1]), Y, bounds=(-3, 3), free_raw_data=False)
    with pytest.raises(ValueError, match=r"init_model has 1 category columns.*Dataset 0"):
        fit(data, init_model=plain)
