"""What `gbdt_hosts.xgboost.versions` says of draws, bounds and vector leaves, tried out on this version."""

import numpy as np
import pytest
import xgboost

import xgb_fed
from gbdt_hosts.xgboost import draws, versions
from gbdt_hosts.xgboost.model import read_trees
from vertical_training import assert_same_trees, parties_of, stock, train
from xgb_fed.boosting.features import bin_features, read_columns
from xgb_fed.vertical.protocol.splits import Splits

QUIET = {"nthread": 1, "verbosity": 0, "tree_method": "hist", "base_score": 0.0, "max_depth": 1}


def missing_left():
    """Rows without a value are the larger ones, and a constraint forbids them to go right."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)).astype(np.float32)
    is_missing = rng.random(300) < 0.4
    X[is_missing, 4] = np.nan
    return X, (~is_missing ^ (rng.random(300) < 0.1)).astype(np.float32)


MONOTONE = {"objective": "binary:logistic", "max_depth": 3, "monotone_constraints": (0, 0, 0, 0, 1, 0)}


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


def test_lowest_bounds():
    data = np.array([[3], [4], [5], [np.nan]], dtype=np.float32)
    lower = bin_features(read_columns(data), 4).lower
    assert np.isneginf(lower).all() == versions.lowest_bounds_are_infinite()


@pytest.mark.parametrize("n_passive", [0, 3])
def test_missing_values_alone_go_left(n_passive, tmp_path):
    """Before, splits at -inf were lost: in exports as "splits that are none", and in files as damaged."""
    X, y = missing_left()
    parties = parties_of([X[:, 3:]]) if n_passive else []
    model = train(MONOTONE, X[:, :3] if n_passive else X, y, parties, 2)
    theirs = stock(MONOTONE, X, y, 2)
    assert_same_trees(model.export_booster(parties), theirs)
    thresholds = np.concatenate([tree["split_conditions"] for tree in read_trees(theirs)])
    assert np.isneginf(thresholds).any() == versions.lowest_bounds_are_infinite()
    splits = next(iter(parties[0]._splits_by_model.values())) if n_passive else model.splits
    splits.save(tmp_path / "a.splits.json")
    assert Splits.load(tmp_path / "a.splits.json").entries(0) == splits.entries(0)
    model.save(tmp_path / "model")
    again = xgb_fed.VerticalModel.load(tmp_path / "model")
    own = X[:, :3] if n_passive else X
    expected = theirs.predict(xgboost.DMatrix(X))
    np.testing.assert_allclose(again.predict(own, parties), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("threshold", "default_left"), [(np.inf, True), (np.nan, True), (-np.inf, False), (np.inf, False)]
)
def test_other_infinite_thresholds_are_no_splits(threshold, default_left, tmp_path):
    splits = Splits(["a"])
    splits.add(0, -np.inf, True)
    splits.save(tmp_path / "a.json")
    assert Splits.load(tmp_path / "a.json").rule(0).threshold == -np.inf
    splits.add(0, float(threshold), default_left)
    splits.save(tmp_path / "a.json")
    with pytest.raises(xgb_fed.CorruptDataError):
        Splits.load(tmp_path / "a.json")


def test_how_much_hessian_sides_of_vector_leaves_need():
    """A side whose first class has next to none: the mean over classes decides since 3.4."""
    X = np.repeat([[0], [1]], 50, axis=0).astype(np.float32)
    data = xgboost.DMatrix(X, label=np.zeros((100, 2)))
    params = {**QUIET, "multi_strategy": "multi_output_tree", "min_child_weight": 60, "max_bin": 4}

    def gradients(margin, data):
        g = np.where(X == 0, [[1, 1]], [[-1, -1]]).astype(np.float32)
        return g, np.ones_like(g)

    tree = read_trees(xgboost.train({**params, "num_target": 2}, data, 1, obj=gradients))[0]
    is_split = len(tree["left_children"]) > 1
    # Each side has 50 per class: not enough for the mean; before, such weights are 0, and so is the gain.
    assert not is_split
    params["min_child_weight"] = 40

    def uneven(margin, data):
        g, h = gradients(margin, data)
        h[:, 0] = np.where(X[:, 0] == 0, 1.6, 0.5)
        h[:, 1] = np.where(X[:, 0] == 0, 0.5, 1.6)
        return g, h

    tree = read_trees(xgboost.train({**params, "num_target": 2}, data, 1, obj=uneven))[0]
    assert len(tree["left_children"]) > 1
    light = np.float32(tree["loss_changes"][0])
    full = 2 * (50**2 / 81 + 50**2 / 26)
    assert (light == pytest.approx(full, rel=1e-5)) == versions.vector_leaves_share_hessians()
