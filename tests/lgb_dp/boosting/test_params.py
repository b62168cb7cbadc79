"""Parameters and calls that private training cannot honour raise an error that names them."""

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from gbdt_hosts.lightgbm import default_parameters
from lgb_dp.boosting.params import training_parameters
from small_training import binary_data, dataset, train

X, Y = binary_data()


@pytest.mark.parametrize(
    "parameter",
    [
        {"boosting_type": "rf"},
        {"subsample": 0.5},
        {"min_child_samples": 5},
        {"monotone_constraints": [1, 0, 0, 0]},
        {"random_state": 7},
        {"interaction_constraints": "[0,1],[2,3]"},
        {"max_bin": 99},
        {"num_leaves": 10},
        {"no_such_parameter": 1},
        {"objective": "poisson"},
        {"objective": lambda preds, data: (preds, preds)},
    ],
    ids=lambda p: next(iter(p)),
)
def test_unsupported_parameters_raise_and_are_named(parameter):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=next(iter(parameter))):
        train(dataset(X, Y), lgb_dp.DPBoost(1.0), **parameter)


def test_values_equal_to_lightgbms_defaults_pass():
    defaults = {
        "min_child_samples": 20,
        "subsample": 1.0,
        "reg_alpha": 0.0,
        "boosting_type": "gbdt",
        "num_leaves": 31,
    }
    defaults |= {
        "min_split_gain": 0.0,
        "min_child_weight": 1e-3,
        "colsample_bytree": 1.0,
        "subsample_freq": 0,
    }
    assert train(dataset(X, Y), lgb_dp.DPBoost(1.0), **defaults).num_trees() == 3


def test_parameters_of_the_dataset_are_judged_too():
    for params in ({"max_bin": 4}, {"linear_tree": True}, {"ignore_column": "0"}):
        with pytest.raises(lgb_dp.UnsupportedParameterError, match=next(iter(params))):
            train(dataset(X, Y, params=params), lgb_dp.DPBoost(1.0))
    with pytest.raises(ValueError, match="categories"):
        dataset(X, Y).set_categorical_feature([0])


def test_two_private_trainers_are_refused():
    with pytest.raises(ValueError, match="two private trainers"):
        train(dataset(X, Y), lgb_dp.DPBoost(5.0), callbacks=[lgb_dp.DPBoost(0.1)])


def test_a_refused_setter_changes_nothing():
    data = dataset(X, Y).construct()
    for call in (lambda: data.set_weight(np.full(len(X), np.nan)), lambda: data.set_label(Y + 1)):
        with pytest.raises(lgb.basic.LightGBMError, match="cannot change"):
            call()
    assert data.get_weight() is None
    np.testing.assert_array_equal(data.get_label(), Y)


ACCEPTED = {
    *("objective", "num_class", "num_iterations", "learning_rate", "max_depth", "num_leaves", "lambda_l2"),
    *("num_threads", "verbosity", "metric", "early_stopping_round", "early_stopping_min_delta"),
    *("first_metric_only", "force_col_wise", "force_row_wise", "histogram_pool_size", "is_enable_sparse"),
    *("enable_bundle", "is_provide_training_metric", "metric_freq", "multi_error_top_k", "auc_mu_weights"),
    "monotone_constraints",
}
"""All parameters that private training honours or that cannot change a model."""


@pytest.mark.parametrize("name", sorted(default_parameters().keys() - ACCEPTED))
def test_every_other_parameter_of_lightgbm_is_refused(name):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=name):
        training_parameters({name: "12345.5"}, 255)


@pytest.mark.parametrize("name", sorted(ACCEPTED - {"objective"}))
def test_side_door_a_text_sets_no_other_parameter(name):
    """Before, what LightGBM reads as several parameters was taken for one that changes nothing."""
    for text in ("1 linear_tree=true", "1\tboosting=rf", "auc\nmax_bin=3", "1\0"):
        for value in (text, ["1", text]):
            with pytest.raises(lgb_dp.InvalidArgumentError, match=name):
                training_parameters({name: value}, 255)


def test_what_update_and_create_valid_cannot_honour_raises():
    data = dataset(X, Y)
    booster = lgb.train(
        {"objective": "binary", "verbosity": -1},
        data,
        1,
        callbacks=[lgb_dp.DPBoost(1.0)],
        keep_training_booster=True,
    )
    with pytest.raises(lgb.basic.LightGBMError, match="custom objective"):
        booster.update(fobj=lambda preds, data: (preds, preds))
    with pytest.raises(lgb.basic.LightGBMError, match="cannot be replaced"):
        booster.update(train_set=dataset(X, Y))
    for argument in ("group", "position"):
        with pytest.raises(ValueError, match=argument):
            data.create_valid(X, Y, **{argument: [len(X)]})


@pytest.mark.parametrize("name", ["max_depth", "num_leaves", "num_threads", "num_class", "verbosity"])
@pytest.mark.parametrize("value", [2**36, -(2**36), 10**400, 1e308, float("inf"), "9" * 100_000, {}, [], [1]])
def test_numbers_are_checked_before_anything_is_computed_with_them(name, value):
    """Before, 2**max_depth was computed first: 2.3 GB in 27 s, with the interpreter locked."""
    with pytest.raises(lgb_dp.PrivateTrainingError, match=name):
        training_parameters({"objective": "binary", name: value}, None)
