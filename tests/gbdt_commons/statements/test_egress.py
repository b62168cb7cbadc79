"""For output checkers: rates that no attack exceeds, facts of the structure, and no leave without noise."""

import json

import lightgbm
import numpy as np
import pytest
from scipy.stats import norm

import lgb_dp
from gbdt_commons.statements.egress import KEEP, RELEASE, egress, save_egress
from small_training import binary_data
from stated_models import made_in
from veilboost.command_line import main
from veilboost.model_statements import statement_of

X, Y = binary_data(200)
RATES = np.array([0.001, 0.01, 0.1])


def stated(*trainers, objective="binary"):
    params = {"objective": objective, "verbosity": -1, "max_depth": 2}
    data = lgb_dp.Dataset(X, Y, bounds=(-3.0, 3.0))
    booster = lightgbm.train(params, data, 3, callbacks=list(trainers))
    return booster, egress(lgb_dp.statement(booster))


def rates(found, relation=""):
    return np.array(list(found[f"true_positive_rate_at_most{relation}"].values()))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_rates_of_gaussian_releases_are_the_trade_off_function_s_and_twice_mu_where_one_is_replaced(epsilon):
    booster, found = stated(lgb_dp.NewtonBoost(epsilon, 1e-5))
    for relation, n_steps in (("", 1), ("_replacing_one", 2)):
        exact = norm.sf(norm.isf(RATES) - n_steps * booster.privacy.cost.mu)
        assert (rates(found, relation) >= exact).all()
        np.testing.assert_allclose(rates(found, relation), exact, rtol=2e-3, atol=2e-4)
    assert found["recommendation"] == RELEASE


def test_no_attack_on_a_laplace_sum_finds_more_than_the_rate_of_its_epsilon():
    _, found = stated(lgb_dp.DPBoost(1.0))
    np.testing.assert_allclose(rates(found), np.e * RATES, atol=1e-4)
    # The best attack on a sum of one replaced row tells two Laplace distributions of two scales apart.
    noise = np.random.default_rng(0).laplace(size=200_000)
    for fpr, limit in zip(RATES, rates(found, "_replacing_one"), strict=True):
        attack = np.mean(noise + 2.0 > np.quantile(noise, 1 - fpr))
        assert 0.75 * limit < attack < limit + 4 * np.sqrt(limit / noise.size)


def test_structure_is_that_of_the_trees():
    booster, found = stated(lgb_dp.NewtonBoost(1.0, 1e-5))
    trees = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    leaves = [leaf for tree in trees for leaf in leaves_of(tree)]
    n_splits = len(leaves) - len(trees)
    assert found["structure"] == {
        "trees": len(trees),
        "splits": n_splits,
        "leaf values": len(leaves),
        "columns": X.shape[1],
        "smallest count of a leaf, noised": min(leaf["leaf_count"] for leaf in leaves),
        "parameters": 2 * n_splits + len(leaves) + len(trees),
    }


def leaves_of(node):
    if "leaf_value" in node:
        return [node]
    return leaves_of(node["left_child"]) + leaves_of(node["right_child"])


def test_a_void_guarantee_or_none_that_limits_anything_is_not_recommended():
    with pytest.warns(lgb_dp.PrivacyLeakWarning):
        _, void = stated(lgb_dp.NewtonBoost(1.0, 1e-5, random_state=1))
    _, weak = stated(lgb_dp.NewtonBoost(60.0, 1e-5))
    assert [one["recommendation"] for one in (void, weak)] == [KEEP, KEEP]
    assert "random_state" in void["reason"]
    assert rates(void).tolist() == [1, 1, 1]
    assert void["guarantee"] == {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made_in(tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("kind", ["vertical", "exact"])
def test_exact_models_are_not_recommended_and_their_leaves_are_counted(folder, kind):
    found = egress(statement_of(str(folder / kind)))
    assert (found["recommendation"], found["reason"]) == (KEEP, "no noise was added in training")
    assert rates(found, "_replacing_one").tolist() == [1, 1, 1]
    structure = found["structure"]
    assert structure["leaf values"] == structure["splits"] + structure["trees"] > structure["trees"]


def test_the_command_writes_the_file_of_the_checker(folder, tmp_path, capsys):
    assert main(["statement", str(folder / "private"), "--egress", "--out", str(tmp_path / "s.html")]) == 0
    assert "s.egress.json" in capsys.readouterr().out
    (entry,) = json.loads((tmp_path / "s.egress.json").read_text())
    assert entry == egress(statement_of(str(folder / "private")))
    assert save_egress(statement_of(str(folder / "private")), tmp_path / "t").name == "t.egress.json"
