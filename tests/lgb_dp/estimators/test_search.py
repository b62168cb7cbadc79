"""Private search: its accounting against the paper's formulas, and what leaves it."""

import math
import warnings

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.base import clone

import lgb_dp
from lgb_dp.accounting.gaussian import gaussian_epsilon
from lgb_dp.estimators import search
from lgb_dp.mechanisms.rng import SecureRandom
from small_training import binary_data

X, Y = binary_data(600)
DELTA = 1e-5


def theorem_2(mu, mean, delta):
    """Papernot and Steinke, theorem 2 with η = 0 and Gaussian trials, on a grid of its own; RDP to (ε, δ)."""
    gamma = search.logarithmic_gamma(mean)
    orders = np.concatenate([np.linspace(1.02, 12, 800), np.geomspace(12, 5000, 400)])
    rho = orders * mu**2 / 2
    constant = np.min((1 - 1 / orders) * rho + math.log(1 / gamma) / orders)
    total = rho + constant + math.log(mean) / (orders - 1)
    # Canonne, Kamath and Steinke, proposition 12.
    return float(np.min(total + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)))


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("mean", [2.0, 10.0, 200.0])
def test_the_cost_is_the_papers(mu, mean):
    # dp_accounting has a coarser grid of orders, so it may be above the formula but not below.
    cost, formula = search.search_epsilon(mu, DELTA, mean), theorem_2(mu, mean, DELTA)
    assert 0.999 * formula <= cost <= 1.1 * formula
    assert search.search_epsilon(mu, DELTA, mean) > gaussian_epsilon(mu, DELTA)


@pytest.mark.parametrize(("epsilon", "mean"), [(0.5, 5.0), (2.0, 20.0)])
def test_trials_spend_what_the_search_may(epsilon, mean):
    mu = search.trial_mu(epsilon, DELTA, mean)
    assert 0.999 * epsilon < search.search_epsilon(mu, DELTA, mean) <= epsilon


def test_the_number_of_trials_is_logarithmic():
    gamma, random = search.logarithmic_gamma(8.0), SecureRandom(2)
    drawn = np.array([search.draw_number_of_trials(gamma, random) for _ in range(20_000)])
    assert drawn.min() == 1
    for k in (1, 2, 5, 20):
        probability = (1 - gamma) ** k / (k * math.log(1 / gamma))
        assert np.mean(drawn == k) == pytest.approx(probability, abs=5 * math.sqrt(probability / len(drawn)))
    exact_mean = (1 / gamma - 1) / math.log(1 / gamma)
    assert exact_mean <= 8.0
    assert exact_mean == pytest.approx(8.0, rel=1e-6)


def searched(epsilon=20.0, **kwargs):
    model = lgb_dp.DPLGBMClassifier(n_estimators=20)
    settings = {"max_depth": [1, 2, 3], "learning_rate": [1e-6, 0.3, 0.6]}
    return lgb_dp.DPRandomizedSearchCV(model, settings, epsilon=epsilon, mean_trials=6.0, **kwargs)


def test_side_door_the_number_of_trials_is_accounted_for_as_it_was_drawn(monkeypatch):
    found, row_scores = searched(epsilon=2.0), search.row_scores

    def disturb(*args):
        found.mean_trials = 2.0
        return row_scores(*args)

    monkeypatch.setattr(search, "row_scores", disturb)
    found.fit(X, Y.astype(int), bounds=(-3, 3))
    assert 0.999 * 2.0 < found.privacy_.epsilon <= 2.0


def test_it_finds_settings_that_learn_and_reports_the_search(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = searched().fit(X, Y.astype(int), bounds=(-3, 3))
    assert found.best_params_["learning_rate"] in (1e-6, 0.3, 0.6)
    report = found.best_estimator_.privacy_
    assert report == found.privacy_
    assert report.private
    assert 19.9 < report.epsilon <= 20.0
    found.best_estimator_.booster_.save_model(tmp_path / "m.txt")
    assert lgb_dp.privacy_of(tmp_path / "m.txt").epsilon == report.epsilon
    raw = lgb.Booster(model_file=str(tmp_path / "m.txt")).predict(X)
    np.testing.assert_array_equal(raw, found.predict_proba(X)[:, 1])
    assert not hasattr(found, "cv_results_")
    assert not hasattr(found, "best_score_")


def test_the_best_trial_keeps_its_evaluation():
    found = searched()
    found.estimator.set_params(validation_fraction=0.2)
    best = found.fit(X, Y.astype(int), bounds=(-3, 3)).best_estimator_
    assert best.evaluation_.n_rows.high < len(X) / 2
    assert best.privacy_ == found.privacy_


def test_good_settings_are_preferred(monkeypatch):
    monkeypatch.setattr(search, "draw_number_of_trials", lambda *_: 6)  # one trial has nothing to prefer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rates = [
            searched(random_state=seed).fit(X, Y.astype(int), bounds=(-3, 3)).best_params_["learning_rate"]
            for seed in range(4)
        ]
    assert np.mean(np.array(rates) > 0.1) > 0.7


def test_training_and_scoring_read_disjoint_rows(monkeypatch):
    parts = []
    monkeypatch.setattr(search, "rows_of", lambda X, rows: parts.append(rows) or X[rows])
    searched().fit(X, Y.astype(int), bounds=(-3, 3))
    train, test = parts[0], parts[1]
    assert not set(train) & set(test)
    assert len(train) + len(test) == len(X)
    for again in parts[2:]:
        assert np.array_equal(again, train) or np.array_equal(again, test)


def test_no_row_moves_a_score_by_more_than_one():
    model = lgb_dp.DPLGBMClassifier(n_estimators=5).fit(X, Y.astype(int), bounds=(-3, 3))
    steps = search.row_scores(model, X, 1 - Y, {})
    assert steps.min() >= 0
    assert steps.max() <= search.SCORE_STEPS
    regressor = lgb_dp.DPLGBMRegressor(n_estimators=5)
    regressor.fit(X, X[:, 0], bounds=(-3, 3), label_bounds=(-3, 3))
    steps = search.row_scores(regressor, X, np.full(600, 1e300), {"label_bounds": (-3, 3)})
    assert (steps == 0).all()


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [({"mean_trials": 1.0}, "mean_trials"), ({"test_share": 0.0}, "test_share"), ({"delta": 0.0}, "delta")],
)
def test_bad_arguments_are_named(kwargs, match):
    with pytest.raises(ValueError, match=match):
        searched().set_params(**kwargs).fit(X, Y.astype(int), bounds=(-3, 3))


def test_labels_must_be_as_many_as_rows():
    with pytest.raises(ValueError, match="599 labels; X has 600 rows"):
        searched().fit(X, Y[1:].astype(int), bounds=(-3, 3))


def test_other_methods_and_row_weights_are_refused():
    wrong = lgb_dp.DPRandomizedSearchCV(lgb_dp.DPLGBMClassifier(method="dpboost"), {})
    with pytest.raises(ValueError, match="newton"):
        wrong.fit(X, Y)
    with pytest.raises(ValueError, match="sample_weight"):
        searched().fit(X, Y.astype(int), bounds=(-3, 3), sample_weight=np.ones(600))


@pytest.mark.parametrize("name", ["cv_results_", "best_score_"])
def test_what_is_not_published_says_why(name):
    found = searched()
    assert not hasattr(found, name)
    with pytest.raises(AttributeError, match=f"{name}.*published"):
        getattr(found, name)
    assert clone(found).get_params().keys() == found.get_params().keys()
