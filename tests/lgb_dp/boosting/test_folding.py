"""A folded private model keeps its guarantee, and its predictions within the tolerance."""

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from small_training import binary_data, dataset, train


@pytest.fixture(scope="module")
def trained():
    X, y = binary_data()
    return train(dataset(X, y), lgb_dp.NewtonBoost(5.0, 1e-5), 40, max_depth=4), X


@pytest.mark.parametrize("tolerance", [0, 0.01, 0.5])
def test_folded_model(trained, tolerance, tmp_path):
    booster, X = trained
    folded = lgb_dp.fold(booster, tolerance)
    assert folded.privacy == booster.privacy
    folded.save_model(tmp_path / "folded.txt")
    booster.save_model(tmp_path / "trained.txt")
    assert (tmp_path / "folded.txt").stat().st_size < 0.95 * (tmp_path / "trained.txt").stat().st_size
    assert lgb_dp.privacy_of(tmp_path / "folded.txt") == booster.privacy
    stock = lgb.Booster(model_file=tmp_path / "folded.txt")
    difference = stock.predict(X, raw_score=True) - booster.predict(X, raw_score=True)
    assert np.abs(difference).max() <= tolerance
    assert folded.predict(X).tolist() == stock.predict(X).tolist()
    assert folded.best_iteration == booster.best_iteration


def test_bad_arguments(trained):
    booster, X = trained
    with pytest.raises(lgb_dp.ArgumentTypeError, match="booster must be"):
        lgb_dp.fold("model.txt")
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"tolerance.*negative"):
        lgb_dp.fold(booster, -1)
    with pytest.raises(lgb_dp.ArgumentTypeError, match="tolerance"):
        lgb_dp.fold(booster, "a little")
    stock = lgb.train({"verbosity": -1}, lgb.Dataset(X, X[:, 0]), 2)
    with pytest.raises(lgb_dp.NoGuaranteeError):
        lgb_dp.fold(stock)
    altered = lgb_dp.DPBooster(model_str=booster.model_to_string())
    altered.set_leaf_output(0, 0, 3.0)
    with pytest.raises(lgb_dp.AlteredModelError):
        lgb_dp.fold(altered)
