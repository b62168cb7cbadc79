"""Models of MBoost predict natively as they were trained, and compose."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import lgb_dp
from lgb_dp.mboost import trainer as mboost
from small_training import binary_data, dataset, train

X, Y = binary_data()


def awkward_data(n=500):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"number": rng.normal(size=n).clip(-3, 3), "code": rng.integers(0, 5, n)})
    frame.loc[::7, "number"] = np.nan
    label = ((frame["number"].fillna(1) > 0) ^ (frame["code"] == 2)).astype(float).to_numpy()
    data = lgb_dp.Dataset(
        frame,
        label,
        bounds={"number": (-3, 3)},
        categories={"code": range(5)},
        weight=rng.random(n),
        weight_bound=1.0,
    )
    return frame, label, data


@pytest.mark.parametrize("epsilon", [20.0, np.inf])
def test_missing_values_categories_and_weights_predict_natively_as_trained(tmp_path, epsilon):
    frame, label, data = awkward_data()
    trainer = lgb_dp.MBoost(epsilon, alpha=0.3)
    booster = train(data, trainer, n_rounds=4, max_depth=3)
    own = trainer.booster_.predict(frame)
    booster.save_model(tmp_path / "m.txt")
    native = lgb.Booster(model_file=tmp_path / "m.txt")
    np.testing.assert_allclose(native.predict(frame), own)
    assert np.mean((own > 0.5) == label) > 0.8
    assert lgb_dp.privacy_of(tmp_path / "m.txt").epsilon == booster.privacy.epsilon
    shap = native.predict(frame, pred_contrib=True)
    np.testing.assert_allclose(shap.sum(axis=1), native.predict(frame, raw_score=True), atol=1e-6)


def test_training_scores_are_those_of_the_model():
    """Boosting weights come from the trainer's own scores; they must be what the model predicts."""
    scores = []
    grow = mboost.MBoostTraining.grow_iteration

    def record(self):
        scores.append(self.predictions(self._rows, self.codes).copy())
        return grow(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mboost.MBoostTraining, "grow_iteration", record)
        booster = train(dataset(X, Y), lgb_dp.MBoost(5.0), n_rounds=3)
    for t in (1, 2):
        expected = booster.predict(X, raw_score=True, num_iteration=t)
        np.testing.assert_allclose(scores[t][:, 0], expected, rtol=1e-12, atol=1e-15)


def test_sparse_rows_train_as_dense_ones():
    dense = np.where(np.random.default_rng(0).random(X.shape) < 0.6, 0.0, X)
    sparse = scipy.sparse.csr_matrix(dense)
    models = [train(dataset(rows, Y), lgb_dp.MBoost(np.inf), max_depth=3) for rows in (dense, sparse)]
    np.testing.assert_array_equal(models[0].predict(dense), models[1].predict(dense))


def test_multi_class_learns_and_sigmoid_is_one():
    label = (X[:, 0] > -0.5).astype(float) + (X[:, 0] > 0.5)
    for objective in ("multiclass", "multiclassova"):
        booster = train(
            dataset(X, label), lgb_dp.MBoost(200.0, alpha=0.1), objective=objective, num_class=3, max_depth=2
        )
        assert np.mean(booster.predict(X).argmax(axis=1) == label) > 0.8
    assert "multiclassova num_class:3 sigmoid:1" in booster.model_to_string()
    binary = train(dataset(X, Y), lgb_dp.MBoost(1.0))
    raw = binary.predict(X, raw_score=True)
    np.testing.assert_allclose(binary.predict(X), 1 / (1 + np.exp(-raw)))


def test_continued_training_and_folds_compose():
    first = train(dataset(X, Y), lgb_dp.MBoost(1.0), n_rounds=2)
    params = {"objective": "binary", "max_depth": 2, "verbosity": -1}
    both = lgb.train(params, dataset(X, Y), 2, init_model=first, callbacks=[lgb_dp.MBoost(0.5)])
    assert both.privacy.epsilon == pytest.approx(1.5)
    data = dataset(X, Y)
    folds = lgb_dp.folds(3, data)
    result = lgb.cv(
        params, data, 2, folds=folds, callbacks=[lgb_dp.MBoost(0.5)], return_cvbooster=True, metrics="auc"
    )
    assert result["cvbooster"].boosters[0].privacy.epsilon == pytest.approx(1.0)


def test_label_bounds_name_the_classes():
    booster = train(dataset(X, np.where(Y > 0, 3.0, -1.0), label_bounds=(-1, 3)), lgb_dp.MBoost(np.inf))
    same = train(dataset(X, Y), lgb_dp.MBoost(np.inf))
    np.testing.assert_array_equal(booster.predict(X), same.predict(X))
