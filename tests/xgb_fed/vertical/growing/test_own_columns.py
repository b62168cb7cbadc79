"""Columns of the active party: the splits found among them are XGBoost's."""

import numpy as np
import scipy.sparse

from compared_trees import compare, xgb_params
from vertical_training import assert_same_trees, parties_of, problem, stock, train
from xgb_fed.boosting.features import bin_features, read_columns


def test_an_active_party_alone():
    X, y = problem(missing=0.1)
    compare(xgb_params({}), X, y, ())


def test_mirrored_columns_and_few_values():
    """Many equal gains within a column, and between a column and its mirror image."""
    rng = np.random.default_rng(2)
    X = rng.integers(0, 4, (300, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = np.nan
    y = (np.nansum(X[:, :2], axis=1) > 3).astype(np.float32)
    compare(xgb_params({}), np.concatenate([X, -X], axis=1), y, (3, 5))


def test_columns_without_a_value_and_of_one_value():
    X, y = problem(missing=0.1)
    X[:, 1] = np.nan
    X[:, 4] = np.nan
    X[:, 5] = 7.0
    compare(xgb_params({}), X, y, (3,))
    X[::2, 5] = np.nan
    compare(xgb_params({}), X, y, (3,))


def test_sparse_columns():
    """Entries that are not stored are missing, stored zeros are zeros."""
    X, y = problem()
    rng = np.random.default_rng(3)
    X[rng.random(X.shape) < 0.7] = 0
    sparse = scipy.sparse.csr_matrix(X)
    sparse.data[::9] = 0
    params = xgb_params({})
    parties = parties_of([sparse[:, 3:]])
    model = train(params, sparse[:, :3], y, parties)
    assert_same_trees(model.export_booster(parties), stock(params, sparse, y))
    dense = sparse.toarray()
    dense[(sparse != 0).toarray() == 0] = np.nan
    stored = scipy.sparse.coo_matrix(sparse)
    dense[stored.row, stored.col] = stored.data
    got = model.predict(sparse[:, :3], parties)
    np.testing.assert_array_equal(model.predict(dense[:, :3], [parties[0].with_rows(dense[:, 3:])]), got)


def test_more_bins_than_a_byte_holds():
    """257 codes a feature, missing values included."""
    X, y = problem("reg:squarederror", n=1500, n_features=3, missing=0.1)
    compare({"objective": "reg:squarederror", "max_depth": 5, "max_bin": 256}, X, y, (1,), rounds=3)
    assert bin_features(read_columns(X[:, 1:]), 256).codes.dtype == np.uint16
