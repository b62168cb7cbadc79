"""`lgb_dp.Budget`: a filter that is never exceeded, whoever asks in which order."""

import contextlib
import copy
import math
import os
import pickle
import re
import threading
from decimal import ROUND_FLOOR
from fractions import Fraction

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lgb_dp
from lgb_dp.accounting.cost import Cost, granted, pair_text, total_cost
from lgb_dp.accounting.gaussian import SampledGaussian, gaussian_epsilon, gaussian_mu
from lgb_dp.accounting.plotting import plot_charges
from lgb_dp.accounting.unit import ONE_ROW, Unit
from small_training import binary_data, dataset, train

pytestmark = pytest.mark.usefixtures("coarse_accounting")

X, Y = binary_data()
DELTA = 1e-5
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2}

costs = st.builds(
    Cost,
    st.one_of(st.just(0.0), st.floats(0, 2)),
    st.one_of(st.just(0.0), st.floats(0, 2e-5)),
    st.one_of(st.just(0.0), st.floats(0, 1)),
)


@given(
    st.floats(0.01, 5), st.floats(1e-8, 1e-2), st.floats(0, 1), st.floats(0, 1), st.lists(costs, max_size=12)
)
def test_what_was_charged_never_exceeds_the_budget(epsilon, delta, pure, approximate, asked):
    budget = lgb_dp.Budget(epsilon, delta, pure_epsilon=pure * epsilon, approximate_delta=approximate * delta)
    charged = []
    for cost in asked:
        before = budget.spent
        try:
            budget.charge(cost, "a result")
            charged.append(cost)
        except lgb_dp.BudgetExceededError:
            assert budget.spent == before
    if charged:
        total = total_cost(charged)
        spent_epsilon, spent_delta = total.at(delta - budget.limit.delta)
        assert spent_epsilon <= epsilon
        assert spent_delta <= delta * (1 + 1e-12)
    report = budget.report()
    assert report.cost.at(delta - report.cost.delta)[0] <= epsilon * (1 + 1e-12)
    assert (report.epsilon, report.delta) == (epsilon, delta)
    assert len(report.ledger) == len(charged)


def test_pure_results_are_paid_from_a_budget_without_delta():
    budget = lgb_dp.Budget(1.0)
    train(dataset(X, Y), lgb_dp.DPBoost(0.5, budget=budget))
    train(dataset(X, Y), lgb_dp.SequentialBoost(0.5, budget=budget))
    with pytest.raises(lgb_dp.BudgetExceededError, match="DPBoost costs"):
        train(dataset(X, Y), lgb_dp.DPBoost(1e-3, budget=budget))
    with pytest.raises(lgb_dp.BudgetExceededError, match="NewtonBoost costs"):
        train(dataset(X, Y), lgb_dp.NewtonBoost(0.1, DELTA, budget=lgb_dp.Budget(1.0)))


def test_a_run_fits_the_budget_of_its_own_figures_once():
    budget = lgb_dp.Budget(1.0, DELTA)
    booster = train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, DELTA, budget=budget))
    assert booster.privacy.budget == budget.id
    with pytest.raises(lgb_dp.BudgetExceededError):
        train(dataset(X, Y), lgb_dp.NewtonBoost(0.01, DELTA, budget=budget))
    assert budget.report().private
    assert budget.report().spent[0] == pytest.approx(1.0, rel=1e-6)


def test_a_run_is_charged_with_what_it_is_granted_when_it_starts():
    def stop(env):
        raise lgb.callback.EarlyStopException(0, [])

    budget = lgb_dp.Budget(1.0, DELTA)
    train(
        dataset(X, Y), lgb_dp.NewtonBoost(0.5, DELTA, rounds=50, budget=budget), n_rounds=5, callbacks=[stop]
    )
    assert budget.spent.mu == pytest.approx(gaussian_mu(0.5, DELTA), rel=1e-9)
    remaining = budget.remaining.at(DELTA)[0]
    train(dataset(X, Y), lgb_dp.NewtonBoost(remaining * (1 - 1e-6), DELTA, budget=budget))
    assert budget.remaining.mu < 0.01


@pytest.mark.parametrize(
    "trainer",
    [lgb_dp.MBoost, lgb_dp.ParallelBoost, lgb_dp.RandomForestLaplace, lgb_dp.RandomForestExponential],
)
def test_every_trainer_pays(trainer):
    budget = lgb_dp.Budget(1.0, DELTA, pure_epsilon=0.6)
    train(dataset(X, Y), trainer(0.5, budget=budget))
    assert budget.spent.epsilon == pytest.approx(0.5, rel=1e-9)
    with pytest.raises(lgb_dp.BudgetExceededError):
        train(dataset(X, Y), trainer(0.5, budget=budget))


def test_metadata_is_paid_once_and_not_again_by_the_models_that_use_it():
    budget = lgb_dp.Budget(1.0, DELTA)
    bounds, first = lgb_dp.private_bounds(X, 0.2, DELTA, budget=budget)
    edges, second = lgb_dp.private_quantile_edges(X, bounds, 0.2, DELTA, budget=budget)
    data = lgb_dp.Dataset(X, Y, bounds=bounds, bin_edges=edges, paid_for=[first, second])
    booster = train(data, lgb_dp.NewtonBoost(0.5, DELTA, budget=budget))
    squares = 2 * gaussian_mu(0.2, DELTA) ** 2 + gaussian_mu(0.5, DELTA) ** 2
    assert budget.spent.mu**2 == pytest.approx(squares, rel=1e-9)
    assert booster.privacy.cost.mu**2 == pytest.approx(squares, rel=1e-9)  # the model uses all three
    assert [row["release"] for row in budget.report().ledger] == [
        "private bounds",
        "private quantiles",
        "NewtonBoost",
    ]
    assert lgb_dp.compose(first, second, booster.privacy).notes == ()
    with pytest.raises(lgb_dp.BudgetExceededError, match="private bounds"):
        lgb_dp.private_bounds(X, 0.9, DELTA, budget=budget)
    # What was paid elsewhere is charged along with the model that builds on it.
    other = lgb_dp.Budget(1.0, DELTA)
    train(data, lgb_dp.NewtonBoost(0.5, DELTA, budget=other))
    assert other.spent.mu**2 == pytest.approx(squares, rel=1e-9)


def test_a_cross_validation_is_charged_once_and_a_second_one_again():
    data, budget = dataset(X, Y), lgb_dp.Budget(4.0)
    folds = lgb_dp.folds(3, data)
    for n in (1, 2):
        with pytest.warns(lgb_dp.NotPrivateWarning):
            lgb.cv(QUIET, data, 2, folds=folds, callbacks=[lgb_dp.DPBoost(1.0, budget=budget)])
        assert budget.spent.epsilon == pytest.approx(2.0 * n)
    with pytest.raises(lgb_dp.BudgetExceededError):
        lgb.cv(QUIET, data, 2, folds=folds, callbacks=[lgb_dp.DPBoost(1.0, budget=budget)])


def test_nested_folds_are_charged_once_for_all_outer_parts():
    data, budget = dataset(X, Y), lgb_dp.Budget(9.0)
    for rows, _ in lgb_dp.folds(3, data).split():
        part = data.subset(rows)
        for inner, _ in lgb_dp.folds(2, part).split():
            train(part.subset(inner), lgb_dp.DPBoost(1.0, budget=budget))
    assert budget.spent.epsilon == pytest.approx(2.0)


def test_secret_samples_are_charged_as_their_epsilon_and_delta():
    budget = lgb_dp.Budget(1.0, 1e-4, pure_epsilon=0.8, approximate_delta=DELTA)
    train(dataset(X, Y), lgb_dp.NewtonBoost(0.5, DELTA, subsample=0.5, budget=budget))
    assert 0.4 < budget.spent.epsilon <= 0.5
    assert DELTA * (1 - 1e-14) < budget.spent.delta <= DELTA
    assert budget.spent.mu == 0
    with pytest.raises(lgb_dp.BudgetExceededError):
        train(dataset(X, Y), lgb_dp.NewtonBoost(0.1, DELTA, subsample=0.5, budget=budget))


def test_threads_cannot_spend_the_same_budget_twice():
    budget = lgb_dp.Budget(1.0)
    start, paid = threading.Barrier(8), []

    def spend():
        start.wait()
        for _ in range(40):
            try:
                budget.charge(Cost(1 / 128), "a result")
                paid.append(1)
            except lgb_dp.BudgetExceededError:
                pass

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paid) == 128
    assert budget.spent.epsilon == 1.0


def test_a_budget_has_no_copies():
    budget = lgb_dp.Budget(1.0)
    assert copy.copy(budget) is budget
    assert copy.deepcopy([budget])[0] is budget
    with pytest.raises(lgb_dp.ArgumentTypeError, match="pickled"):
        pickle.dumps(budget)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_cannot_spend(monkeypatch):
    budget = lgb_dp.Budget(1.0)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(lgb_dp.ForkedProcessError):
        budget.charge(Cost(0.1), "a result")


def test_a_void_result_voids_the_budgets_report():
    budget = lgb_dp.Budget(1.0)
    with pytest.warns(lgb_dp.PrivacyLeakWarning):
        train(dataset(X, Y), lgb_dp.DPBoost(0.5, random_state=1, budget=budget))
    assert not budget.report().private


def test_units_do_not_mix():
    budget = lgb_dp.Budget(1.0)
    budget.charge(Cost(0.1), "a result")
    with pytest.raises(lgb_dp.InvalidArgumentError, match="one person"):
        budget.charge(Cost(0.1), "another", unit=Unit(3))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((0.0,), "epsilon"), ((1.0, 0.1), "delta"), ((1.0, -1e-9), "delta"), ((float("inf"),), "epsilon")],
)
def test_limits_are_checked(arguments, named):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=named):
        lgb_dp.Budget(*arguments)
    for share in ("pure_epsilon", "approximate_delta"):
        with pytest.raises(lgb_dp.InvalidArgumentError, match=share):
            lgb_dp.Budget(1.0, DELTA, **{share: 2.0})
    for other, named in ((1.0, "budget"), ("year.budget", "opens it")):
        with pytest.raises(lgb_dp.ArgumentTypeError, match=named):
            lgb_dp.DPBoost(1.0, budget=other)


@pytest.mark.parametrize("field", ["epsilon", "delta", "mu"])
@pytest.mark.parametrize("value", [-0.1, math.nan, -math.inf])
def test_side_door_a_cost_that_is_not_a_number_from_0_is_refused(field, value):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=f"{field} of a cost"):
        Cost(**{field: value})


@pytest.mark.parametrize(
    "sampled", [(-1.0, 0.5, 1), (1.0, 0.0, 1), (1.0, 1.5, 1), (1.0, 0.5, 0), (1.0, 0.5, 10**12)]
)
def test_side_door_releases_that_cannot_be_are_refused(sampled):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"of a release|count"):
        SampledGaussian(*sampled)


def test_the_remainder_is_exact_and_never_rounded_up():
    budget = lgb_dp.Budget(1.0, DELTA, pure_epsilon=0.5, approximate_delta=4e-6)
    whole = budget.limit.mu
    assert budget.limit == Cost(0.5, 4e-6, whole)
    assert gaussian_mu(0.5, DELTA - 4e-6) < whole < gaussian_mu(0.5, DELTA - 4e-6) * (1 + 1e-9)
    budget.charge(Cost(0.125, 1e-6, 0.6 * whole), "a result")
    left = budget.remaining
    assert left.epsilon == 0.375
    assert Fraction(3e-6) * (1 - Fraction(1, 10**15)) < Fraction(left.delta)
    assert Fraction(left.delta) <= Fraction(4e-6) - Fraction(1e-6)
    most = math.sqrt(whole**2 - budget.spent.mu**2)
    assert most * (1 - 3e-12) < left.mu < most * (1 - 5e-13)
    report = budget.report()
    assert report.spent == budget.spent.at(DELTA - 4e-6)
    assert report.unit == ONE_ROW


def test_a_report_has_the_unit_of_what_was_paid():
    budget = lgb_dp.Budget(1.0)
    budget.charge(Cost(0.1), "a result", unit=Unit(3))
    assert budget.report().unit == Unit(3)


def test_secret_samples_are_no_cost_of_a_budget():
    budget = lgb_dp.Budget(1.0, DELTA)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="without samples"):
        budget.charge(Cost(sampled=(SampledGaussian(0.01, 0.5, 1),)), "a result")
    assert budget.spent == Cost()


def test_a_refusal_names_what_was_asked_what_is_left_and_what_would_fit():
    budget = lgb_dp.Budget(1.0, 1e-6)
    budget.charge(Cost(mu=gaussian_mu(0.8, 1e-6)), "NewtonBoost")
    with pytest.raises(lgb_dp.BudgetExceededError) as caught:
        budget.charge(Cost(mu=gaussian_mu(0.9, 1e-6)), "NewtonBoost")
    text = str(caught.value)
    asked, left = (float(value) for value in re.findall(r"epsilon = (0\.\d+)", text))
    assert "of the budget of epsilon = 1, delta = 1e-06" in text
    assert asked == pytest.approx(0.9, abs=2e-4)
    with pytest.raises(lgb_dp.BudgetExceededError):
        budget.charge(Cost(mu=gaussian_mu(left + 2e-4, 1e-6)), "NewtonBoost")
    budget.charge(Cost(mu=gaussian_mu(left, 1e-6)), "NewtonBoost")


def test_a_refusal_says_how_pure_results_are_paid():
    with pytest.raises(lgb_dp.BudgetExceededError, match=r"epsilon = 0\.5.*apart by"):
        lgb_dp.Budget(1.0, 1e-6).charge(Cost(0.5), "DPBoost")
    with pytest.raises(lgb_dp.BudgetExceededError, match=r"epsilon = 0\.5, .*epsilon = 0\.3, delta = 0$"):
        lgb_dp.Budget(1.0, 1e-6, pure_epsilon=0.3).charge(Cost(0.5), "DPBoost")


@pytest.mark.parametrize(
    ("budget", "left"),
    [
        (dict(delta=1e-5), "left epsilon = 1, delta = 1e-05 with Gaussian noise>"),
        (dict(), "left epsilon = 1, delta = 0 without Gaussian noise>"),
        (dict(delta=1e-5, pure_epsilon=1.0), "left epsilon = 1, delta = 0 without Gaussian noise>"),
        (
            dict(delta=1e-5, pure_epsilon=0.25, approximate_delta=5e-6),
            "left epsilon = 0.75, delta = 5e-06 with Gaussian noise and "
            "epsilon = 0.25, delta = 5e-06 without Gaussian noise>",
        ),
    ],
)
def test_a_new_budget_shows_all_of_it_as_left(budget, left):
    """Before, a Gaussian budget showed "left epsilon = 0, delta = 0, mu = …"."""
    assert repr(lgb_dp.Budget(1.0, **budget)).endswith(left)


def test_a_budget_shows_what_is_left():
    budget = lgb_dp.Budget(1.0, 1e-5)
    budget.charge(Cost(mu=0.2), "a result")
    left, _ = budget.remaining.at(1e-5)
    assert 0.5 < left < 0.7
    assert re.search(r"left epsilon = (\S+), delta = 1e-05", repr(budget))[1] == f"{left - 5e-5:.4f}"


@pytest.mark.parametrize("n", [1, 3, 6, 7, 10, 11, 49, 100])
@pytest.mark.parametrize("whole", [1.0, 0.3, 3.3])
def test_equal_shares_of_a_budget_fit_and_never_add_up_to_more(n, whole):
    """0.1 is above a tenth as a float: the tenth of ten such runs was refused."""
    budget, each = lgb_dp.Budget(whole), whole / n
    for _ in range(n):
        budget.charge(Cost(granted(each)), "DPBoost")
    left = Fraction(whole) - n * Fraction(granted(each))
    assert 0 < left < Fraction(whole) / 2**50
    with pytest.raises(lgb_dp.BudgetExceededError):
        budget.charge(Cost(granted(each) / 1000), "one more")


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40), st.floats(1e-6, 100))
def test_shares_of_any_size_fit(parts, whole):
    budget = lgb_dp.Budget(whole)
    exact = [Fraction(part, sum(parts)) * Fraction(whole) for part in parts]
    for part in exact:
        budget.charge(Cost(granted(float(part))), "a run")
    assert sum(Fraction(granted(float(part))) for part in exact) <= Fraction(whole)


def test_ten_runs_of_a_tenth_are_paid_and_an_eleventh_is_told_what_is_left():
    budget = lgb_dp.Budget(1.0, 1e-5, pure_epsilon=1.0, approximate_delta=1e-5)
    for trainer in [lgb_dp.DPBoost] * 4 + [lgb_dp.MBoost] * 3 + [lgb_dp.RandomForestLaplace] * 2:
        train(dataset(X, Y), trainer(0.1, budget=budget))
    with pytest.raises(lgb_dp.BudgetExceededError, match=r"= 0\.1, delta = 1e-05"):
        train(dataset(X, Y), lgb_dp.DPBoost(0.11, budget=budget))
    train(dataset(X, Y), lgb_dp.DPBoost(0.1, budget=budget))
    with pytest.raises(lgb_dp.BudgetExceededError, match=r"at most|nothing is"):
        train(dataset(X, Y), lgb_dp.DPBoost(1e-6, budget=budget))
    assert budget.report().spent[0] <= 1.0


def test_what_stands_for_a_payment_is_charged_once():
    budget, key = lgb_dp.Budget(1.0), ("all folds", 1)
    for _ in range(3):
        budget.charge(Cost(0.6), "a fold", once=key)
    assert budget.spent == Cost(0.6)
    with pytest.raises(lgb_dp.BudgetExceededError):
        budget.charge(Cost(0.6), "a fold", once=("all folds", 2))
    for cost, unit in (
        (Cost(0.7), Unit()),
        (Cost(0.1), Unit()),
        (Cost(mu=9.0), Unit()),
        (Cost(0.6), Unit(3)),
    ):
        with pytest.raises(lgb_dp.InvalidArgumentError):
            budget.charge(cost, "another result", unit=unit, once=key)
    assert budget.spent == Cost(0.6)


def test_a_report_or_a_number_is_no_cost():
    budget = lgb_dp.Budget(1.0)
    for cost, named in ((budget.report(), r"pass report\.cost"), (0.1, "must be a Cost, got float")):
        with pytest.raises(lgb_dp.ArgumentTypeError, match=named):
            budget.charge(cost, "a model")


@given(
    st.integers(1, 60),
    st.floats(0.05, 5),
    st.floats(1e-8, 1e-3),
    st.floats(0, 1),
    st.lists(costs, max_size=4),
)
def test_planned_shares_fit_and_leave_next_to_nothing(n, epsilon, delta, pure, before):
    budget = lgb_dp.Budget(epsilon, delta, pure_epsilon=pure * epsilon)
    for cost in before:
        with contextlib.suppress(lgb_dp.BudgetExceededError):
            budget.charge(cost, "before")
    left = budget.remaining
    try:
        plan = budget.plan(n)
    except lgb_dp.BudgetExceededError:
        assert left.epsilon / n == 0
        assert gaussian_epsilon(left.mu / math.sqrt(n), delta) < 1e-6
        return
    for _ in range(n):
        if plan.epsilon:
            budget.charge(Cost(mu=gaussian_mu(plan.epsilon, plan.delta)), "NewtonBoost")
        if plan.pure_epsilon:
            budget.charge(Cost(granted(plan.pure_epsilon)), "DPBoost")
    assert budget.spent.mu <= plan.total.mu <= budget.limit.mu
    assert budget.spent.epsilon <= plan.total.epsilon <= budget.limit.epsilon
    assert budget.remaining.epsilon <= left.epsilon * 1e-9
    assert budget.remaining.mu <= 1e-3 * budget.limit.mu or plan.epsilon < 1e-3


def test_twelve_planned_models_are_trained_and_a_thirteenth_is_not():
    budget = lgb_dp.Budget(1.0, DELTA)
    budget.charge(Cost(mu=gaussian_mu(0.3, DELTA)), "a result")
    plan = budget.plan(12)
    assert 1 / 12 < plan.epsilon < 0.3
    assert str(plan).startswith(f"each of 12: {pair_text(plan.epsilon, DELTA, ROUND_FLOOR)} with Gaussian")
    model = lgb_dp.DPLGBMClassifier(plan.epsilon, delta=plan.delta, n_estimators=2)
    for _ in range(12):
        model.fit(X, Y, bounds=(-3, 3), budget=budget)
    with pytest.raises(lgb_dp.BudgetExceededError):
        model.fit(X, Y, bounds=(-3, 3), budget=budget)
    with pytest.raises(lgb_dp.BudgetExceededError, match="n_models=100000 is too many"):
        budget.plan(100_000)


def test_a_plan_names_what_it_is_for():
    plan = lgb_dp.Budget(1.0, DELTA, pure_epsilon=0.5).plan(4)
    assert "with Gaussian noise or epsilon = 0.125, delta = 0 without" in str(plan)
    for n, error in ((0, lgb_dp.InvalidArgumentError), (1.5, lgb_dp.ArgumentTypeError)):
        with pytest.raises(error, match="n_models"):
            lgb_dp.Budget(1.0).plan(n)


def test_a_staircase_shows_what_is_spent_and_left():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    budget = lgb_dp.Budget(1.0, DELTA, pure_epsilon=0.5)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="budget has no charges"):
        budget.plot()
    budget.charge(Cost(0.25), "DPBoost")
    budget.charge(Cost(mu=budget.limit.mu / 2), "NewtonBoost")
    lines = {line.get_label(): line for line in budget.plot().lines}
    assert "μ²: 25.0% spent, 75.0% left" in lines
    assert lines["ε: 50.0% spent, 50.0% left"].get_ydata().tolist() == pytest.approx([0.5, 0.5, 0.5])
    pyplot.close()
    backwards = [row | {"date": f"20{y}-01-01"} for row, y in zip(budget.charges, (26, 25), strict=True)]
    steps = plot_charges(backwards, budget.limit).lines[0].get_xdata()
    assert (np.diff(steps) >= np.timedelta64(0)).all()
    pyplot.close()
