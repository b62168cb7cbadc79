"""The guarantee follows the start scores, labels and persons that are used, not those that were announced."""

from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import lgb_dp
from continued_models import QUIET, X, Y, fit
from gbdt_hosts.lightgbm import InitialModel
from lgb_dp.boosting.run_rows import rows_of_run
from lgb_dp.data.start_scores import StartScores
from small_training import dataset, leaf_values, train

SECRET = np.where(Y > 0, 5.0, -5.0)


def private_model():
    return train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, 1e-6))


def fold_part(data):
    rows = next(lgb_dp.folds(3, data).split())[0]
    return data.subset(rows), rows


@pytest.mark.parametrize("init_score", [None, SECRET])
@pytest.mark.parametrize("is_constructed", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, np.ndarray.tolist])
def test_side_door_a_part_starts_from_the_scores_of_its_own_init_model(init_score, is_constructed, kind):
    model = private_model()
    part, rows = fold_part(dataset(kind(X), Y, init_score=init_score, free_raw_data=False))
    if is_constructed:
        part.construct()
    report = fit(part, init_model=model).privacy
    assert report.private
    assert report.epsilon > 1.0
    np.testing.assert_allclose(part.start_scores[:, 0], model.predict(X[np.sort(rows)], raw_score=True))


def test_side_door_a_part_forgets_the_init_model_of_an_earlier_run_on_the_whole():
    plain, model = lgb.train(QUIET, lgb.Dataset(X, Y), 5), private_model()
    data = dataset(X, Y, free_raw_data=False)
    assert not fit(data, init_model=plain).privacy.private
    part, rows = fold_part(data)
    assert fit(part, init_model=model).privacy.private
    np.testing.assert_allclose(part.start_scores[:, 0], model.predict(X[np.sort(rows)], raw_score=True))
    fresh, _ = fold_part(data)
    assert fit(fresh).privacy.private
    assert fresh.start_scores is None


def test_side_door_a_part_that_keeps_the_init_model_keeps_its_report():
    plain = lgb.train(QUIET, lgb.Dataset(X, Y), 5)
    data = dataset(X, Y, free_raw_data=False)
    part, _ = fold_part(data)
    assert not fit(part, init_model=plain).privacy.private
    data = dataset(X, Y, init_score=SECRET, free_raw_data=False)
    fit(data, init_model=private_model())
    part, _ = fold_part(data)
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="init_score"):
        assert not fit(part).privacy.private


def test_side_door_an_init_model_is_refused_for_a_part_whose_data_is_gone():
    part, _ = fold_part(dataset(X, Y))
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=r"init_model.*free_raw_data=False"):
        fit(part, init_model=private_model())


def test_side_door_cross_validation_starts_from_the_scores_of_init_model():
    model = private_model()
    data = dataset(X, Y, init_score=SECRET, free_raw_data=False)
    result = lgb.cv(
        QUIET,
        data,
        2,
        folds=lgb_dp.folds(3, data),
        init_model=model,
        callbacks=[lgb_dp.NewtonBoost(1.0, 1e-6)],
        return_cvbooster=True,
    )
    for booster in result["cvbooster"].boosters:
        assert booster.privacy.private
        assert set(booster.train_set.start_scores[:, 0]) <= set(model.predict(X, raw_score=True))


def test_side_door_a_part_cannot_declare_scores_that_it_does_not_use():
    part, rows = fold_part(dataset(X, Y, init_score=SECRET))
    for setter in (part.set_init_score, part.set_label, part.set_weight):
        with pytest.raises(lgb_dp.UnsupportedParameterError, match="of a subset"):
            setter(np.zeros(len(rows)))
    part.public_init_score = True
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="init_score"):
        assert not fit(part).privacy.private


def test_side_door_scores_that_are_not_those_of_init_model_are_refused():
    data = dataset(X, Y, init_score=SECRET).construct()
    data._predictor = fit(dataset(X, Y), init_model=private_model()).train_set._predictor
    model = InitialModel.behind(data._predictor)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="run's init_model"):
        replace(rows_of_run(data, None), model_digest=model.digest).start_training()


@pytest.mark.parametrize("is_constructed", [False, True])
def test_side_door_persons_and_their_weight_cannot_change(is_constructed):
    data = dataset(X, Y, groups=np.arange(400) // 4, rows_per_group=4, group_weight="mean")
    if is_constructed:
        data.construct()
    for name in ("groups", "group_weight", "group_of_row", "unit"):
        with pytest.raises(AttributeError):
            setattr(data, name, None)
    assert data.group_weight == "mean"
    assert data.unit.rows == 4


def test_side_door_the_type_of_a_column_of_declared_codes_is_not_in_the_model():
    codes = np.arange(400) % 3
    tails = []
    for column in (codes, codes.astype(float), codes.astype(object), [*codes[:-1], "private"]):
        frame = pd.DataFrame({"c": pd.Series(column)})
        data = lgb_dp.Dataset(frame, Y, categories={"c": [2, 0, 1]})
        model = train(data, lgb_dp.DPBoost(1.0))
        tails.append(model.model_to_string().splitlines()[-1])
        np.testing.assert_array_equal(data.codes.take(np.arange(399)).codes, codes[:399, None])
    assert tails == ["pandas_categorical:null"] * 4


def test_an_altered_initial_model_voids_the_guarantee():
    first = train(dataset(X, Y), lgb_dp.DPBoost(1.0))
    altered = lgb.Booster(model_str=first.model_to_string()).set_leaf_output(0, 0, 123.0)
    params = {"objective": "binary", "verbosity": -1}
    second = lgb.train(params, dataset(X, Y), 2, init_model=altered, callbacks=[lgb_dp.DPBoost(1.0)])
    assert not second.privacy.private
    assert "init_model" in second.privacy.reasons[0]


def test_scores_that_an_initial_model_gives_need_not_be_finite():
    data = dataset(X, Y, public_init_score=True).construct()
    data._used_scores = StartScores(np.full((len(X), 1), np.nan), is_public=True)
    values = leaf_values(train(data, lgb_dp.DPBoost(1.0, gdf=False), n_rounds=1, learning_rate=0.1))
    assert np.abs(values).max() <= 0.1
