"""Side doors of the private search, and what searches and estimators pay for.

An aborted search leaves nothing, settings that would void its proof are refused, and costs are charged once.
"""

import functools
import warnings

import pytest

import lgb_dp
from lgb_dp.estimators import search as search_module
from small_search import searched
from small_training import binary_data

X, Y = binary_data(60)
BOUNDS = (-3, 3)
LABELS = Y.astype(int)


def fitted_attributes(search):
    return {name for name in vars(search) if name.endswith("_")}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["row_scores", "with_guarantee"])
def test_side_door_an_aborted_search_leaves_nothing(monkeypatch, error, where):
    search = searched().fit(X, LABELS, bounds=BOUNDS)
    assert fitted_attributes(search) == {"best_estimator_", "best_params_", "privacy_"}
    calls, honest = [], getattr(search_module, where)

    def interrupted(*args):
        calls.append(where)
        if len(calls) >= (2 if where == "row_scores" else 1):
            raise error("stopped")
        return honest(*args)

    monkeypatch.setattr(search_module, where, interrupted)
    monkeypatch.setattr(search_module, "draw_number_of_trials", lambda *_: 4)
    for model in (search, searched()):
        calls.clear()
        with pytest.raises(error):
            model.fit(X, LABELS, bounds=BOUNDS)
        assert fitted_attributes(model) == set()
        assert "booster_" not in vars(model.estimator)


def without_trial(original):
    @functools.wraps(original)
    def fit(*_, **__):
        pytest.fail("a trial was run")

    return fit


@pytest.mark.parametrize(
    "name", ["method", "random_state", "seed", "random_seed", "epsilon", "delta", "budget", "depth"]
)
@pytest.mark.parametrize("as_list", [False, True])
def test_side_door_settings_that_cannot_be_searched_are_refused_before_the_first_trial(
    monkeypatch, name, as_list
):
    monkeypatch.setattr(lgb_dp.DPLGBMClassifier, "fit", without_trial(lgb_dp.DPLGBMClassifier.fit))
    settings = {"max_depth": [1, 2], name: [1, 2]}
    alias = {name: 1} if "seed" in name else {}
    search = searched(
        [{"max_depth": [2]}, settings] if as_list else settings, lgb_dp.DPLGBMClassifier(**alias)
    )
    with pytest.raises(lgb_dp.InvalidArgumentError, match=repr(name)):
        search.fit(X, LABELS, bounds=BOUNDS)


@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": [7.0]},
        {"max_depth": [99]},
        {"n_estimators": [0]},
        {"max_bin": [1000]},
        {"alpha": [0.5]},
    ],
)
def test_side_door_values_are_checked_before_the_first_trial(monkeypatch, settings):
    """The first trial must not be run when a later one's settings are wrong."""
    monkeypatch.setattr(lgb_dp.DPLGBMClassifier, "fit", without_trial(lgb_dp.DPLGBMClassifier.fit))
    with pytest.raises(
        ValueError, match={"reg_lambda": "lambda_l2"}.get(next(iter(settings)), next(iter(settings)))
    ):
        searched(settings).fit(X, LABELS, bounds=BOUNDS)


@pytest.mark.parametrize(
    "argument",
    ["callbacks", "sample_weight", "eval_set", "eval_metric", "eval_X", "init_score", "init_model", "bound"],
)
def test_side_door_arguments_that_see_every_trial_are_refused(argument):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=argument):
        searched().fit(X, LABELS, bounds=BOUNDS, **{argument: [print]})
    regressor = lgb_dp.DPLGBMRegressor(n_estimators=5)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="label_bounds"):
        searched(model=regressor).fit(X, Y, bounds=BOUNDS)


def test_side_door_a_seeded_trial_voids_the_search():
    for seeded in (
        searched(model=lgb_dp.DPLGBMClassifier(n_estimators=5, random_state=3)),
        searched(random_state=3),
    ):
        with pytest.warns(lgb_dp.PrivacyLeakWarning, match="random_state"):
            seeded.fit(X, LABELS, bounds=BOUNDS)
        assert not seeded.privacy_.private
        assert not lgb_dp.privacy_of(seeded.best_estimator_.booster_).private


@pytest.mark.parametrize("name", ["verbose", "verbosity"])
def test_side_door_the_search_does_not_tell_how_many_trials_it_ran(monkeypatch, capfd, name):
    said, spoken, fit = [], [], lgb_dp.DPLGBMClassifier.fit

    @functools.wraps(fit)
    def listened(self, *args, **kwargs):
        spoken.append(self.get_params()[name])
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(lgb_dp.DPLGBMClassifier, "fit", listened)
    for n_trials in (1, 5):
        monkeypatch.setattr(search_module, "draw_number_of_trials", lambda *_, n=n_trials: n)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = searched(model=lgb_dp.DPLGBMClassifier(n_estimators=5, **{name: 1})).fit(X, LABELS)
        said.append(([str(w.message) for w in caught], capfd.readouterr()))
        assert found.best_estimator_.get_params()[name] == 1
    assert said[0] == said[1]
    assert spoken == [-1] * 6


def paid_report(epsilon=2.0):
    return lgb_dp.private_bounds(X, epsilon, 1e-6)[1]


def test_side_door_estimators_and_search_charge_what_was_paid_for():
    paid = paid_report()
    model = lgb_dp.DPLGBMClassifier(epsilon=1.0, delta=1e-6, n_estimators=5)
    alone = model.fit(X, LABELS, bounds=BOUNDS).privacy_
    together = model.fit(X, LABELS, bounds=BOUNDS, paid_for=[paid]).privacy_
    assert together.epsilon == pytest.approx(lgb_dp.compose(alone, paid).epsilon, rel=1e-6)
    assert together.epsilon > 2.0
    regressor = lgb_dp.DPLGBMRegressor(epsilon=1.0, n_estimators=5)
    regressor.fit(X, Y, bounds=BOUNDS, label_bounds=(0, 1), paid_for=[paid])
    assert regressor.privacy_.epsilon > 2.0
    found = searched(epsilon=5.0, mean_trials=3.0).fit(X, LABELS, bounds=BOUNDS, paid_for=[paid])
    assert found.privacy_.epsilon == pytest.approx(5.0 + paid.epsilon, rel=1e-3)
    assert found.privacy_.epsilon >= found.best_estimator_.privacy_.epsilon
    assert lgb_dp.privacy_of(found.best_estimator_.booster_).epsilon == found.privacy_.epsilon
    with pytest.raises(TypeError, match="paid_for"):
        searched().fit(X, LABELS, bounds=BOUNDS, paid_for=[2.0])


METHODS = {"newton": {"n_estimators": 5}, "dpboost": {}, "mboost": {}}


@pytest.mark.parametrize("method", METHODS)
def test_side_door_estimators_pay_from_a_budget_and_are_refused_beyond(method):
    budget = lgb_dp.Budget(3.0, 1e-5, pure_epsilon=1.5)
    model = lgb_dp.DPLGBMClassifier(1.0, delta=1e-6, method=method, **METHODS[method])
    report = model.fit(X, LABELS, bounds=BOUNDS, budget=budget).privacy_
    assert report.budget == budget.id
    assert budget.spent.epsilon == report.cost.epsilon
    assert budget.spent.mu == pytest.approx(report.cost.mu, rel=1e-9)
    tight = lgb_dp.Budget(1.5, 1e-5, pure_epsilon=1.0)
    if method != "newton":
        model.fit(X, LABELS, bounds=BOUNDS, budget=tight)
    with pytest.raises(lgb_dp.BudgetExceededError):
        model.fit(X, LABELS, bounds=BOUNDS, budget=tight)
    regressor = lgb_dp.DPLGBMRegressor(9.0)
    with pytest.raises(lgb_dp.BudgetExceededError):
        regressor.fit(X, Y, bounds=BOUNDS, label_bounds=(0, 1), budget=budget)
    assert not hasattr(regressor, "booster_")


def test_side_door_a_search_pays_once_from_a_budget_before_the_first_trial(monkeypatch):
    budget = lgb_dp.Budget(6.0, 1e-5, pure_epsilon=5.0, approximate_delta=5e-6)
    paid = lgb_dp.private_bounds(X, 0.1, 1e-6, budget=budget)[1]
    search = searched(epsilon=4.0, delta=1e-6)
    search.fit(X, LABELS, bounds=BOUNDS, paid_for=[paid], budget=budget)
    assert search.privacy_.budget == budget.id
    assert search.privacy_.private
    assert budget.spent.epsilon == pytest.approx(4.0, rel=1e-14)
    assert budget.spent.mu == pytest.approx(paid.cost.mu, rel=1e-9), "paid twice"
    assert budget.report().private
    monkeypatch.setattr(lgb_dp.DPLGBMClassifier, "fit", without_trial(lgb_dp.DPLGBMClassifier.fit))
    with pytest.raises(lgb_dp.BudgetExceededError):
        search.fit(X, LABELS, bounds=BOUNDS, budget=budget)
    assert fitted_attributes(search) == set()
    with pytest.raises(TypeError, match="budget"):
        search.fit(X, LABELS, bounds=BOUNDS, budget=4.0)


def test_side_door_an_aborted_search_stays_charged(monkeypatch):
    budget = lgb_dp.Budget(6.0, 1e-5, pure_epsilon=5.0, approximate_delta=5e-6)
    monkeypatch.setattr(search_module, "row_scores", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        searched(epsilon=4.0, delta=1e-6).fit(X, LABELS, bounds=BOUNDS, budget=budget)
    assert budget.spent.epsilon == pytest.approx(4.0, rel=1e-14)


def test_side_door_a_void_fit_voids_its_budget():
    for call in (
        lambda budget: lgb_dp.DPLGBMClassifier(n_estimators=5).fit(
            X, LABELS + 1, bounds=BOUNDS, budget=budget
        ),
        lambda budget: searched(random_state=1).fit(X, LABELS, bounds=BOUNDS, budget=budget),
    ):
        budget = lgb_dp.Budget(90.0, 1e-4, pure_epsilon=80.0, approximate_delta=5e-5)
        with pytest.warns(lgb_dp.PrivacyLeakWarning):
            model = call(budget)
        assert not model.privacy_.private
        assert not budget.report().private


@pytest.mark.parametrize("once", [iter, lambda reports: (report for report in reports)])
def test_side_door_reports_that_can_be_read_once_are_charged(once):
    _, report = lgb_dp.private_bounds(X, 3.0, 1e-6)
    spent = []
    for paid_for in ([report], once([report])):
        budget = lgb_dp.Budget(100.0, 1e-4, pure_epsilon=30.0, approximate_delta=5e-5)
        search = searched(mean_trials=2.0).fit(X, LABELS, bounds=BOUNDS, paid_for=paid_for, budget=budget)
        spent.append((search.privacy_.epsilon, search.privacy_.cost, budget.spent))
    assert spent[0] == spent[1]
    assert spent[0][0] > 20.0


@pytest.mark.parametrize("paid_for", [[1.0], "report", 3])
def test_side_door_only_reports_are_paid_for(paid_for):
    calls = (
        lambda: searched().fit(X, LABELS, bounds=BOUNDS, paid_for=paid_for),
        lambda: lgb_dp.DPLGBMClassifier().fit(X, LABELS, bounds=BOUNDS, paid_for=paid_for),
        lambda: lgb_dp.Dataset(X, LABELS, bounds=BOUNDS, paid_for=paid_for),
    )
    for call in calls:
        with pytest.raises(lgb_dp.ArgumentTypeError, match="paid_for must"):
            call()
