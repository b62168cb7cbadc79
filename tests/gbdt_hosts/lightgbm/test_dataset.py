"""LightGBM gets a stand-in without a row."""

import re

import lightgbm as lgb

import lgb_dp
from small_training import binary_data, dataset

X, Y = binary_data()


def test_native_logs_hold_no_counts(capfd):
    data = dataset(X, Y)
    lgb.train({"objective": "binary", "verbosity": 2}, data, 2, callbacks=[lgb_dp.DPBoost(1.0)])
    out, err = capfd.readouterr()
    numbers = set(re.findall(r"\d+", out + err))
    assert not numbers & {str(len(X)), str(int(Y.sum())), str(int((1 - Y).sum()))}


OTHER = X[:300] * 0.5, 1 - Y[:300]


def test_logs_are_the_same_whatever_the_rows(capfd):
    logs = []
    for rows in ((X, Y), (X, Y), OTHER):
        params = {"objective": "binary", "verbosity": 2, "max_depth": 2, "learning_rate": 0.3}
        lgb.train(params, dataset(*rows), 6, callbacks=[lgb_dp.DPBoost(0.05)])
        logs.append(re.sub(r"\d+\.\d+ seconds", "", "".join(capfd.readouterr())))
    assert logs[1] == logs[2]  # the first may compile


def test_lightgbm_itself_never_sees_a_row():
    native = dataset(X, Y).construct().native
    assert native.num_data() == 2
    assert native.get_label().tolist() == [0, 1]
