from dataclasses import fields

import numpy as np
import pytest
import xgboost

from xgb_fed.boosting.params import ALIASES, IGNORED, NEUTRAL, Settings
from xgb_fed.errors import UnsupportedParameterError

OF_ESTIMATORS = {"n_estimators", "early_stopping_rounds", "callbacks", "missing", "importance_type"}
"""Arguments of XGBoost's estimators that are no parameters of a training."""

ELSEWHERE = {
    "feature_weights": [1.0],
    "gblinear": True,
    "multi_strategy": "multi_output_tree",
    "grow_policy": "best first",
    "sampling_method": "gradient_based",
    "booster": "dart",
    "tree_method": "approx",
    "device": "cuda",
    "refresh_leaf": 1,
    "process_type": "update",
}
"""Values that change a model of XGBoost, and that federated training does not honour."""


@pytest.mark.parametrize(("name", "value"), ELSEWHERE.items())
def test_what_is_not_honoured_is_refused_by_name(name, value):
    with pytest.raises(UnsupportedParameterError, match=rf"^{name}="):
        Settings.from_params({name: value})


def test_every_parameter_of_xgboost_is_honoured_or_refused():
    """None falls through the cracks: of those that its estimators have, each is known here or refused."""
    names = set(xgboost.XGBRegressor().get_params()) - OF_ESTIMATORS
    assert len(names) > 20
    known = {f.name for f in fields(Settings)}
    for name in names:
        if name not in known and name not in NEUTRAL and name not in IGNORED:
            with pytest.raises(UnsupportedParameterError, match=name):
                Settings.from_params({name: object()})


def trees(params):
    X = np.random.default_rng(0).normal(size=(80, 3))
    data = xgboost.DMatrix(X, label=X[:, 0] * X[:, 1] + X[:, 2])
    base = {"max_depth": 3, "nthread": 1, "base_score": 0}
    return xgboost.train({**base, **params}, data, 2).get_dump(with_stats=True)


def test_values_called_harmless_change_nothing_in_xgboost():
    expected = trees({})
    for name, values in NEUTRAL.items():
        for value in values:
            assert trees({name: value}) == expected, name
            assert Settings.from_params({name: value}) == Settings()


def test_defaults_are_xgboost_s():
    expected = trees({})
    default = Settings()
    for name in ("learning_rate", "max_bin", "reg_lambda", "reg_alpha", "gamma", "min_child_weight"):
        assert trees({name: getattr(default, name)}) == expected, name
    for name in ("max_delta_step", "subsample", "colsample_bytree", "scale_pos_weight", "objective"):
        assert trees({name: getattr(default, name)}) == expected, name
    X, y = np.random.default_rng(1).normal(size=(300, 4)), np.random.default_rng(2).normal(size=300)
    data = xgboost.DMatrix(X, label=y)
    own = {"max_depth": default.max_depth, "nthread": 1}
    assert xgboost.train(own, data, 1).get_dump() == xgboost.train({"nthread": 1}, data, 1).get_dump()


def test_aliases_are_xgboost_s():
    for alias, name in ALIASES.items():
        value = 7 if name == "random_state" else 0.25
        assert getattr(Settings.from_params({alias: value}), name) == value
        assert trees({alias: value}) == trees({"seed" if name == "random_state" else name: value}), alias
        with pytest.raises(ValueError, match=f"{name}|{alias}"):
            Settings.from_params({alias: value, name: value})


BOUNDS = {
    "max_depth": (0, 30),
    "max_leaves": (0, 2**31 - 1),
    "num_parallel_tree": (1, 2**31 - 1),
    "max_bin": (2, 65_535),
    "active_depth": (1, 30),
    "trees_per_party": (1, 2**31 - 1),
    "random_state": (0, 2**63 - 1),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_whole_numbers_within_their_bounds(name):
    low, high = BOUNDS[name]
    for value in (low, high, np.int64(low), np.int32(low + 1)):
        assert getattr(Settings(**{name: value}), name) == value
    for value in (low - 1, high + 1, low + 0.5, float(low), str(low), [low], float("nan")):
        with pytest.raises(ValueError, match=rf"{name}=.*from {low} to {high}"):
            Settings(**{name: value})


@pytest.mark.parametrize(
    "name", ["learning_rate", "reg_lambda", "reg_alpha", "gamma", "min_child_weight", "max_delta_step"]
)
def test_numbers_are_finite_and_not_negative(name):
    for value in (1, 0.5, np.float32(2)):
        assert getattr(Settings(**{name: value}), name) == value
    for value in (-1e-9, float("nan"), float("inf"), "1", [1.0], 0.0 if name == "learning_rate" else -1):
        with pytest.raises(ValueError, match=f"{name}="):
            Settings(**{name: value})


def test_numbers_of_numpy_become_python_s():
    """They are written as JSON, by XGBoost and here."""
    given = {"max_bin": np.int64(7), "eta": np.float32(0.25), "num_class": np.int8(3), "seed": np.uint64(5)}
    settings = Settings.from_params({**given, "objective": "multi:softprob"})
    kept = (settings.max_bin, settings.learning_rate, settings.num_class, settings.random_state)
    assert kept == (7, 0.25, 3, 5)
    assert [type(value) for value in kept] == [int, float, int, int]


def test_classes():
    softprob = {"objective": "multi:softprob"}
    for n_classes in (3, np.int64(3)):
        assert Settings(**softprob, num_class=n_classes).n_classes == 3
    for wrong in (1, 0, 2.5, "3", None):
        with pytest.raises(ValueError, match="num_class="):
            Settings(**softprob, num_class=wrong)
    with pytest.raises(ValueError, match="multi:softprob"):
        Settings(num_class=3)
    with pytest.raises(ValueError, match="multi:softprob"):
        Settings(multi_output=True)


@pytest.mark.parametrize("metric", [sum, [sum], 3, ["auc", None, 3]])
def test_metrics_are_names(metric):
    with pytest.raises(UnsupportedParameterError, match="eval_metric="):
        Settings(eval_metric=metric)
    assert Settings(eval_metric=["auc", "rmse"]).of_xgboost["eval_metric"] == ["auc", "rmse"]


def test_what_xgboost_is_told_and_split_gain_as_float32():
    settings = Settings("multi:softprob", 4, eval_metric="mlogloss", reg_lambda=0.1, learning_rate=0.07)
    told = {"objective": "multi:softprob", "num_class": 4, "eval_metric": "mlogloss"}
    assert settings.of_xgboost == told
    own = settings.split_gain
    assert {type(value) for value in vars(own).values()} == {np.float32}
    assert (own.reg_lambda, own.learning_rate, own.gamma) == (np.float32(0.1), np.float32(0.07), 0)
    assert Settings("binary:logistic", scale_pos_weight=2.0).of_xgboost["scale_pos_weight"] == 2.0
