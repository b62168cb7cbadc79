"""Evaluation on rows that are not public warns and is reported, and its metrics are right."""

import warnings

import lightgbm as lgb
import pytest

import lgb_dp
from small_training import binary_data, dataset, train

X, Y = binary_data()


def test_evaluation_on_rows_not_public_warns_once_and_is_noted():
    data = dataset(X, Y)
    with pytest.warns(lgb_dp.NotPrivateWarning) as caught:
        booster = train(data, lgb_dp.DPBoost(1.0), valid_sets=[data, dataset(X, Y, reference=data)])
    assert len([w for w in caught if w.category is lgb_dp.NotPrivateWarning]) == 1
    assert "not covered by epsilon" in booster.privacy.notes[0]


def test_public_evaluation_rows_do_not_warn():
    data = dataset(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        booster = train(data, lgb_dp.DPBoost(1.0), valid_sets=[data.create_valid(X, Y, public=True)])
    assert booster.privacy.notes == ()


def test_early_stopping_on_private_rows_voids_the_guarantee():
    for public in (True, False):
        data = dataset(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lgb_dp.NotPrivateWarning)
            booster = train(
                data,
                lgb_dp.DPBoost(1.0),
                n_rounds=10,
                valid_sets=[data.create_valid(X, Y, public=public)],
                callbacks=[lgb.early_stopping(2, verbose=False)],
            )
        assert booster.privacy.private == public


def test_labels_other_than_zero_and_one_are_evaluated_right():
    from sklearn.metrics import roc_auc_score

    history, data = {}, dataset(X, Y - 2, label_bounds=(-2, -1))
    booster = train(
        data,
        lgb_dp.DPBoost(1.0),
        valid_sets=[data.create_valid(X, Y - 2, public=True)],
        callbacks=[lgb.record_evaluation(history)],
        metric="auc",
    )
    assert history["valid_0"]["auc"][-1] == pytest.approx(roc_auc_score(Y, booster.predict(X)))


def test_rows_are_private_unless_marked_public():
    data = dataset(X, Y)
    for valid in (data.create_valid(X, Y), dataset(X, Y, reference=data)):
        with pytest.warns(lgb_dp.NotPrivateWarning):
            train(data, lgb_dp.DPBoost(1.0), valid_sets=[valid])
