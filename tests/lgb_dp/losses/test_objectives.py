"""LightGBM's other objectives of regression: what NewtonBoost learns by them, and that models are native."""

import pickle
import warnings

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import lgb_dp
from growers import grower_of
from lgb_dp.boosting.params import training_parameters
from lgb_dp.losses import registry
from newton_training import DELTA, live_booster, training_scores
from small_training import dataset

RNG = np.random.default_rng(0)
N_ROWS = 2000
X = RNG.uniform(-1, 1, (N_ROWS, 3))
MEAN = np.exp(0.5 + X[:, 0] + 0.6 * (X[:, 1] > 0))
COUNTS = RNG.poisson(MEAN).astype(float)
AMOUNTS = RNG.gamma(2.0, MEAN / 2).clip(0.01, 60)
CLAIMS = np.where(RNG.random(N_ROWS) < 0.4, AMOUNTS, 0.0)
LABELS = {
    "poisson": (COUNTS, (0, 60), {}),
    "gamma": (AMOUNTS, (0.01, 60), {}),
    "tweedie": (CLAIMS, (0, 60), {"tweedie_variance_power": 1.3}),
    "quantile": (AMOUNTS, (0, 60), {"alpha": 0.8}),
    "huber": (AMOUNTS, (-5, 60), {"alpha": 1.5}),
    "regression_l1": (AMOUNTS, (0, 60), {}),
}
OBJECTIVES = list(LABELS)
LOG_LINKS = ("poisson", "gamma", "tweedie")
pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.NotPrivateWarning")


def rows(objective, **settings):
    label, label_bounds, _ = LABELS[objective]
    return dataset(X, label, **{"bounds": (-1, 1), "max_bin": 16, "label_bounds": label_bounds, **settings})


def params_of(objective):
    return {"objective": objective, "verbosity": -1, **LABELS[objective][2]}


def boosted(objective, epsilon=30.0, n_rounds=120, data=None, trainer=(), **train):
    private = lgb_dp.NewtonBoost(epsilon, DELTA, **dict(trainer))
    data = rows(objective) if data is None else data
    callbacks = [private, *train.pop("callbacks", ())]
    params = {**params_of(objective), **train.pop("params", {})}
    return lgb.train(params, data, n_rounds, callbacks=callbacks, **train)


def by_lightgbm(objective, prediction, label):
    """LightGBM's own metric of predictions, through raw scores."""
    raw = np.log(prediction) if objective in LOG_LINKS else prediction
    stand_in = lgb.Dataset(np.zeros((2, 1)), np.array([1.0, 2.0]))
    held_out = stand_in.create_valid(np.zeros((len(raw), 1)), label, init_score=raw)
    booster = lgb.Booster(params_of(objective), stand_in).add_valid(held_out, "rows")
    ((_, name, value, _),) = booster.eval_valid()
    return name, value


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_it_learns_and_reports(objective):
    label, _, own = LABELS[objective]
    booster = boosted(objective)
    constant = {"quantile": np.quantile(label, 0.8), "regression_l1": np.median(label)}.get(
        objective, label.mean()
    )
    _, learned = by_lightgbm(objective, booster.predict(X), label)
    _, of_constant = by_lightgbm(objective, np.full(N_ROWS, constant), label)
    assert learned < of_constant
    assert np.corrcoef(booster.predict(X), MEAN)[0, 1] > 0.8
    assert booster.privacy.private
    assert booster.privacy.epsilon == pytest.approx(30.0, rel=1e-6)
    if objective in LOG_LINKS:
        assert booster.predict(X).mean() == pytest.approx(label.mean(), rel=0.15)
    if objective == "quantile":
        assert (label <= booster.predict(X)).mean() == pytest.approx(own["alpha"], abs=0.07)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_models_are_as_lightgbm_writes_them_and_predict_without_us(objective, tmp_path):
    booster = boosted(objective, n_rounds=5)
    stock = lgb.train(params_of(objective), lgb.Dataset(X, LABELS[objective][0]), 1)
    lines = [line for line in stock.model_to_string().splitlines() if line.startswith("objective=")]
    text = booster.model_to_string()
    assert [line for line in text.splitlines() if line.startswith("objective=")] == lines
    for name, value in LABELS[objective][2].items():
        assert f"[{name}: {value}]" in text
    booster.save_model(tmp_path / "model.txt")
    native = lgb.Booster(model_file=tmp_path / "model.txt")
    np.testing.assert_array_equal(native.predict(X), booster.predict(X))
    raw = native.predict(X, raw_score=True)
    np.testing.assert_allclose(native.predict(X), np.exp(raw) if objective in LOG_LINKS else raw)
    np.testing.assert_allclose(native.predict(X[:50], pred_contrib=True).sum(axis=1), raw[:50])
    assert lgb_dp.privacy_of(native).epsilon == booster.privacy.epsilon


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_metrics_are_the_objectives_own_and_lightgbms(objective):
    found = {}
    data = rows(objective)
    held_out = data.create_valid(X[:300], LABELS[objective][0][:300], public=True)
    callbacks = [lgb.record_evaluation(found), lgb.early_stopping(5, verbose=False)]
    booster = boosted(objective, n_rounds=30, data=data, valid_sets=[held_out], callbacks=callbacks)
    ((metric, values),) = found["valid_0"].items()
    prediction = booster.predict(X[:300], num_iteration=len(values))
    name, value = by_lightgbm(objective, booster.predict(X[:300]), LABELS[objective][0][:300])
    assert metric == name
    assert np.isfinite(prediction).all()
    assert value == pytest.approx(values[booster.best_iteration - 1], rel=1e-6)
    assert booster.privacy.private


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_goes_on_where_the_model_stands(objective):
    """Scores of the rows are those of the model, after a rollback, from a model and from start scores."""
    first = boosted(objective, n_rounds=4, data=rows(objective, free_raw_data=False))
    live = live_booster(20, rows(objective), params_of(objective))
    for _ in range(3):
        live.update()
    live.rollback_one_iter()
    live.update()
    scale = grower_of(live).label_scale
    raw = live.predict(X, raw_score=True)
    np.testing.assert_allclose(training_scores(live)[:, 0] * scale.scale + scale.centre, raw, atol=1e-9)
    more = boosted(objective, n_rounds=3, data=rows(objective, free_raw_data=False), init_model=first)
    assert more.num_trees() == 7
    assert more.privacy.epsilon > first.privacy.epsilon
    np.testing.assert_allclose(more.predict(X, num_iteration=4), first.predict(X))
    start = np.full(N_ROWS, 0.3)
    from_scores = boosted(
        objective, n_rounds=3, data=rows(objective, init_score=start, public_init_score=True)
    )
    assert from_scores.privacy.private


@pytest.mark.parametrize("objective", ["poisson", "gamma", "quantile", "huber"])
def test_options_of_the_trainer(objective, monkeypatch):
    monkeypatch.setattr("lgb_dp.newton.budget_plan.sampled_mu", lambda *args: 0.1)  # accounting of seconds
    monkeypatch.setattr("lgb_dp.accounting.cost.composed_epsilon", lambda mu, sampled, delta: 1.0)
    constrained = boosted(objective, n_rounds=20, params={"monotone_constraints": [1, 0, 0]})
    line = np.column_stack([np.linspace(-1, 1, 50), np.zeros(50), np.zeros(50)])
    assert (np.diff(constrained.predict(line)) >= 0).all()
    weights = {"weight": RNG.uniform(0, 2, N_ROWS), "weight_bound": 2.0}
    assert boosted(objective, n_rounds=3, data=rows(objective, **weights)).privacy.private
    groups = {"groups": np.arange(N_ROWS) // 3, "rows_per_group": 3, "group_weight": "mean"}
    assert boosted(objective, n_rounds=3, data=rows(objective, **groups)).privacy.private
    assert boosted(objective, n_rounds=3, trainer={"subsample": 0.5}).privacy.private
    assert boosted(objective, n_rounds=3, trainer={"hessian_share": 0.3}).privacy.private


@pytest.mark.parametrize(
    ("objective", "label", "label_bounds", "match"),
    [
        ("poisson", COUNTS, (-1, 60), "label_bounds"),
        ("tweedie", COUNTS, (-0.5, 60), "label_bounds"),
        ("gamma", AMOUNTS, (0, 60), "label_bounds"),
        ("poisson", COUNTS, (0, 2), "label must lie within label_bounds"),
        ("gamma", COUNTS, (0.5, 60), "label must lie within label_bounds"),
        ("quantile", COUNTS, (1, 60), "label must lie within label_bounds"),
        ("huber", np.where(COUNTS > 3, np.nan, COUNTS), (0, 60), "label"),
    ],
)
def test_labels_and_bounds_that_do_not_fit_are_named(objective, label, label_bounds, match):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=match):
        boosted(objective, n_rounds=1, data=dataset(X, label, bounds=(-1, 1), label_bounds=label_bounds))


@pytest.mark.parametrize("objective", ["poisson", "gamma", "quantile"])
def test_labels_beyond_the_bounds_count_as_the_bounds_if_they_are_clipped(objective):
    label, (low, _), _ = LABELS[objective]
    odd = np.where(np.arange(N_ROWS) % 5, label, np.where(np.arange(N_ROWS) % 2, np.inf, -3.0))
    texts = []
    for values in (odd, odd.clip(low, 4.0), np.where(odd > 4, 4.0, np.maximum(odd, low))):
        data = rows(objective, label_overflow="clip", label_bounds=(low, 4.0))
        data.set_label(values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lgb_dp.PrivacyLeakWarning)
            texts.append(
                boosted(objective, n_rounds=2, data=data, trainer={"random_state": 3}).model_to_string()
            )
    assert texts[0] == texts[1] == texts[2]


def test_structures_are_not_distilled(monkeypatch):
    monkeypatch.setattr("lgb_dp.newton.core.distilled_depth", lambda *_: (3, True))
    for objective, distils in (("poisson", False), ("quantile", False), ("regression", True)):
        data = dataset(X, COUNTS, bounds=(-1, 1), label_bounds=(0, 60))
        params = {"objective": objective, "verbosity": -1}
        booster = lgb.train(params, data, 3, callbacks=[lgb_dp.NewtonBoost(30.0, DELTA)])
        releases = [entry["release"] for entry in booster.privacy.ledger]
        assert ("feature histograms" in releases) == distils


def test_bounds_that_are_read_from_labels_void_the_report():
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="label_bounds"):
        booster = boosted("quantile", n_rounds=2, data=dataset(X, COUNTS, bounds=(-1, 1)))
    assert not booster.privacy.private


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"objective": "quantile", "alpha": 1.0}, "alpha"),
        ({"objective": "quantile", "alpha": 0.0}, "alpha"),
        ({"objective": "huber", "alpha": -1.0}, "alpha"),
        ({"objective": "tweedie", "tweedie_variance_power": 2.0}, "tweedie_variance_power"),
        ({"objective": "tweedie", "tweedie_variance_power": 0.9}, "tweedie_variance_power"),
        ({"objective": "poisson", "alpha": 0.5}, "alpha=0.5 is not supported"),
        ({"objective": "poisson", "poisson_max_delta_step": 0.1}, "poisson_max_delta_step"),
        ({"objective": "lambdarank"}, "relevance of rows"),
        ({"objective": "xendcg"}, "relevance of rows"),
    ],
)
def test_parameters_of_objectives_are_checked(params, match):
    with pytest.raises((lgb_dp.InvalidArgumentError, lgb_dp.UnsupportedParameterError), match=match):
        training_parameters(params, 255)


@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost, lgb_dp.MBoost, lgb_dp.RandomForestLaplace])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_other_trainers_refuse_the_objectives(trainer, objective):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=f"objective='{objective}'"):
        lgb.train(params_of(objective), rows(objective), 1, callbacks=[trainer(1.0)])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_estimator_has_the_objectives(objective):
    label, label_bounds, own = LABELS[objective]
    model = lgb_dp.DPLGBMRegressor(10.0, objective=objective, n_estimators=8, **own)
    known = {"bounds": (-1, 1), "label_bounds": label_bounds}
    model.fit(X, label, eval_set=[(X[:100], label[:100])], public_eval_set=True, **known)
    assert model.objective_ == objective
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    (metric,) = model.evals_result_["valid_0"]
    assert metric == by_lightgbm(objective, model.predict(X[:100]).clip(0.1), label[:100])[0]
    if objective == "poisson":
        with pytest.warns(lgb_dp.NotPrivateWarning):
            grid = GridSearchCV(clone(model), {"max_depth": [2, 3]}, cv=2).fit(X, label, **known)
        assert np.isfinite(grid.predict(X)).all()


def test_a_name_of_lightgbm_for_the_absolute_loss_and_a_classifier():
    model = lgb_dp.DPLGBMRegressor(objective="mae", n_estimators=2).fit(
        X, AMOUNTS, bounds=(-1, 1), label_bounds=(0, 60)
    )
    assert model.objective_ == "regression_l1"
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="DPLGBMClassifier"):
        lgb_dp.DPLGBMClassifier(objective="poisson").fit(X, (X[:, 0] > 0) * 1, bounds=(-1, 1))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="alpha"):
        lgb_dp.DPLGBMRegressor(objective="quantile", alpha=1.5).fit(X, AMOUNTS, bounds=(-1, 1))


def test_the_search_scores_by_the_objectives_own_errors():
    error = np.linspace(-1, 1, 201)
    for objective in [*OBJECTIVES, "regression"]:
        alpha = LABELS.get(objective, (0, 0, {}))[2].get("alpha", 0.9)
        loss = registry.OBJECTIVES[objective].error(error, 4.0, alpha)
        assert loss.min() == loss[100] == 0
        assert loss.max() == pytest.approx(1.0)
        assert (np.diff(loss[100:]) >= 0).all()
        assert (np.diff(loss[:101]) <= 0).all()
        if objective == "quantile":
            assert loss[-1] == pytest.approx(4 * loss[0])
    found = lgb_dp.DPRandomizedSearchCV(
        lgb_dp.DPLGBMRegressor(objective="quantile", alpha=0.8, n_estimators=3),
        {"max_depth": [2, 3]},
        epsilon=5.0,
        mean_trials=2,
    ).fit(X, AMOUNTS, bounds=(-1, 1), label_bounds=(0, 60))
    assert found.best_estimator_.objective_ == "quantile"
    assert found.privacy_.private


@pytest.mark.parametrize("objective", ["poisson", "gamma", "tweedie"])
def test_side_door_bounds_of_logarithmic_links_are_not_read_from_labels(objective):
    """Before, the error about labels out of range quoted the smallest and the largest one."""
    label = np.full(60, 2.5)
    label[7] = -41.25
    data = lgb_dp.Dataset(np.zeros((60, 1)), label, bounds=(-1, 1))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="label_bounds must be given") as caught:
        lgb.train(
            {"objective": objective, "verbosity": -1}, data, 1, callbacks=[lgb_dp.NewtonBoost(1.0, 1e-6)]
        )
    assert "41" not in str(caught.value)


def test_side_door_the_metric_that_an_objective_brings_is_checked_like_a_named_one():
    """LightGBM's gamma refuses labels that are 0 in float32, which bounds allow that are."""
    data = lgb_dp.Dataset(np.zeros((60, 1)), np.ones(60), bounds=(-1, 1), label_bounds=(1e-60, 3))
    valid = data.create_valid(np.zeros((5, 1)), np.ones(5))
    params = {"objective": "gamma", "verbosity": -1}
    callbacks = [lgb_dp.NewtonBoost(1.0, 1e-6)]
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="metric='gamma' is not supported"):
        lgb.train(params, data, 1, valid_sets=[valid], callbacks=callbacks)


def test_a_huber_threshold_that_is_next_to_nothing_is_refused():
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"alpha=1e-300 is too small"):
        boosted("huber", n_rounds=1, params={"alpha": 1e-300})
