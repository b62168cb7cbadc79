"""The estimator of times to events: what it learns, refuses, releases and hands on."""

import pickle

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import lgb_dp
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.statements import QUALITY

pytestmark = pytest.mark.filterwarnings("ignore:random_state")

BOUNDS, TIMES = (-3, 3), (0.05, 40.0)


def cohort(n, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)).clip(-3, 3)
    time = np.exp(1.5 - X[:, 0] + 0.4 * random.logistic(size=n))
    seen = random.uniform(0, 30, size=n)
    return X, np.rec.fromarrays([time <= seen, np.minimum(time, seen)], names=["died", "days"]), time


X, Y, TIME = cohort(3000)


def model(**kwargs):
    return lgb_dp.DPLGBMSurvival(**{"epsilon": 20.0, "n_estimators": 60, "random_state": 0, **kwargs})


def fitted(X=X, y=Y, bounds=BOUNDS, fit=None, **kwargs):
    return model(**kwargs).fit(X, y, bounds=bounds, label_bounds=TIMES, **(fit or {}))


@pytest.mark.parametrize("law", ["logistic", "normal", "extreme"])
def test_medians_and_curves_are_those_of_the_rows(law):
    found = fitted(distribution=law)
    median = found.predict(X)
    assert found.score(X, Y) > 0.8
    assert (median > TIME).mean() == pytest.approx(0.5, abs=0.06)
    curves = found.predict_survival_function(X, [0.0, 2.0, 8.0, np.inf])
    np.testing.assert_allclose(curves[:, [0, 3]], [[1.0, 0.0]] * len(X))
    np.testing.assert_allclose(curves.mean(0)[1:3], [(TIME > 2).mean(), (TIME > 8).mean()], atol=0.05)
    np.testing.assert_allclose(found.predict_quantile(X, 0.5), median)
    share = (found.predict_quantile(X, 0.8) > TIME).mean()
    assert share == pytest.approx(0.8, abs=0.06)
    native = lgb.Booster(model_str=found.booster_.model_to_string())
    np.testing.assert_array_equal(native.predict(X), median)
    assert any("label_bounds" in note for note in found.privacy_.notes)


def test_a_public_scale_stays_and_any_other_one_is_released():
    given, auto = fitted(scale=0.5, n_estimators=20), fitted(n_estimators=20)
    assert "sums over all rows" not in str(given.privacy_.to_dict())
    assert "sums over all rows" in str(auto.privacy_.to_dict())
    given.set_params(scale=3.0)  # what was fitted counts
    at = given.predict(X[:1])[0] * np.exp(0.5)
    np.testing.assert_allclose(given.predict_survival_function(X[:1], [at]), 1 / (1 + np.e))
    assert auto.privacy_.epsilon <= 20.0


def test_forms_of_the_same_rows_give_the_same_model():
    wanted = fitted().booster_.model_to_string()
    two = np.column_stack([Y["days"], np.where(Y["died"], Y["days"], np.inf)])
    frame = pd.DataFrame({"died": Y["died"], "days": Y["days"]})
    assert fitted(y=two).booster_.model_to_string() == wanted
    assert fitted(y=frame).booster_.model_to_string() == wanted
    data = lgb_dp.Dataset(
        *(X, Y), bounds=BOUNDS, label_bounds=TIMES, max_bin=255, spacing="mixed", label_overflow="clip"
    )
    params = {"objective": lgb_dp.AFT(), "lambda_l2": 0.1, "verbosity": -1}
    trainer = lgb_dp.NewtonBoost(20.0, 1e-5, random_state=0)
    trained = lgb.train(params, data, 60, callbacks=[trainer])
    np.testing.assert_array_equal(trained.predict(X), fitted().predict(X))
    sparse = fitted(scipy.sparse.csr_matrix(X))
    assert sparse.score(scipy.sparse.csr_matrix(X), Y) > 0.8


def test_intervals_and_events_before_the_first_look_teach():
    lower, upper = 2.0 ** np.floor(np.log2(TIME)), 2.0 ** np.ceil(np.log2(TIME))
    lower[lower < 1] = 0.0
    found = fitted(y=np.column_stack([lower, np.maximum(upper, 1.0)]))
    assert found.score(X, np.column_stack([TIME, TIME])) > 0.8
    assert (found.predict(X) > TIME).mean() == pytest.approx(0.5, abs=0.06)


def test_weights_persons_missing_values_categories_and_constraints():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = np.where(np.arange(len(X)) % 2, "u", "v")
    frame.loc[::7, "b"] = np.nan
    fit = {
        **{"categories": {"kind": ["u", "v"]}, "sample_weight": np.tile([0.0, 1.0, 0.5], 1000)},
        **{"weight_bound": 1.0, "groups": np.arange(3000) // 2, "rows_per_group": 2},
    }
    bounds = dict.fromkeys("abc", BOUNDS)
    found = fitted(frame, bounds=bounds, fit=fit, monotone_constraints=[-1, 0, 0, 0])
    assert "person" in found.privacy_.neighbouring or "group" in found.privacy_.neighbouring
    steps = pd.DataFrame({"a": np.linspace(-3, 3, 50), "b": 0.0, "c": 0.0, "kind": "u"})
    assert (np.diff(found.predict(steps)) <= 0).all()


def test_habits_of_scikit_learn():
    copy = pickle.loads(pickle.dumps(clone(fitted()).set_params(distribution="normal")))
    assert copy.get_params()["distribution"] == "normal"
    found = pickle.loads(pickle.dumps(fitted()))
    np.testing.assert_array_equal(found.predict(X), fitted().predict(X))
    loaded = lgb_dp.DPBooster(model_str=found.booster_.model_to_string())
    assert loaded.privacy.epsilon == found.privacy_.epsilon
    search = GridSearchCV(model(n_estimators=5), {"scale": [0.4, 1.0]}, cv=2)
    with pytest.warns(lgb_dp.NotPrivateWarning):
        search.fit(X, Y, bounds=BOUNDS, label_bounds=TIMES)
    assert 0.5 < search.best_score_ <= 1
    assert "Gaussian" in str(lgb_dp.statement(found.booster_))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"distribution": "gamma"}, "distribution"),
        ({"scale": -1.0}, "scale"),
        ({"method": "dpboost"}, "method"),
        ({"objective": "poisson"}, "objective"),
        ({"gradient_clip": 0.5}, "gradient_clip"),
        ({"fit": {"eval_set": [(X, Y)]}}, "eval_set"),
        ({"y": Y["days"]}, "y must hold times"),
        ({"y": np.rec.fromarrays([TIME, TIME], names=["a", "b"])}, "'a'"),
        ({"fit": {"label_bounds": (0.0, 9.0)}}, "label_bounds"),
        ({"label_overflow": "raise", "y": -np.column_stack([TIME, TIME])}, "not positive"),
    ],
)
def test_what_is_not_accepted_is_named_before_anything_is_paid(settings, named):
    budget = lgb_dp.Budget(50.0, 1e-3)
    before = repr(budget)
    given = {"bounds": BOUNDS, "label_bounds": TIMES, "budget": budget, **settings.pop("fit", {})}
    y = settings.pop("y", Y)
    with pytest.raises((InvalidArgumentError, UnsupportedParameterError), match=named):
        model(**settings).fit(X, y, **given)
    assert repr(budget) == before


def test_held_out_rows_tell_the_concordance_and_numbers_have_intervals_alone():
    found = fitted(validation_fraction=0.3)
    concordance = found.evaluation_.concordance
    assert concordance.low <= found.score(X, Y) <= concordance.high
    assert concordance.high - concordance.low < 0.2
    assert "concordance" in str(lgb_dp.statement(found.booster_).tables[QUALITY])
    assert not hasattr(found, "predict_interval")
    read = lgb_dp.DPBooster(model_str=found.booster_.model_to_string())
    assert read.evaluation.to_dict() == found.evaluation_.to_dict()


def test_private_facts_of_rows_raise_no_error_unless_asked_for():
    never = np.column_stack([Y["days"], np.full(len(X), np.inf)])  # no event at all
    wrong = np.where(np.arange(len(X))[:, None] % 2, [[9.0, 3.0]], [[np.nan, -1.0]])
    for y in (never, wrong):
        assert np.isfinite(fitted(y=y, n_estimators=5).predict(X)).all()


@pytest.mark.parametrize("objective", ["regression", "gamma", "binary"])
def test_other_objectives_take_no_times(objective):
    data = lgb_dp.Dataset(X, Y, bounds=BOUNDS, label_bounds=TIMES)
    with pytest.raises(InvalidArgumentError, match="objective"):
        lgb.train({"objective": objective}, data, 2, callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)])


def test_metrics_of_times_are_refused():
    data = lgb_dp.Dataset(X, Y, bounds=BOUNDS, label_bounds=TIMES, label_overflow="clip")
    public = data.create_valid(X, Y, public=True)
    with pytest.raises(UnsupportedParameterError, match="valid_sets"):
        lgb.train({"objective": lgb_dp.AFT()}, data, 2, [public], callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)])
    with pytest.raises(InvalidArgumentError, match="estimator"):
        lgb_dp.DPRandomizedSearchCV(model(), {"scale": [1.0]}, epsilon=1.0).fit(X, Y, label_bounds=TIMES)
    with pytest.raises(InvalidArgumentError, match="first"):
        fitted(n_estimators=5).score(X[:2], np.column_stack([TIME, np.full(len(X), np.inf)])[:2])
