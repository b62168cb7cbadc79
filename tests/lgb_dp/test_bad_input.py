"""Bad input raises at the edge, naming the argument, what was given and what is accepted."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import lgb_dp
from refused_runs import X, Y
from small_training import dataset, train


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), float("inf")])
def test_epsilon_must_be_positive_and_finite(epsilon):
    for trainer in (lgb_dp.DPBoost, lgb_dp.SequentialBoost, lgb_dp.ParallelBoost):
        with pytest.raises(ValueError, match=r"epsilon.*positive"):
            trainer(epsilon)


@pytest.mark.parametrize("epsilon", ["1", None, True, [1.0]])
def test_epsilon_must_be_a_number(epsilon):
    with pytest.raises(TypeError, match=r"epsilon.*number"):
        lgb_dp.DPBoost(epsilon)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"variant": "loose"}, "variant"),
        ({"trees_per_ensemble": 0}, "trees_per_ensemble"),
        ({"leaf_share": 0.0}, "leaf_share"),
        ({"leaf_share": 1.0}, "leaf_share"),
    ],
)
def test_options_of_the_trainer(arguments, named):
    with pytest.raises(ValueError, match=named):
        lgb_dp.DPBoost(1.0, **arguments)


def test_an_epsilon_too_small_for_the_arithmetic_raises_before_training():
    with pytest.raises(ValueError, match=r"epsilon.*selection"):
        train(dataset(X, Y), lgb_dp.DPBoost(1e-9))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"bounds": (-np.inf, 3)}, "finite"),
        ({"bounds": (np.nan, 3)}, "finite"),
        ({"bounds": ([0, 0], [1, 1])}, "bounds must be"),
        ({"bounds": 3}, "bounds must be"),
        ({"max_bin": 1}, "max_bin"),
        ({"max_bin": 256}, "max_bin"),
        ({"label_bounds": (1, 0)}, "label_bounds"),
        ({"label_bounds": (0, np.inf)}, "label_bounds"),
        ({"label_bounds": (1e308, 1.5e308)}, "label_bounds"),
        ({"label_bounds": (-2e100, 0)}, "label_bounds"),
        ({"bin_edges": {0: [2, 1]}}, "bin_edges"),
        ({"bin_edges": {0: []}}, "bin_edges"),
        ({"bin_edges": {0: np.arange(300)}}, "bin_edges"),
        ({"categories": {0: [1, 1]}}, "categories"),
        ({"categories": {0: [-1, 2]}}, "categories"),
        ({"categories": {0: [0.5]}}, "categories"),
        ({"categories": {0: range(300)}}, "categories"),
        ({"feature_name": ["a"]}, "feature_name"),
        ({"init_score": np.full(len(X), np.nan)}, "init_score"),
        ({"weight": -np.ones(len(X)), "weight_bound": 1.0}, "weight"),
        ({"weight": np.ones(3), "weight_bound": 1.0}, "weight"),
        ({"weight": np.ones(len(X)), "weight_bound": 0.0}, "weight_bound"),
        ({"weight": np.full(len(X), 2.0), "weight_bound": 1.0}, r"weight must lie.*\[0, weight_bound"),
        ({"weight": np.full(len(X), np.nan), "weight_bound": 1.0}, "weight"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_declarations_of_the_dataset(arguments, named):
    with pytest.raises(ValueError, match=named):
        dataset(X, Y, **arguments).construct()


@pytest.mark.parametrize(
    ("label", "named"),
    [
        (np.where(np.arange(len(Y)) == 5, np.nan, Y), "NaN"),
        (np.full(len(Y), np.inf), "infinity"),
        (None, "label"),
    ],
)
def test_labels(label, named):
    with pytest.raises(ValueError, match=named):
        dataset(X, label).construct()


@pytest.mark.parametrize(
    ("label", "params", "named"),
    [
        (Y + 1, {"objective": "binary"}, "label must be 0 or 1"),
        (np.full(60, 0.5), {"objective": "binary"}, "label must be 0 or 1"),
        (Y + 2, {"objective": "multiclass", "num_class": 3}, "num_class - 1 = 2"),
    ],
)
def test_labels_must_be_those_of_the_objective(label, params, named):
    with pytest.raises(ValueError, match=named):
        train(dataset(X, label), lgb_dp.DPBoost(1.0), **params)


@pytest.mark.parametrize("params", [{"objective": "multiclass"}, {"objective": "binary", "num_class": 3}])
def test_num_class_must_go_with_the_objective(params):
    with pytest.raises((ValueError, lgb.basic.LightGBMError), match=r"num_class|[Nn]umber of classes"):
        train(dataset(X, Y), lgb_dp.DPBoost(1.0), **params)


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": 1.5}, "learning_rate"),
        ({"lambda_l2": -1.0}, "lambda_l2"),
        ({"max_depth": 30}, "max_depth"),
        ({"learning_rate": 0.1, "eta": 0.2, "shrinkage_rate": 0.3}, None),
    ],
)
def test_values_of_parameters(params, named):
    if named is None:
        assert train(dataset(X, Y), lgb_dp.DPBoost(1.0), **params).num_trees() == 3
        return
    with pytest.raises((ValueError, lgb.basic.LightGBMError), match=named):
        train(dataset(X, Y), lgb_dp.DPBoost(1.0), **params)


def test_evaluation_data_must_have_the_training_features():
    data = dataset(X, Y)
    with pytest.raises(ValueError, match="3 features"):
        data.create_valid(X[:, :3], Y).construct()


def test_features_without_two_bins_leave_nothing_to_split():
    with pytest.raises(ValueError, match="two bins"):
        train(dataset(X, Y, bounds=(1, 1)), lgb_dp.DPBoost(1.0))


def test_unknown_categories_at_prediction_are_lightgbms_habit():
    frame = pd.DataFrame({"a": pd.Categorical(list("xy") * 30), "b": X[:, 0]})
    data = lgb_dp.Dataset(frame, label=Y, bounds={"b": (-3, 3)}, categories="dtype")
    booster = train(data, lgb_dp.DPBoost(1.0))
    assert np.isfinite(booster.predict(frame.assign(a=pd.Categorical(list("zz") * 30)))).all()
    with pytest.raises(ValueError, match=r"'a'.*expected"):
        booster.predict(frame.assign(a=X[:, 0]))


def test_initial_models_must_have_as_many_outputs():
    first = train(dataset(X, np.arange(60) % 3), lgb_dp.DPBoost(1.0), objective="multiclass", num_class=3)
    with pytest.raises((ValueError, lgb.basic.LightGBMError)):
        lgb.train(
            {"objective": "binary", "verbosity": -1},
            dataset(X, Y),
            2,
            init_model=first,
            callbacks=[lgb_dp.DPBoost(1.0)],
        )


def test_folds():
    with pytest.raises(ValueError, match=r"k.*at least 2"):
        lgb_dp.folds(1, dataset(X, Y))
    with pytest.raises(TypeError, match="train_set"):
        lgb_dp.folds(3, lgb.Dataset(X, Y))


def test_a_failed_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "missing" / "model.txt"
    with pytest.raises(lgb.basic.LightGBMError):
        train(dataset(X, Y), lgb_dp.DPBoost(1.0)).save_model(path)
