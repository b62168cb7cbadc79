"""`auto_bounds`: bins that are bought with a share of the budget, and what they cost together."""

import datetime as dt
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import lgb_dp
from lgb_dp.accounting.gaussian import gaussian_mu
from lgb_dp.data.automatic_bounds import SharedBudget, automatic_bins

DELTA = 1e-6
rng = np.random.default_rng(0)
X = np.column_stack([rng.lognormal(3, 1, 4000), rng.normal(50, 5, 4000), rng.exponential(1e-3, 4000)])
Y = (X[:, 0] * rng.lognormal(0, 0.3, 4000) > 20).astype(float)


@pytest.mark.parametrize("share", [1e-3, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_shares_of_mu_squared_add_up_to_what_was_granted(epsilon, share):
    shared = SharedBudget(epsilon, DELTA, share, is_gaussian=True)
    whole = gaussian_mu(epsilon, DELTA) ** 2
    half, all_of_it = (gaussian_mu(shared.of_release(part), DELTA) ** 2 for part in (0.5, 1.0))
    trees = gaussian_mu(shared.of_trees, DELTA) ** 2
    assert 2 * half + trees <= whole
    assert all_of_it + trees <= whole
    assert 2 * half + trees == pytest.approx(whole, rel=1e-4)
    assert half == pytest.approx(share * whole / 2, rel=1e-4)


def test_shares_of_pure_epsilon_add_up():
    shared = SharedBudget(1.0, DELTA, 0.25, is_gaussian=False)
    assert shared.of_trees == pytest.approx(0.75)
    assert shared.of_release(1.0) == pytest.approx(0.25, rel=1e-4)


@pytest.mark.parametrize("method", ["newton", "dpboost", "mboost"])
@pytest.mark.parametrize("of_rows", [{}, {"groups": np.arange(4000) // 2, "rows_per_group": 2}])
def test_the_report_has_it_and_the_total_is_what_was_granted(method, of_rows):
    model = lgb_dp.DPLGBMClassifier(2.0, delta=DELTA, method=method, n_estimators=3, auto_bounds=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = model.fit(X, Y, classes=[0, 1], **of_rows).privacy_
    assert report.private
    assert report.epsilon <= 2.0
    assert report.epsilon == pytest.approx(2.0, rel=1e-3)
    assert report.delta == DELTA
    inherited = [row for row in report.ledger if row["release"] == "released bounds"]
    assert sum(row["count"] for row in inherited) == 2


def test_a_budget_pays_for_all_of_it():
    budget = lgb_dp.Budget(1.0, DELTA)
    lgb_dp.DPLGBMClassifier(1.0, delta=DELTA, n_estimators=3, auto_bounds=0.2).fit(X, Y, budget=budget)
    assert budget.spent.mu == pytest.approx(budget.limit.mu, rel=1e-4)
    assert [row["release"] for row in budget.report().ledger] == [
        "private bounds",
        "private quantiles",
        "NewtonBoost",
    ]
    with pytest.raises(lgb_dp.BudgetExceededError):
        lgb_dp.DPLGBMClassifier(1.0, delta=DELTA, n_estimators=3, auto_bounds=0.2).fit(X, Y, budget=budget)


def test_it_finds_bins_that_a_model_can_use():
    def auc(auto_bounds, **declared):
        model = lgb_dp.DPLGBMClassifier(2.0, delta=DELTA, n_estimators=200, auto_bounds=auto_bounds)
        model.fit(X, Y, classes=[0, 1], **declared)
        return roc_auc_score(Y, model.predict_proba(X)[:, 1])

    assert auc(0.2) > auc(None, bounds=(-1e9, 1e9)) + 0.1


@pytest.mark.parametrize("form", [lambda X: X, pd.DataFrame, scipy.sparse.csr_matrix, pl.DataFrame])
def test_edges_divide_the_rows_evenly_whatever_the_form(form):
    bins = automatic_bins(form(X), SharedBudget(1e3, DELTA, 0.5, is_gaussian=True), 16)
    assert len(bins["paid_for"]) == 2
    for f in range(3):
        counts = np.bincount(np.searchsorted(bins["bin_edges"][f], X[:, f]))
        assert counts.max() < 2 * len(X) / len(counts)


def test_only_what_has_no_public_bounds_is_bounded_and_the_rest_goes_to_edges():
    shared = SharedBudget(1.0, DELTA, 0.5, is_gaussian=True)
    public = automatic_bins(X, shared, 16, bounds=(0, 1000))
    assert len(public["paid_for"]) == 1
    assert public["bounds"] == dict.fromkeys(range(3), (0.0, 1000.0))
    half = automatic_bins(X, shared, 16, bounds={1: (0, 100)})
    assert len(half["paid_for"]) == 2
    assert half["bounds"][1] == (0.0, 100.0)
    assert len(half["bin_edges"]) == 3


def test_categories_truth_values_and_times_of_a_table():
    table = pl.DataFrame(
        {
            "city": np.where(X[:, 0] > 20, "Oslo", "Bergen"),
            "since": np.datetime64("2020-01-01", "us") + (X[:, 1] * 1e9).astype("m8[us]"),
            "smokes": X[:, 2] > 1e-3,
            "income": X[:, 0],
        }
    )
    model = lgb_dp.DPLGBMClassifier(4.0, delta=DELTA, n_estimators=20, auto_bounds=0.2)
    model.fit(table, Y, categories={"city": ["Oslo", "Bergen"]})
    assert model.privacy_.private
    assert roc_auc_score(Y, model.predict_proba(table)[:, 1]) > 0.8
    public = {"since": (dt.date(2020, 1, 1), dt.date(2021, 1, 1)), "income": (0, 1000)}
    model.fit(table, Y, bounds=public, categories={"city": ["Oslo", "Bergen"]})
    assert model.privacy_.private


@pytest.mark.parametrize("bounds", [None, {"income": (0, 1000)}, (0, 1000)])
def test_side_door_a_missing_truth_value_does_not_change_what_is_bought(bounds):
    """It makes a column of pandas an object one; before, its bounds were bought then, and edges, too."""
    smokes = (X[:, 2] > 1e-3).tolist()
    model = lgb_dp.DPLGBMClassifier(4.0, delta=DELTA, n_estimators=3, auto_bounds=0.2)

    def fitted(smokes):
        table = pd.DataFrame({"income": X[:, 0], "smokes": smokes})
        return model.fit(table, Y, bounds=bounds, classes=[0, 1]).privacy_

    releases = [entry["release"] for entry in fitted(smokes).ledger]
    missing = [None, *smokes[1:]]
    assert [entry["release"] for entry in fitted(pd.array(missing, "boolean")).ledger] == releases
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"\['smokes'\] hold objects"):
        fitted(missing)


def test_label_bounds_stay_required():
    model = lgb_dp.DPLGBMRegressor(1.0, delta=DELTA, n_estimators=3, auto_bounds=0.2)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="label_bounds must be given"):
        model.fit(X, X[:, 0])
    assert model.fit(X, X[:, 0], label_bounds=(0, 300)).privacy_.private


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan"), "half", True])
def test_a_share_must_be_a_proper_one(share):
    model = lgb_dp.DPLGBMClassifier(auto_bounds=share)
    with pytest.raises((lgb_dp.InvalidArgumentError, lgb_dp.ArgumentTypeError), match="auto_bounds must be"):
        model.check_settings()


def test_it_is_a_parameter_like_any_other():
    model = lgb_dp.DPLGBMClassifier(auto_bounds=0.1)
    assert clone(model).get_params()["auto_bounds"] == 0.1
    search = lgb_dp.DPRandomizedSearchCV(
        lgb_dp.DPLGBMClassifier(n_estimators=3, auto_bounds=0.1), {"max_depth": [2]}, epsilon=2.0, delta=DELTA
    )
    search.fit(X, Y, classes=[0, 1])
    assert search.privacy_.private
    assert search.privacy_.epsilon <= 2.0
