"""LightGBM's metrics say nothing about a private row but their values."""

import copy
import pickle

import lightgbm as lgb
import numpy as np
import pytest
from lightgbm.basic import LightGBMError

import lgb_dp
from gbdt_hosts.lightgbm.metrics import Evaluator
from lgb_dp.boosting.metric_rows import rows_for_metrics
from lgb_dp.losses.labels import LabelScale
from small_training import binary_data

X, Y = binary_data(60)
PRIVATE = pytest.mark.filterwarnings("ignore::lgb_dp.NotPrivateWarning")
MARK = 41.25


def fit(objective, label, valid_label, label_bounds=None, *, on_train=False, **params):
    data = lgb_dp.Dataset(
        X, label, bounds=(-3, 3), label_bounds=label_bounds, label_overflow="clip", free_raw_data=False
    )
    valid = data if on_train else data.create_valid(X, valid_label)
    results = {}
    lgb.train(
        {"objective": objective, "verbosity": -1, "max_depth": 2, **params},
        data,
        2,
        valid_sets=[valid],
        callbacks=[lgb_dp.NewtonBoost(1.0, 1e-6), lgb.record_evaluation(results)],
    )
    return results


@PRIVATE
@pytest.mark.parametrize("mark", [MARK, -MARK])
@pytest.mark.parametrize("metric", ["cross_entropy", "xentropy", "kullback_leibler", "kldiv"])
def test_side_door_metrics_of_probabilities_get_clipped_labels(metric, mark, capfd):
    label = np.append(Y[:-1], mark)
    for on_train in (False, True):
        results = fit("regression", label, label, (0, 1), on_train=on_train, metric=metric)
        (values,) = results["training" if on_train else "valid_0"].values()
        assert np.isfinite(values).all()
    assert "41.25" not in "".join(capfd.readouterr())


@PRIVATE
@pytest.mark.parametrize(
    ("objective", "bounds", "metric"),
    [
        ("regression", (0, 2), "cross_entropy"),
        ("regression", (-1, 1), ["l2", "kldiv"]),
        ("regression", (0, 1), "gamma"),
        ("regression", (0, 1), "GAMMA"),
        ("regression", (0, 2), "Cross_Entropy"),
        ("regression", (0, 2), ["l2,cross_entropy"]),
        ("regression", (0, 2), {"KLDIV"}),
        ("regression", (0, 2), np.array(["l2", "kldiv"])),
        ("regression", (1e-50, 1), "l1,gamma_deviance"),
        ("regression", (0, 1), "cross_entropy_lambda"),
        ("binary", None, "gamma"),
    ],
)
def test_side_door_metrics_that_could_refuse_a_label_are_refused_whatever_the_rows(
    objective, bounds, metric, capfd
):
    for last in (1.0, 0.0):
        label = np.append(np.ones(59), last)
        with pytest.raises(lgb_dp.UnsupportedParameterError, match="not public"):
            fit(objective, label, label, bounds, metric=metric)
    assert "".join(capfd.readouterr()) == ""


@PRIVATE
@pytest.mark.parametrize("mark", [MARK, -1.0, 1.5, 7.0, np.nan])
def test_side_door_a_label_of_no_class_weighs_nothing_in_metrics(mark, capfd):
    label = np.arange(60) % 3.0
    scale = LabelScale("multiclass", 3, 0.0, 1.0)
    fitting, weight = rows_for_metrics(np.append(label, mark), None, scale, is_public=False)
    assert set(fitting) <= {0.0, 1.0, 2.0}
    assert weight.tolist() == [1.0] * 60 + [0.0]
    fit(
        "multiclass",
        np.append(label[:-1], mark),
        np.append(label[:-1], mark if mark == mark else -5.0),
        num_class=3,
        metric=["multi_logloss", "auc_mu"],
    )
    assert "".join(capfd.readouterr()) == ""


@PRIVATE
def test_side_door_test_folds_of_clipped_labels_are_evaluated(capfd):
    data = lgb_dp.Dataset(
        X, np.append(np.arange(59) % 3, MARK), bounds=(-3, 3), label_overflow="clip", free_raw_data=False
    )
    params = {"objective": "multiclass", "num_class": 3, "verbosity": -1, "max_depth": 2}
    found = lgb.cv(params, data, 2, folds=lgb_dp.folds(3, data), callbacks=[lgb_dp.NewtonBoost(1.0, 1e-6)])
    assert np.isfinite(found["valid multi_logloss-mean"]).all()
    assert "".join(capfd.readouterr()) == ""


def test_side_door_public_targets_beyond_their_bounds_stay():
    scale = LabelScale("regression", 1, 0.0, 1.0)
    assert rows_for_metrics([0.5, 2.0], None, scale, is_public=True)[0].tolist() == [0.5, 2.0]
    assert rows_for_metrics([0.5, 2.0], None, scale, is_public=False)[0].tolist() == [0.5, 1.0]


def test_labels_that_lightgbm_has_rounded_fit():
    scale = LabelScale("binary", 1, 0.1, 0.7)
    label, weight = rows_for_metrics(np.array([0.1, 0.7], dtype=np.float32), None, scale, is_public=False)
    assert label.tolist() == [0.0, 1.0]
    assert weight is None


@pytest.mark.parametrize("weight", [None, np.zeros(2)])
def test_side_door_rows_that_weigh_nothing_together_are_no_error(weight):
    scale = LabelScale("binary", 1, 0.0, 1.0)
    label = [5.0, np.nan] if weight is None else [0.0, 1.0]
    assert rows_for_metrics(label, weight, scale, is_public=False)[1] is None


def test_side_door_an_error_of_a_native_metric_is_replaced_by_one_without_cells():
    data = lgb.Dataset(np.zeros((2, 1)), params={"verbosity": -1}).construct()
    label = np.array([0, MARK], dtype=np.float32)  # lists and NumPy 2 are an error of LightGBM 4.2's
    evaluator = Evaluator({"objective": "regression", "metric": "cross_entropy"}, data, label, None)
    with pytest.raises(LightGBMError, match="computed on 'v'") as raised:
        evaluator.evaluate(np.zeros(2), "v")
    assert raised.value.__context__ is None


@PRIVATE
def test_side_door_an_evaluation_label_of_no_class_is_no_error_in_estimators():
    label = np.arange(60) % 3
    model = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(
        X, label, bounds=(-3, 3), classes=[0, 1, 2], eval_set=[(X, np.append(label[:-1], 41))]
    )
    assert np.isfinite(model.best_score_["valid_0"]["multi_logloss"])


def evaluate_train(booster, data):
    booster.eval_train()


def evaluate_others(booster, data):
    booster.eval(data.create_valid(X, Y), "others")


def add_others(booster, data):
    booster.add_valid(data.create_valid(X, Y), "others")


@PRIVATE
@pytest.mark.parametrize("look", [evaluate_train, evaluate_others, add_others])
def test_side_door_a_text_that_was_read_before_metrics_says_so_afterwards(look, tmp_path):
    """Before, only the live report had the note; the file, copies and pickles had that of the text before."""
    data = lgb_dp.Dataset(X, Y, bounds=(-3, 3), free_raw_data=False)
    booster = lgb.train(
        {"objective": "binary", "verbosity": -1, "max_depth": 2},
        data,
        2,
        callbacks=[lgb_dp.NewtonBoost(1.0, 1e-6)],
        keep_training_booster=True,
    )
    before = lgb_dp.privacy_of(booster.model_to_string()).notes
    look(booster, data)
    booster.save_model(tmp_path / "model.txt")
    told = (booster, tmp_path / "model.txt", copy.deepcopy(booster), pickle.loads(pickle.dumps(booster)))
    for model in told:
        new = set(lgb_dp.privacy_of(model).notes) - set(before)
        assert ["not covered by epsilon" in note for note in new] == [True]
        assert set(lgb_dp.privacy_of(model).notes) == set(booster.privacy.notes)
