"""Differences between versions of XGBoost: the installed one does what its function says."""

import json
import warnings

import numpy as np
import pytest
import xgboost

from gbdt_hosts.xgboost import versions
from gbdt_hosts.xgboost.gradients import XGBoostGradients
from gbdt_hosts.xgboost.targets import Targets
from native_trees import read_trees
from xgb_fed.boosting.features import bin_features, read_columns

STUMPS = {"nthread": 1, "verbosity": 0, "tree_method": "hist", "base_score": 0.0, "max_depth": 1}

QUIET = {"nthread": 1, "tree_method": "hist", "verbosity": 0, "base_score": 0.0, "learning_rate": 1.0}


def one_tree(params, X, y, **info):
    data = xgboost.DMatrix(np.asarray(X, dtype=np.float32), label=np.asarray(y, dtype=np.float32), **info)
    return read_trees(xgboost.train({**QUIET, **params}, data, 1))[0]


def test_the_installed_version_is_read():
    assert f"{xgboost.__version__}.".startswith(f"{versions.arithmetic()}.")
    assert versions.installed() >= (2, 0)


@pytest.mark.parametrize(("version", "warned"), [((2, 0), 0), ((3, 4), 0), ((3, 5), 1), ((4, 0), 1)])
def test_a_newer_version_is_warned_of_once(version, warned):
    versions.warn_of_unknown_version.cache_clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            versions.warn_of_unknown_version(version)
    assert len(seen) == warned
    assert all(f"XGBoost {version[0]}.{version[1]} is newer than 3.4" in str(one.message) for one in seen)


def test_the_version_is_read_from_any_form(monkeypatch):
    monkeypatch.setattr(xgboost, "__version__", "3.12.0-dev")
    assert versions.installed() == (3, 12)
    assert versions.arithmetic() == "3.12"


def test_gains_of_limited_weights():
    # G = ∓8 and H = 4 on either side, α = 1, λ = 0, and weights that are limited to ±0.5.
    tree = one_tree(
        {"reg_alpha": 1, "reg_lambda": 0, "max_delta_step": 0.5, "max_depth": 1},
        np.repeat([[0], [1]], 4, axis=0),
        np.repeat([2, -2], 4),
    )
    side = 2 * 8 * 0.5 - 4 * 0.5**2
    penalty = 2 * 1 * 0.5 if versions.gains_are_those_of_weights() else 0
    assert tree["loss_changes"][0] == 2 * (side - penalty)


def test_a_light_root():
    tree = one_tree({"min_child_weight": 10, "reg_lambda": 1}, [[0], [1], [1]], [1, 1, 2])
    assert tree["left_children"] == [-1]
    assert tree["split_conditions"] == [1.0 if versions.light_nodes_have_weight() else 0.0]


def test_base_scores_of_light_rows():
    """Ten rows of 1 that weigh 1e-8 each."""
    data = xgboost.DMatrix(np.zeros((10, 1)), label=np.ones(10), weight=np.full(10, 1e-8))
    booster = xgboost.train({"objective": "reg:squarederror"}, data, 1)
    found = json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"]
    expected = 1e-7 / max(1e-7, versions.least_hessian_of_base_scores())
    assert float(found.strip("[]")) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("params", "quantile"),
    [
        ({"objective": "reg:absoluteerror"}, 3.0),
        ({"objective": "reg:quantileerror", "quantile_alpha": 0.9}, 9.0),
    ],
)
def test_leaves_of_absolute_and_quantile_error(params, quantile):
    tree = one_tree({**params, "max_depth": 1, "reg_lambda": 0}, np.zeros((3, 1)), [2, 3, 9])
    assert tree["left_children"] == [-1]
    assert (tree["split_conditions"][0] == quantile) == versions.leaves_are_quantiles()


def _pairwise():
    label = np.tile(np.arange(4, dtype=np.float32), 10)
    params = {"objective": "rank:pairwise", "lambdarank_pair_method": "mean"}
    return params, Targets(label, query_sizes=np.full(4, 10))


def test_pairs_of_ranking():
    """The first round of XGBoost's own training, with the base score given and with other seeds."""
    params, targets = _pairwise()
    rows = np.arange(targets.n_rows, dtype=np.float32)[:, None]
    fixed = {**QUIET, **params, "max_depth": 6, "min_child_weight": 0, "reg_lambda": 1}
    hessians = []
    for seed in (1, 2):
        booster = xgboost.Booster({**fixed, "seed": seed}, cache=[data := targets.matrix(rows)])
        for number in range(3):
            booster.update(data, number)
        hessians.append([tree["sum_hessian"][0] for tree in read_trees(booster)])
    assert (hessians[0] != hessians[1]) == versions.pairs_follow_seed()
    for seed, of_stock in zip((1, 2), hessians, strict=True):
        own = XGBoostGradients(params, targets, seed if versions.pairs_follow_seed() else None)
        _, h = own(np.zeros((targets.n_rows, 1), dtype=np.float32), 0)
        assert h.sum(dtype=np.float64) == pytest.approx(of_stock[0], rel=1e-6)


def test_where_gradients_go_on_drawing():
    """Gradients after so many draws are those of a booster that has drawn so often."""
    if not versions.pairs_follow_seed():
        pytest.skip("pairs do not follow from the seed")
    params, targets = _pairwise()
    own = XGBoostGradients(params, targets, seed=2**32 + 5)
    margin = np.zeros((targets.n_rows, 1), dtype=np.float32)
    booster = xgboost.Booster({**QUIET, **params, "seed": 2**32 + 5}, cache=[data := targets.matrix()])
    for draw in range(700):
        if draw in (0, 1, 623, 624, 699):
            _, h = own(margin, draw)
            copied = booster.copy()
            copied.update(data, draw)
            # One leaf, so that margins stay 0 but for rounding: all gradients are in its statistics.
            assert read_trees(copied)[-1]["sum_hessian"][0] == pytest.approx(h.sum(), rel=1e-5)
        booster.update(data, draw)
    assert len({own(margin, draw)[0].tobytes() for draw in (0, 1, 623, 624)}) == 4


def test_the_state_of_random_numbers_is_in_the_configuration():
    if not versions.pairs_follow_seed():
        pytest.skip("pairs do not follow from the seed")
    params, targets = _pairwise()
    data = targets.matrix()
    booster = xgboost.Booster({**params, "seed": 3}, cache=[data])
    state = json.loads(booster.save_config())["learner"]["generic_param"]["rng_state"].split()
    _, words, place = np.random.RandomState(3).get_state()[:3]
    assert [int(word) for word in state] == [*words.tolist(), place]


def test_lowest_bounds():
    data = np.array([[3], [4], [5], [np.nan]], dtype=np.float32)
    lower = bin_features(read_columns(data), 4).lower
    assert np.isneginf(lower).all() == versions.lowest_bounds_are_infinite()


def test_how_much_hessian_sides_of_vector_leaves_need():
    """A side whose first class has next to none: the mean over classes decides since 3.4."""
    X = np.repeat([[0], [1]], 50, axis=0).astype(np.float32)
    data = xgboost.DMatrix(X, label=np.zeros((100, 2)))
    params = {**STUMPS, "multi_strategy": "multi_output_tree", "min_child_weight": 60, "max_bin": 4}

    def gradients(margin, data):
        g = np.where(X == 0, [[1, 1]], [[-1, -1]]).astype(np.float32)
        return g, np.ones_like(g)

    def first_tree(objective):
        def shaped(margin, data):
            # Before 2.1 XGBoost takes the gradients of all classes one row after the other.
            return [x if versions.installed() >= (2, 1) else x.ravel() for x in objective(margin, data)]

        return read_trees(xgboost.train({**params, "num_target": 2}, data, 1, obj=shaped))[0]

    tree = first_tree(gradients)
    is_split = len(tree["left_children"]) > 1
    # Each side has 50 per class: not enough for the mean; before, such weights are 0, and so is the gain.
    assert not is_split
    params["min_child_weight"] = 40

    def uneven(margin, data):
        g, h = gradients(margin, data)
        h[:, 0] = np.where(X[:, 0] == 0, 1.6, 0.5)
        h[:, 1] = np.where(X[:, 0] == 0, 0.5, 1.6)
        return g, h

    tree = first_tree(uneven)
    assert len(tree["left_children"]) > 1
    if versions.installed() < (2, 1):
        return  # Models of 2.0 have no gains of vector leaves.
    light = np.float32(tree["loss_changes"][0])
    full = 2 * (50**2 / 81 + 50**2 / 26)
    assert (light == pytest.approx(full, rel=1e-5)) == versions.vector_leaves_share_hessians()
