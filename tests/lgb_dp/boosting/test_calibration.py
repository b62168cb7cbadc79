"""Calibrated models: native, under the same guarantee, closer to the labels, refused where no table is."""

import pickle

import lightgbm
import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone

import lgb_dp
from lgb_dp.evaluation.evaluation import PrivateEvaluation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6000, 3))
Y = (RNG.random(6000) < expit(2 * X[:, 0])).astype(int)
PUBLIC = {"bounds": (-4, 4)}


def table(factor, shift, std, seed, n_rows=3000):
    """Of scores whose log-odds are factor · score + shift."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n_rows)
    label = rng.random(n_rows) < expit(factor * score + shift)
    edges = np.append(np.linspace(-2, 2, 31), 0.0)
    edges = np.unique(edges)
    ends = np.concatenate([[-3.0], edges, [3.0]])
    points = np.linspace(ends[:-1], ends[1:], 5).T
    counts = np.zeros((len(points), 2))
    np.add.at(counts, (np.searchsorted(edges, score), label.astype(int)), 1)
    return PrivateEvaluation(edges, points, counts + rng.normal(0, std, counts.shape), std)


def test_two_numbers_are_found_and_shrunk_by_noise():
    assert table(0.6, 0.4, 0.0, 1, 100_000).platt() == pytest.approx((0.6, 0.4), abs=0.03)
    assert table(0.6, 0.4, 1.0, 1).moved(1.0, 0.0).platt() == table(0.6, 0.4, 1.0, 1).platt()
    little, much = (
        [np.abs(np.subtract(table(1.0, 0.0, std, seed).platt(), (1, 0))).sum() for seed in range(40)]
        for std in (0.0, 20.0)
    )
    assert np.mean(little) < 0.06
    assert np.mean(much) < 0.5
    assert min(much) == min(little) == 0.0


def test_tables_without_information_change_nothing():
    some = table(1.0, 0.0, 0.0, 0)
    for counts in (0 * some.counts, -some.counts, some.counts * [0, 1]):
        assert PrivateEvaluation(some.edges, some.points, counts, 3.0).platt() == (1.0, 0.0)


@pytest.fixture(scope="module")
def plain():
    city = np.column_stack([X, np.arange(len(X)) % 2])
    data = lgb_dp.Dataset(city, Y, bounds={k: (-4, 4) for k in range(3)}, categories={3: [0, 1]})
    trainer = lgb_dp.NewtonBoost(8.0, 1e-5, validation_fraction=0.5, by=3)
    return lightgbm.train({"objective": "binary", "verbosity": -1}, data, 12, callbacks=[trainer])


def test_the_model_stays_native_and_its_evaluation_is_its_own(plain, tmp_path):
    factor, shift = plain.evaluation.platt()
    assert (factor, shift) != (1, 0)
    found = lgb_dp.calibrate(plain)
    rows = np.column_stack([X, np.zeros(len(X))])
    raw = plain.predict(rows, raw_score=True)
    np.testing.assert_allclose(found.predict(rows, raw_score=True), factor * raw + shift, atol=1e-12)
    found.save_model(tmp_path / "model.txt")
    stock = lightgbm.Booster(model_file=tmp_path / "model.txt")
    np.testing.assert_array_equal(stock.predict(rows), found.predict(rows))
    assert lgb_dp.privacy_of(tmp_path / "model.txt").to_dict() == plain.privacy.to_dict()
    assert pickle.loads(pickle.dumps(found)).evaluation.to_dict() == found.evaluation.to_dict()
    np.testing.assert_allclose(found.evaluation.edges, factor * plain.evaluation.edges + shift)
    assert found.evaluation.auc == plain.evaluation.auc
    assert found.evaluation.log_loss.value <= plain.evaluation.log_loss.value
    assert found.evaluation.groups.keys() == plain.evaluation.groups.keys()
    right = (found.predict(rows) > 0.5) == Y
    assert found.evaluation.accuracy.low <= right.mean() <= found.evaluation.accuracy.high
    confusion = found.evaluation.confusion()
    assert sum(row["rows"] for row in confusion) == pytest.approx(found.evaluation.counts.sum())
    assert lgb_dp.fold(found).evaluation.to_dict() == found.evaluation.to_dict()


def test_an_estimator_calibrates_where_it_was_evaluated():
    model = lgb_dp.DPLGBMClassifier(8.0, n_estimators=8, validation_fraction=0.5, calibrate=True)
    model = clone(model).fit(X, Y, **PUBLIC)
    assert 0.0 not in model.evaluation_.edges
    assert "calibrate=True" in repr(model)
    assert pickle.loads(pickle.dumps(model)).evaluation_.to_dict() == model.evaluation_.to_dict()
    model.fit(
        X,
        Y,
        eval_set=[(X[:9], 1 - Y[:9])],
        public_eval_set=True,
        **PUBLIC,
        callbacks=[lightgbm.early_stopping(2, verbose=False)],
    )
    assert not hasattr(model, "evaluation_")


@pytest.mark.parametrize(
    ("settings", "label", "name"),
    [
        ({}, Y, "validation_fraction"),
        ({"validation_fraction": 0.2}, np.arange(len(Y)) % 3, "calibrate=True"),
        ({"validation_fraction": 0.2, "calibrate": "yes"}, Y, "calibrate"),
    ],
)
def test_fits_that_cannot_be_calibrated_are_refused_before_they_are_paid_for(settings, label, name):
    budget = lgb_dp.Budget(5.0, 1e-4)
    model = lgb_dp.DPLGBMClassifier(n_estimators=2, **{"calibrate": True, **settings})
    with pytest.raises((lgb_dp.InvalidArgumentError, lgb_dp.ArgumentTypeError), match=name):
        model.fit(X, label, classes=[0, 1, 2][: label.max() + 1], budget=budget, **PUBLIC)
    assert budget.spent == lgb_dp.Budget(5.0, 1e-4).spent


def test_boosters_without_a_table_of_two_classes_are_refused():
    regressor = lgb_dp.DPLGBMRegressor(n_estimators=2, validation_fraction=0.2)
    for model in (lgb_dp.DPLGBMClassifier(n_estimators=2).fit(X, Y, **PUBLIC), regressor):
        if model is regressor:
            model.fit(X, X[:, 0], label_bounds=(-4, 4), **PUBLIC)
        with pytest.raises(lgb_dp.InvalidArgumentError, match="validation_fraction"):
            lgb_dp.calibrate(model.booster_)
    with pytest.raises(lgb_dp.ArgumentTypeError, match="booster"):
        lgb_dp.calibrate("model.txt")
