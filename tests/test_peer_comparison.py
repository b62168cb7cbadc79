"""The comparison with peers: splits, ratings and encodings that say nothing about a model's quality."""

import shutil

import numpy as np
import pytest

from benchmarks.private import newton_folds, peer_data, peer_workers, private_peers, privtab_protocol
from lgb_dp.accounting.gaussian import gaussian_epsilon, gaussian_mu


def split_of(X, y, n_categories, bounds):
    low, high = np.array(bounds, dtype=float).T
    return peer_data.Split(
        "made", X, y, X[:1], y[:1], low, high, np.array(n_categories), "binary", (0.0, 1.0)
    )


def test_ten_games_of_eleven_are_four_hundred_points():
    reference = privtab_protocol.REFERENCE
    tasks = [{reference: 0.2, "other": 0.1}] * 10 + [{reference: 0.1, "other": 0.2}]
    found = privtab_protocol.ratings(tasks)
    assert found[reference] == pytest.approx(1000)
    assert found["other"] == pytest.approx(1400, abs=1)


def test_equal_errors_are_equal_ratings_and_order_does_not_matter():
    names = [privtab_protocol.REFERENCE, "b", "c"]
    tied = privtab_protocol.ratings([dict.fromkeys(names, 0.3)] * 4)
    assert list(tied.values()) == pytest.approx([1000] * 3, abs=0.01)
    mixed = [{"b": 0.1, names[0]: 0.2, "c": 0.3}, {"c": 0.1, names[0]: 0.2, "b": 0.3}, {"b": 0.1, "c": 0.2}]
    turned = [dict(reversed(task.items())) for task in reversed(mixed)]
    assert privtab_protocol.ratings(mixed) == pytest.approx(privtab_protocol.ratings(turned), abs=0.1)


@pytest.mark.parametrize("repeat", [0, 1])
def test_a_split_divides_every_class_and_has_every_row_once(repeat):
    X = np.arange(110.0)[:, None]
    y = (X[:, 0] >= 100).astype(float)
    whole = split_of(X[:90], y[:90], [0], [(0, 110)])
    whole = peer_data.replace(whole, X_test=X[90:], y_test=y[90:])
    part = privtab_protocol.divided(whole, repeat, 110)
    assert sorted([*part.X[:, 0], *part.X_test[:, 0]]) == list(range(110))
    assert (len(part.y), part.y.sum(), part.y_test.sum()) == (88, 8, 2)
    np.testing.assert_array_equal(part.y, part.X[:, 0] >= 100)


def test_a_split_of_fewer_rows_takes_random_ones_with_their_labels():
    X = np.arange(1000.0)[:, None]
    whole = split_of(X, (X[:, 0] >= 500).astype(float), [0], [(0, 1000)])
    part = privtab_protocol.divided(whole, 0, 100)
    rows = np.concatenate([part.X[:, 0], part.X_test[:, 0]])
    assert len(np.unique(rows)) == 100
    assert 20 < (rows < 500).sum() < 80
    np.testing.assert_array_equal(part.y, part.X[:, 0] >= 500)
    np.testing.assert_array_equal(part.y_test, part.X_test[:, 0] >= 500)


def test_splits_of_other_repeats_differ():
    X = np.arange(50.0)[:, None]
    whole = split_of(X, (X[:, 0] % 2 == 0).astype(float), [0], [(0, 50)])
    first, second = (privtab_protocol.divided(whole, repeat, 50).X_test for repeat in (0, 1))
    assert not np.array_equal(first, second)


def test_deviations_within_folds_leave_out_those_between_them():
    # Folds 0 and 1 in turn: deviations of ±1 and ±2 around means of 2 and 102, with two degrees of freedom.
    found = np.array([1.0, 100.0, 3.0, 104.0])
    assert newton_folds.deviation_within(found, 2) == pytest.approx(np.sqrt((2 + 8) / 2))
    assert newton_folds.deviation_within(found[:3], 2) == pytest.approx(np.sqrt(2))
    assert np.isnan(newton_folds.deviation_within(found, 5))


def test_fewer_rows_of_a_fold_are_its_first_with_their_labels():
    X = np.arange(9.0)[:, None]
    whole = split_of(X, X[:, 0] * 2, [0], [(0, 9)])
    part = newton_folds.training_rows(whole, 4)
    np.testing.assert_array_equal(np.column_stack([part.X[:, 0], part.y]), [[0, 0], [1, 2], [2, 4], [3, 6]])
    assert len(part.y_test) == 1
    assert len(newton_folds.training_rows(whole, None).y) == 9


@pytest.mark.parametrize("bounds", [(0, 10), (-4, 10), (2, 10), (-9, -1), (3, 3)])
def test_features_of_networks_stay_between_minus_one_and_one(bounds):
    X = np.array([[-1e9, 0], [bounds[0], 1], [np.nan, np.nan], [bounds[1], 2], [1e9, 1]], dtype=float)
    data = split_of(X, np.zeros(5), [0, 3], [bounds, (0, 2)])
    found = peer_workers.standardised(data, X)
    assert found.shape == (5, 5)
    assert np.abs(found).max() <= 1 + 1e-12
    np.testing.assert_array_equal(found[2, 2:], 0)  # a missing category is none of them
    np.testing.assert_array_equal(found[0], [*found[1, :2], 1, 0, 0])  # a value beyond a bound is the bound
    np.testing.assert_array_equal(found[2, :2], found[1, :2])


def test_log_loss_is_that_of_the_labels_and_finite_where_a_learner_is_certain():
    label = np.array([1.0, 0.0, 1.0])
    assert peer_workers.log_loss(label, np.full(3, 0.5)) == pytest.approx(np.log(2))
    assert peer_workers.log_loss(label, np.array([0.8, 0.3, 0.9])) == pytest.approx(
        -np.log([0.8, 0.7, 0.9]).mean()
    )
    assert peer_workers.log_loss(label, 1 - label) == pytest.approx(-np.log(1e-6))


def test_learners_of_equal_requirements_share_an_environment():
    folders = {name: private_peers.folder_of(name) for name in private_peers.REQUIREMENTS}
    assert folders["DP logistic regression"] == folders["DP perceptron"]
    assert len(set(folders.values())) == len(set(private_peers.REQUIREMENTS.values()))
    assert set(private_peers.REQUIREMENTS) <= set(peer_workers.LEARNERS)


def test_a_peer_whose_environment_fails_is_skipped_by_name(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(private_peers, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(private_peers.sys, "executable", shutil.which("false"))
    assert private_peers.run_learner("DP-EBM", tmp_path / "none.npz", 0, [1.0], 5.0) == []
    assert "no environment for DP-EBM" in "".join(capsys.readouterr())
    assert not private_peers.is_installed("DP-EBM")


def test_a_run_of_some_learners_keeps_the_columns_of_the_others(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("data,ε,NewtonBoost,DP-EBM,LightGBM\na,1,0.8,0.7,0.9\nb,1,-2.0,-3.0,-1.0\n")
    columns, body = private_peers.with_old_columns(
        path,
        ["data", "ε", "DP-EBM", "DP perceptron"],
        [["a", "1", "-", "0.85 ± 0.010"], ["a", "4", "0.9", "-"]],
    )
    assert columns == ["data", "ε", "NewtonBoost", "DP-EBM", "DP perceptron", "LightGBM"]
    assert body == [
        ["a", "1", "0.8", "0.7", "0.85 ± 0.010", "0.9"],
        ["b", "1", "-2.0", "-3.0", "-", "-1.0"],
        ["a", "4", "-", "0.9", "-", "-"],
    ]
    # LightGBM is not private, and a cell without the learner is not lost.
    assert private_peers.lost(columns, body, "NewtonBoost") == ["a, ε = 1: 0.800, DP perceptron 0.850"]
    assert private_peers.lost(columns, body, "DP-EBM") == [
        "a, ε = 1: 0.700, DP perceptron 0.850",
        "b, ε = 1: -3.000, NewtonBoost -2.000",
    ]


def test_a_table_without_a_file_is_its_own(tmp_path):
    table = ["data", "ε", "NewtonBoost"], [["a", "1", "0.8"]]
    assert private_peers.with_old_columns(tmp_path / "none.csv", *table) == table


@pytest.mark.parametrize("mu", privtab_protocol.MUS)
def test_half_of_mu_is_spent_under_adding_or_removing_a_row(mu):
    """Replacing a row is a removal and an addition: μ/2 twice, which for one mean shift is μ."""
    epsilon = gaussian_epsilon(mu / 2, peer_workers.DELTA)
    assert gaussian_mu(epsilon, peer_workers.DELTA) == pytest.approx(mu / 2, rel=1e-6)
