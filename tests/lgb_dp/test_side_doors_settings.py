"""What a guarantee is computed from is checked where a run begins, however it was set."""

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from small_training import binary_data, dataset, train

X, Y = binary_data(60)
DELTA = 1e-5
NO_FLAGS = ["False", "yes", 0, 1, None]


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (lambda: lgb_dp.NewtonBoost(1.0, DELTA), "hessian_share", -10.0),
        (lambda: lgb_dp.NewtonBoost(1.0, DELTA), "gradient_clip", 5.0),
        (lambda: lgb_dp.NewtonBoost(1.0, DELTA), "subsample", 2.0),
        (lambda: lgb_dp.NewtonBoost(1.0, DELTA), "structure", "private"),
        (lambda: lgb_dp.NewtonBoost(1.0, DELTA), "depth", 0),
        (lambda: lgb_dp.NewtonBoost(1.0, DELTA), "rounds", 2.5),
        (lambda: lgb_dp.NewtonBoost(1.0, DELTA), "delta", 0.5),
        (lambda: lgb_dp.NewtonBoost(1.0, DELTA), "epsilon", np.nan),
        (lambda: lgb_dp.NewtonBoost(1.0, DELTA), "public_init_model", "False"),
        (lambda: lgb_dp.NewtonBoost(1.0, DELTA), "budget", 1.0),
        (lambda: lgb_dp.DPBoost(1.0), "epsilon", -1.0),
        (lambda: lgb_dp.DPBoost(1.0), "leaf_share", 2.0),
        (lambda: lgb_dp.DPBoost(1.0), "trees_per_ensemble", 0),
        (lambda: lgb_dp.DPBoost(1.0), "variant", "loose"),
        (lambda: lgb_dp.DPBoost(1.0), "gdf", "False"),
        (lambda: lgb_dp.DPBoost(1.0), "glc", "False"),
        (lambda: lgb_dp.DPBoost(1.0), "eoe", "False"),
        (lambda: lgb_dp.MBoost(1.0), "alpha", 3.0),
        (lambda: lgb_dp.MBoost(1.0), "smoothing", -1.0),
        (lambda: lgb_dp.MBoost(1.0), "leaf_bound", -1.0),
        (lambda: lgb_dp.MBoost(1.0), "leaf_share", 1.5),
        (lambda: lgb_dp.MBoost(1.0), "weight_share", 0.8),
        (lambda: lgb_dp.MBoost(1.0), "leverage", "exact"),
        (lambda: lgb_dp.MBoost(1.0), "n_rows", -5.0),
        (lambda: lgb_dp.SequentialBoost(1.0), "epsilon", np.nan),
        (lambda: lgb_dp.ParallelBoost(1.0), "epsilon", np.inf),
        (lambda: lgb_dp.RandomForestLaplace(1.0), "epsilon", 0.0),
        (lambda: lgb_dp.RandomForestExponential(1.0), "epsilon", "1"),
    ],
)
def test_side_door_settings_are_checked_when_a_run_begins(make, name, value):
    trainer = make()
    setattr(trainer, name, value)
    with pytest.raises((lgb_dp.InvalidArgumentError, lgb_dp.ArgumentTypeError), match=f"^{name} must"):
        train(dataset(X, Y), trainer)


def test_side_door_every_setting_of_a_trainer_is_checked_when_a_run_begins():
    for make in (
        lambda: lgb_dp.NewtonBoost(1.0, DELTA),
        lambda: lgb_dp.DPBoost(1.0),
        lambda: lgb_dp.MBoost(1),
    ):
        for name in set(vars(make())) - {"random_state"}:  # any seed voids
            trainer = make()
            setattr(trainer, name, object())
            with pytest.raises((lgb_dp.InvalidArgumentError, lgb_dp.ArgumentTypeError), match=name):
                train(dataset(X, Y), trainer)


def test_settings_can_change_between_runs():
    trainer = lgb_dp.NewtonBoost(1.0, DELTA)
    assert train(dataset(X, Y), trainer).privacy.epsilon == pytest.approx(1.0)
    trainer.epsilon = 2
    assert train(dataset(X, Y), trainer).privacy.epsilon == pytest.approx(2.0)


@pytest.mark.parametrize("value", NO_FLAGS)
def test_side_door_a_flag_is_a_truth_value(value):
    data = dataset(X, Y)
    attempts = {
        "public_init_model": lambda: lgb_dp.NewtonBoost(1.0, DELTA, public_init_model=value),
        "public": lambda: data.create_valid(X, Y, public=value),
        "public ": lambda: setattr(data, "public", value),
        "public_init_score": lambda: dataset(X, Y, init_score=np.zeros(60), public_init_score=value),
        "public_init_score ": lambda: data.set_init_score(np.zeros(60), public=value),
        "public_init_score  ": lambda: setattr(data, "public_init_score", value),
        "public   ": lambda: lgb_dp.DPLGBMClassifier(n_estimators=1).fit(
            X, Y, bounds=(-3, 3), eval_set=[(X, Y)], public_eval_set=value
        ),
    }
    for name, attempt in attempts.items():
        with pytest.raises(lgb_dp.ArgumentTypeError, match=f"^{name.strip()} must be True or False"):
            attempt()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_flags_may_be_those_of_numpy():
    plain = lgb.train({"objective": "binary", "verbosity": -1}, lgb.Dataset(X, Y), 1)
    trainer = lgb_dp.NewtonBoost(1.0, DELTA, public_init_model=np.True_)
    booster = lgb.train({"objective": "binary"}, dataset(X, Y), 1, init_model=plain, callbacks=[trainer])
    assert booster.privacy.private
