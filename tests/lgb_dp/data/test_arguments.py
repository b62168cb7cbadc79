"""Rows, labels and bounds that a data set takes."""

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from refused_runs import X, Y
from small_training import dataset, train


@pytest.mark.parametrize("data", [np.empty((0, 3)), np.empty((3, 0)), np.zeros(5)])
def test_data_must_have_rows_and_features(data):
    with pytest.raises(ValueError, match=r"data.*features"):
        lgb_dp.Dataset(data, label=np.zeros(len(data)), bounds=(0, 1)).construct()


def test_data_must_be_a_matrix_of_a_known_kind():
    with pytest.raises(TypeError, match="data must be"):
        lgb_dp.Dataset("train.csv", label=[1], bounds=(0, 1)).construct()


def test_labels_must_lie_within_their_bounds():
    with pytest.raises(ValueError, match="label_bounds"):
        train(dataset(X, Y * 100, label_bounds=(0, 50)), lgb_dp.DPBoost(1.0), objective="regression")


def test_datasets_are_not_written_or_relabelled():
    data = dataset(X, Y).construct()
    for call in (
        lambda: data.save_binary("x.bin"),
        lambda: data.set_label(Y),
        lambda: data.add_features_from(data),
    ):
        with pytest.raises(lgb.basic.LightGBMError):
            call()
