"""No private number makes itself heard by a warning of NumPy."""

import warnings

import numpy as np
import pytest

import lgb_dp
from lgb_dp.estimators import search as search_module
from small_training import binary_data, dataset, train

X, Y = binary_data(60)
TRAINERS = {
    "newton": lambda: lgb_dp.NewtonBoost(1.0, 1e-6),
    "dpboost": lambda: lgb_dp.DPBoost(1.0),
    "filtered": lambda: lgb_dp.DPBoost(1.0, gdf=True),
    "mboost": lambda: lgb_dp.MBoost(1.0),
    "forest": lambda: lgb_dp.RandomForestLaplace(1.0),
}
LONG = np.finfo(np.longdouble).max > np.finfo(np.float64).max


def said(call):
    """Texts of all warnings, of which every one is heard."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return sorted(str(warning.message) for warning in caught)


@pytest.mark.parametrize("score", [1e308, -1e308, 1e200])
@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=TRAINERS.keys())
def test_side_door_no_score_is_heard_in_training(trainer, score):
    def fit(value):
        init_score = np.append(np.zeros(59), value)
        data = dataset(X, Y, init_score=init_score, public_init_score=True)
        train(data, trainer(), 2, callbacks=[lambda env: env.model.rollback_one_iter()])

    assert said(lambda: fit(score)) == said(lambda: fit(0.0))


@pytest.mark.parametrize("score", [1e308, -1e308])
@pytest.mark.parametrize("objective", ["binary", "regression"])
def test_side_door_no_number_is_heard_in_metrics(objective, score):
    def fit(value):
        data = dataset(X, Y, label_bounds=(0, 1))
        numbers = np.append(np.zeros(59), value)
        valid = data.create_valid(X, Y, weight=abs(numbers), init_score=numbers)
        train(data, lgb_dp.NewtonBoost(1.0, 1e-6), 2, [valid], objective=objective)

    assert said(lambda: fit(score)) == said(lambda: fit(0.0))


@pytest.mark.parametrize("label", [1e308, -1e308, np.inf, np.nan])
def test_side_door_no_label_is_heard_in_a_search(monkeypatch, label):
    monkeypatch.setattr(search_module, "draw_number_of_trials", lambda *_: 3)

    def fit(value):
        lgb_dp.DPRandomizedSearchCV(
            lgb_dp.DPLGBMRegressor(n_estimators=2), {"max_depth": [1]}, test_share=0.9, random_state=1
        ).fit(X, np.append(X[:-1, 0], value), bounds=(-3, 3), label_bounds=(0, 1))

    assert said(lambda: fit(label)) == said(lambda: fit(0.5))


@pytest.mark.skipif(not LONG, reason="long double is float64 here")
@pytest.mark.parametrize("sparse", [False, True])
def test_side_door_no_long_cell_is_heard(sparse):
    import scipy.sparse

    def construct(value):
        wide = np.array(X, dtype=np.longdouble)
        wide[3, 1] = value
        dataset(scipy.sparse.csr_matrix(wide) if sparse else wide, Y).construct()

    assert said(lambda: construct(np.longdouble("1e4000"))) == said(lambda: construct(1)) == []


@pytest.mark.parametrize("cell", [1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan])
def test_side_door_no_cell_is_heard_in_metadata(cell):
    wide = X.copy()
    wide[3, 1] = cell
    assert said(lambda: lgb_dp.private_bounds(wide, 1.0, 1e-6)) == []
    assert said(lambda: lgb_dp.private_quantile_edges(wide, (-3, 3), 1.0, 1e-6)) == []
