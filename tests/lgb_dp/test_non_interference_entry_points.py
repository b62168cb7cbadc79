"""Estimators, search, metadata, budgets, persons and errors: nothing seen depends on the private rows.

See `test_non_interference.py` for what is pinned, and what is not covered.
"""

import sys
import warnings
from types import SimpleNamespace

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from lgb_dp.data import dataset as dataset_module
from lgb_dp.data import groups as groups_module
from lgb_dp.estimators import search as search_module
from pinned_training import BINARY, DELTA, REGRESSION, TRAINERS, a_cell, a_number, dataset, newton, train
from pinned_world import BOUNDS, CITIES, LABEL_BOUNDS, TABLE, differences

PERSONS = {
    "rows": lambda world: {},
    "persons": lambda world: {"groups": world.person, "rows_per_group": 2},
    "means": lambda world: {"groups": world.person, "rows_per_group": 2, "group_weight": "mean"},
}


def budget(pure, gaussian=5.0):
    return lgb_dp.Budget(pure + gaussian, 1e-4, pure_epsilon=pure, approximate_delta=5e-5)


def left_of(budget):
    """All that a budget tells: its report, what was spent and what is left."""
    return [budget.report(), repr(budget.spent), repr(budget.remaining), repr(budget)]


def estimators(world, method, paid_from, **kwargs):
    """A binary and a three-class classifier and a regressor, fitted."""
    settings = {"method": method, "n_estimators": 4, "epsilon": 2.0}
    kwargs = {"bounds": BOUNDS, "budget": paid_from, **kwargs}
    model = lgb_dp.DPLGBMClassifier(**settings)
    yield model.fit(world.X, world.binary, classes=[0, 1], **kwargs)
    yield lgb_dp.DPLGBMClassifier(**settings).fit(world.X, world.kind, classes=[0, 1, 2], **kwargs)
    if method != "mboost":
        regressor = lgb_dp.DPLGBMRegressor(**settings)
        yield regressor.fit(world.X, world.number, label_bounds=LABEL_BOUNDS, **kwargs)


@pytest.mark.parametrize("unit", PERSONS)
@pytest.mark.parametrize("method", ["newton", "dpboost", "mboost"])
def test_estimators(assert_nothing_differs, method, unit):
    assert_nothing_differs(
        lambda world: estimators(world, method, None, **PERSONS[unit](world)),
        fails=(method, unit) == ("mboost", "means"),
    )


@pytest.mark.parametrize("unit", ["rows", "persons"])
@pytest.mark.parametrize("method", ["newton", "dpboost", "mboost"])
def test_estimators_that_pay_from_a_budget(assert_nothing_differs, method, unit):
    """What is left, and when a fit is refused, follows from what was granted."""

    def call(world):
        paid_from = budget(7.0)
        yield from estimators(world, method, paid_from, **PERSONS[unit](world))
        yield from left_of(paid_from)
        with pytest.raises(lgb_dp.BudgetExceededError) as refused:
            list(estimators(world, method, paid_from, **PERSONS[unit](world)))
        yield str(refused.value)
        yield from left_of(paid_from)

    assert_nothing_differs(call)


@pytest.mark.parametrize(
    ("method", "form"),
    [
        pytest.param(method, form, marks=[pytest.mark.slow] * (method != "newton" and form != "matrix"))
        for method in ("newton", "dpboost", "mboost")
        for form in ("matrix", "table", "persons")
    ],
)
def test_bins_that_are_bought(assert_nothing_differs, method, form):
    """Bounds and edges follow from what was released, and so do warnings of wide bounds."""

    def call(world):
        X, declared = (world.with_missing, {}) if form != "table" else (world.table, TABLE)
        of_rows = {"groups": world.person, "rows_per_group": 2} if form == "persons" else {}
        model = lgb_dp.DPLGBMClassifier(8.0, method=method, n_estimators=80, max_depth=3, auto_bounds=0.3)
        categories = declared.get("categories")
        yield model.fit(X, world.binary, classes=[0, 1], categories=categories, **of_rows)

    assert_nothing_differs(call)


def searched(world, kind="classes", **kwargs):
    model = lgb_dp.DPLGBMRegressor if kind == "numbers" else lgb_dp.DPLGBMClassifier
    search = lgb_dp.DPRandomizedSearchCV(
        model(n_estimators=3),
        {"max_depth": [2, 3], "learning_rate": [0.1, 0.3]},
        epsilon=2.0,
        mean_trials=3.0,
    )
    if kind == "numbers":
        return search.fit(world.X, world.number, bounds=BOUNDS, label_bounds=LABEL_BOUNDS, **kwargs)
    return search.fit(world.X, world.binary, bounds=BOUNDS, classes=[0, 1], **kwargs)


@pytest.mark.parametrize("unit", PERSONS)
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_search(monkeypatch, assert_nothing_differs, kind, unit):
    monkeypatch.setattr(search_module, "draw_number_of_trials", lambda *_: 3)

    def call(world):
        search = searched(world, kind, **PERSONS[unit](world))
        return [search, search.best_params_]

    assert_nothing_differs(call)


@pytest.mark.parametrize("unit", ["rows", "persons"])
def test_search_that_pays_from_a_budget(assert_nothing_differs, unit):
    def call(world):
        paid_from, persons = budget(3.0), PERSONS[unit](world)
        _, cost = lgb_dp.private_bounds(world.X, 0.2, DELTA, budget=paid_from, **persons)
        yield searched(world, budget=paid_from, paid_for=[cost], **persons)
        yield from left_of(paid_from)
        with pytest.raises(lgb_dp.BudgetExceededError) as refused:
            searched(world, budget=paid_from, **persons)
        yield str(refused.value)
        yield from left_of(paid_from)

    assert_nothing_differs(call)


def test_an_aborted_search_that_pays_from_a_budget(monkeypatch, assert_nothing_differs):
    """A search that fails after its trials leaves the charge, and nothing of its trials."""

    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr(search_module, "with_guarantee", fail)

    def call(world):
        paid_from = budget(7.0)
        search = lgb_dp.DPRandomizedSearchCV(lgb_dp.DPLGBMClassifier(n_estimators=3), {}, mean_trials=2.0)
        with pytest.raises(RuntimeError):
            search.fit(world.X, world.binary, bounds=BOUNDS, budget=paid_from, **PERSONS["persons"](world))
        yield search
        yield from left_of(paid_from)

    assert_nothing_differs(call)


def test_private_metadata(assert_nothing_differs):
    def call(world):
        (low, high), cost = lgb_dp.private_bounds(world.with_missing, 0.5, DELTA)
        edges, more = lgb_dp.private_quantile_edges(world.with_missing, BOUNDS, 0.5, DELTA, max_bin=6)
        yield from (low, high, cost, more, *edges.values())
        yield train(world, newton(), settings={"bin_edges": edges, "paid_for": [cost, more]})

    assert_nothing_differs(call)


def fitted(world, **kwargs):
    return lgb_dp.DPLGBMClassifier(n_estimators=3).fit(
        **{"X": world.X, "y": world.binary, "bounds": BOUNDS, "classes": [0, 1], **kwargs}
    )


REFUSED = {
    "text in X": lambda w: dataset(w, X=a_cell(w.X, w.secret)).construct(),
    "text in a data frame": lambda w: dataset(
        w, X=w.frame.assign(age=a_cell(w.X[:, 0], w.secret)), categories={"city": CITIES}
    ).construct(),
    "text in a table": lambda w: dataset(
        w, X=w.table.assign(age=a_cell(w.X[:, 0], w.secret)), **TABLE
    ).construct(),
    "text in labels": lambda w: lgb_dp.Dataset(w.X, a_cell(w.binary, w.secret), bounds=BOUNDS).construct(),
    "text in weights": lambda w: dataset(w, weight=a_cell(w.weight, w.secret), weight_bound=2.0).construct(),
    "infinite label": lambda w: lgb_dp.Dataset(w.X, a_number(w.binary, np.inf), bounds=BOUNDS).construct(),
    "large weight": lambda w: dataset(w, weight=a_number(w.weight, 3.7), weight_bound=2.0).construct(),
    "unknown label": lambda w: lgb.train(
        BINARY, lgb_dp.Dataset(w.X, a_number(w.binary, 3.7), bounds=BOUNDS), 2, callbacks=[newton()]
    ),
    "label beyond the bounds": lambda w: lgb.train(
        REGRESSION,
        lgb_dp.Dataset(w.X, a_number(w.number, 3.7), bounds=BOUNDS, label_bounds=LABEL_BOUNDS),
        2,
        callbacks=[newton()],
    ),
    "text in X of an estimator": lambda w: fitted(w, X=a_cell(w.X, w.secret)),
    "text in labels of an estimator": lambda w: lgb_dp.DPLGBMRegressor(n_estimators=3).fit(
        w.X, a_cell(w.number, w.secret), bounds=BOUNDS, label_bounds=LABEL_BOUNDS
    ),
    "groups of several kinds": lambda w: dataset(w, groups=[*w.person[1:], 7], rows_per_group=2).construct(),
    "a missing group of an estimator": lambda w: fitted(w, groups=[*w.person[1:], None], rows_per_group=2),
    "a missing group of the search": lambda w: searched(w, groups=[*w.person[1:], None], rows_per_group=2),
    "text in labels of the search": lambda w: lgb_dp.DPRandomizedSearchCV(
        lgb_dp.DPLGBMRegressor(n_estimators=3), {}, mean_trials=2.0
    ).fit(w.X, a_cell(w.number, w.secret), bounds=BOUNDS, label_bounds=LABEL_BOUNDS),
    "text in X of the search": lambda w: searched(SimpleNamespace(X=a_cell(w.X, w.secret), binary=w.binary)),
    "text in X of private_bounds": lambda w: lgb_dp.private_bounds(a_cell(w.X, w.secret), 1.0, DELTA),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_errors(assert_nothing_differs, refused):
    """What the rows hold may make a call fail; the error does not say what it was."""
    assert_nothing_differs(lambda world: [REFUSED[refused](world)], fails=True)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_groups(assert_nothing_differs, trainer):
    """Persons of several rows, of whom at most two are kept, drawn per person."""
    settings = {"rows_per_group": 2}
    assert_nothing_differs(
        lambda world: [train(world, TRAINERS[trainer][0](), settings={"groups": world.person, **settings})]
    )


@pytest.mark.parametrize("trainer", ["NewtonBoost", "DPBoost tight", "SequentialBoost", "MBoost"])
def test_groups_of_one_rows_weight(assert_nothing_differs, trainer):
    def call(world):
        settings = {"groups": world.person, "rows_per_group": 3, "group_weight": "mean"}
        return [train(world, TRAINERS[trainer][0](), settings=settings)]

    assert_nothing_differs(call, fails=trainer in ("SequentialBoost", "MBoost"))


def test_groups_elsewhere(assert_nothing_differs):
    def call(world):
        settings = {"groups": world.person, "rows_per_group": 2}
        data = dataset(world, **settings)
        folds, params = lgb_dp.folds(3, data), {"max_depth": 2, "verbosity": 1, **BINARY}
        result = lgb.cv(params, data, 2, folds=folds, callbacks=[newton()], return_cvbooster=True)
        yield from result["cvbooster"].boosters
        (low, high), cost = lgb_dp.private_bounds(world.X, 0.5, DELTA, **settings)
        yield from (low, high, cost)

    assert_nothing_differs(call)


def test_one_budget_for_everything(assert_nothing_differs):
    """What is refused, and what is left, follows from what was granted."""

    def call(world):
        budget = lgb_dp.Budget(3.0, 1e-4, pure_epsilon=1.0)
        _, cost = lgb_dp.private_bounds(world.X, 0.4, DELTA, budget=budget)
        model = train(world, lgb_dp.NewtonBoost(0.5, DELTA, budget=budget), settings={"paid_for": [cost]})
        other = train(world, lgb_dp.DPBoost(0.5, budget=budget))
        with pytest.raises(lgb_dp.BudgetExceededError) as refused:
            train(world, lgb_dp.DPBoost(0.9, budget=budget))
        yield from (model, other, cost, budget.report(), repr(budget.spent), repr(budget.remaining))
        yield str(refused.value)
        yield lgb_dp.compose(model.privacy, other.privacy)

    assert_nothing_differs(call)


# What the harness must find at these entry points.


def with_noise_of_the_largest_group(patch):
    """k is what the rows happen to have, instead of what is declared."""
    honest = groups_module.checked_unit

    def checked_unit(groups, rows_per_group, group_weight):
        if groups is None:
            return honest(groups, rows_per_group, group_weight)
        return honest(groups, int(np.unique(groups, return_counts=True)[1].max()), group_weight)

    for module in (search_module, dataset_module):
        patch.setattr(module, "checked_unit", checked_unit)


def with_a_word_about_the_split(patch):
    """The search says how many rows its test part has."""
    honest = search_module.divided

    def divided(*args):
        train, test = honest(*args)
        warnings.warn(f"{len(test.rows)} rows to test on", stacklevel=2)
        return train, test

    patch.setattr(search_module, "divided", divided)


def with_a_charge_that_counts_rows(patch):
    """The budget's table names the number of rows, of whatever array a caller has."""
    honest = lgb_dp.Budget.charge

    def charge(self, cost, what, **kwargs):
        frame = sys._getframe(1)
        while "world" not in frame.f_locals:
            frame = frame.f_back
        return honest(self, cost, f"{what} of {len(frame.f_locals['world'].X)} rows", **kwargs)

    patch.setattr(lgb_dp.Budget, "charge", charge)


LEAKS = {
    "estimators, persons": (
        with_noise_of_the_largest_group,
        lambda world: estimators(world, "newton", None, **PERSONS["persons"](world)),
        "releases",
    ),
    "search, persons": (
        with_noise_of_the_largest_group,
        lambda world: [searched(world, **PERSONS["persons"](world))],
        "releases",
    ),
    "search, split": (
        with_a_word_about_the_split,
        lambda world: [searched(world, **PERSONS["persons"](world))],
        "warnings",
    ),
    "estimators, budget": (
        with_a_charge_that_counts_rows,
        lambda world: left_of_fit(world, lambda paid: list(estimators(world, "newton", paid))),
        "text",
    ),
    "search, budget": (
        with_a_charge_that_counts_rows,
        lambda world: left_of_fit(world, lambda paid: searched(world, budget=paid)),
        "text",
    ),
}


def left_of_fit(world, fit):
    paid_from = budget(7.0)
    fit(paid_from)
    return left_of(paid_from)


@pytest.mark.parametrize("case", LEAKS)
def test_a_planted_leak_is_found(monkeypatch, capfd, case):
    leak, call, place = LEAKS[case]
    with monkeypatch.context() as patch:
        leak(patch)
        found, seen = differences(call, monkeypatch, capfd)
    assert "error" not in seen
    assert any(place in what for what in found), found
