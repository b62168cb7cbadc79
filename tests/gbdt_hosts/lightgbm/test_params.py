"""Parameter names and defaults are those of the installed LightGBM."""

import re

import lightgbm
import numpy as np
import pytest

from gbdt_hosts.lightgbm.params import default_parameters, resolve_aliases


@pytest.mark.parametrize(
    ("alias", "main"),
    [
        ("eta", "learning_rate"),
        ("shrinkage_rate", "learning_rate"),
        ("n_estimators", "num_iterations"),
        ("num_boost_round", "num_iterations"),
        ("reg_lambda", "lambda_l2"),
        ("min_child_samples", "min_data_in_leaf"),
        ("min_child_weight", "min_sum_hessian_in_leaf"),
        ("subsample", "bagging_fraction"),
        ("subsample_freq", "bagging_freq"),
        ("colsample_bytree", "feature_fraction"),
        ("min_split_gain", "min_gain_to_split"),
        ("boosting_type", "boosting"),
        ("app", "objective"),
        ("metrics", "metric"),
        ("verbose", "verbosity"),
        ("n_jobs", "num_threads"),
        ("random_state", "seed"),
        ("device", "device_type"),
        ("num_classes", "num_class"),
        ("early_stopping_rounds", "early_stopping_round"),
        ("max_leaves", "num_leaves"),
        ("unbalanced_sets", "is_unbalance"),
        ("linear_trees", "linear_tree"),
        ("monotonic_cst", "monotone_constraints"),
        ("cat_feature", "categorical_feature"),
        ("learning_rate", "learning_rate"),
        ("no_such_parameter", "no_such_parameter"),
    ],
)
def test_aliases_become_main_names(alias, main):
    assert resolve_aliases({alias: "given"}) == {main: "given"}


def test_every_alias_that_lightgbm_knows_is_resolved_to_one_main_name():
    for main in default_parameters():
        for alias in lightgbm.basic._ConfigAliases.get(main):
            assert resolve_aliases({alias: 1}) == {main: 1}


@pytest.mark.parametrize("params", [{"learning_rate": 0.1, "eta": 0.5}, {"eta": 0.5, "learning_rate": 0.1}])
def test_a_main_name_wins_over_its_aliases(params):
    assert resolve_aliases(params) == {"learning_rate": 0.1}
    assert lightgbm.basic._choose_param_value("learning_rate", params, None) == {"learning_rate": 0.1}


def test_two_aliases_with_different_values_conflict():
    with pytest.raises(ValueError, match=r"'learning_rate' twice, as 0\.5.*shrinkage_rate=0\.1"):
        resolve_aliases({"eta": 0.5, "shrinkage_rate": 0.1})


def test_two_aliases_with_one_value_agree():
    assert resolve_aliases({"eta": 0.5, "shrinkage_rate": 0.5}) == {"learning_rate": 0.5}


def test_a_main_name_settles_a_conflict_of_aliases():
    assert resolve_aliases({"eta": 0.5, "shrinkage_rate": 0.1, "learning_rate": 0.2}) == {
        "learning_rate": 0.2
    }


def test_params_given_are_left_alone():
    params = {"eta": 0.5, "max_depth": 3, "metric": ["auc"]}
    assert resolve_aliases(params) == {"learning_rate": 0.5, "max_depth": 3, "metric": ["auc"]}
    assert list(params) == ["eta", "max_depth", "metric"]
    assert resolve_aliases({}) == {}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("boosting", "gbdt"),
        ("objective", "regression"),
        ("metric", ""),
        ("num_iterations", "100"),
        ("learning_rate", "0.1"),
        ("num_leaves", "31"),
        ("max_depth", "-1"),
        ("min_data_in_leaf", "20"),
        ("min_sum_hessian_in_leaf", "0.001"),
        ("bagging_fraction", "1"),
        ("bagging_freq", "0"),
        ("feature_fraction", "1"),
        ("lambda_l1", "0"),
        ("lambda_l2", "0"),
        ("max_bin", "255"),
        ("verbosity", "1"),
        ("num_class", "1"),
        ("sigmoid", "1"),
        ("is_unbalance", "0"),
        ("linear_tree", "0"),
        ("monotone_constraints", ""),
        ("early_stopping_round", "0"),
        ("boost_from_average", "1"),
    ],
)
def test_defaults_are_lightgbms(name, default):
    assert default_parameters()[name] == default


@pytest.mark.parametrize("estimator", [lightgbm.LGBMClassifier(), lightgbm.LGBMRegressor()])
def test_defaults_of_stock_estimators_are_known_parameters(estimator):
    given = {k: v for k, v in estimator.get_params().items() if v is not None and k != "importance_type"}
    given.pop("subsample_for_bin")
    defaults = default_parameters()
    for name, value in resolve_aliases(given).items():
        assert name in defaults
        text = defaults[name]
        assert text == value if re.search("[a-z]", text) else float(text) == value


def test_defaults_are_what_a_fresh_booster_writes():
    data = lightgbm.Dataset(np.zeros((2, 1)), label=np.array([0, 1]), params={"verbosity": -1})
    text = lightgbm.Booster({"verbosity": -1, "num_leaves": 7}, data).model_to_string()
    written = dict(re.findall(r"^\[(\w+): (.*)\]$", text, re.MULTILINE))
    known = default_parameters()
    assert set(written) <= set(known)
    differing = {name for name in written if written[name] != known[name]}
    assert differing <= {"num_leaves", "verbosity", "metric"}
