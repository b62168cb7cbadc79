"""The guarantee follows the start scores, labels and persons that are used, not those that were announced."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import lgb_dp
from small_training import binary_data, dataset, train

X, Y = binary_data()
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2}
SECRET = np.where(Y > 0, 5.0, -5.0)


def private_model():
    return train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, 1e-6))


def fold_part(data):
    rows = next(lgb_dp.folds(3, data).split())[0]
    return data.subset(rows), rows


def fit(data, **kwargs):
    callback = lgb_dp.NewtonBoost(1.0, 1e-6)
    return lgb.train(QUIET, data, 3, callbacks=[callback], keep_training_booster=True, **kwargs)


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
    with pytest.raises(lgb_dp.InvalidArgumentError, match="not those of this run's init_model"):
        data.start_training()


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


@pytest.mark.parametrize("odd", ["b", None, 1.5, (1,)])
def test_side_door_no_cell_decides_whether_an_init_model_of_lightgbms_own_can_be_read(odd):
    cells = np.where(Y > 0, "a", "b")
    plain = lgb.train(QUIET, lgb.Dataset(pd.DataFrame({"c": pd.Categorical(cells), "x": X[:, 0]}), Y), 3)
    column = pd.Series([*cells[:-1], odd], dtype=object)
    frame = pd.DataFrame({"c": column, "x": X[:, 0]})
    data = lgb_dp.Dataset(frame, Y, bounds=(-3, 3), categories={"c": ["b", "a"]}, free_raw_data=False)
    fit(data, init_model=plain)
    known = frame.assign(c=pd.Categorical(column.where(column.isin(["a", "b"])), ["a", "b"]))
    np.testing.assert_allclose(data.start_scores[:, 0], plain.predict(known, raw_score=True))


def test_category_columns_of_an_init_model_are_counted():
    frame = pd.DataFrame({"c": pd.Categorical(np.where(Y > 0, "a", "b")), "x": X[:, 0]})
    plain = lgb.train(QUIET, lgb.Dataset(frame, Y), 3)
    data = lgb_dp.Dataset(frame.assign(c=X[:, 1]), Y, bounds=(-3, 3), free_raw_data=False)
    with pytest.raises(ValueError, match="init_model has 1 category columns, and the Dataset 0"):
        fit(data, init_model=plain)
