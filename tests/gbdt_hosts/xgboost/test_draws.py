"""Rows and columns are drawn from the streams that XGBoost draws from."""

import numpy as np
import xgboost

from gbdt_hosts.xgboost import draws, versions
from native_trees import read_trees

QUIET = {"nthread": 1, "verbosity": 0, "tree_method": "hist", "base_score": 0.0, "max_depth": 1}


def test_which_stream_rows_are_drawn_from():
    """Columns that are drawn move the rows of the next tree if both come from one stream."""
    X = np.arange(200, dtype=np.float32)[:, None] * np.ones(8, dtype=np.float32)
    data = xgboost.DMatrix(X, label=X[:, 0])
    n_rows = []
    for share in (1.0, 0.5):
        params = {**QUIET, "seed": 3, "subsample": 0.5, "colsample_bytree": share, "min_child_weight": 1000}
        n_rows.append([tree["sum_hessian"][0] for tree in read_trees(xgboost.train(params, data, 4))])
    assert n_rows[0][0] == n_rows[1][0]
    assert (n_rows[0] != n_rows[1]) == versions.draws_come_from_one_stream()
    assert isinstance(draws.draws_of(3), draws.OneStream) == versions.draws_come_from_one_stream()


def test_draws_go_on_where_they_were():
    for kind in (draws.OneStream, draws.SeparateStreams):
        whole, columns = kind(7), np.arange(1500)
        first = [whole.some_of(columns, 5) for _ in range(2)]
        again = kind(7, whole.n_taken)
        np.testing.assert_array_equal(again.some_of(columns, 5), whole.some_of(columns, 5))
        np.testing.assert_array_equal(again.rows(2, 50, 0.5), whole.rows(2, 50, 0.5))
        assert first[0].tolist() != first[1].tolist()
