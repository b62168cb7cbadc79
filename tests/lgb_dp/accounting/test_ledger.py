"""Composition and the report."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lgb_dp
from lgb_dp.accounting.cost import Cost, lower_float, share, total_cost, upper_float
from lgb_dp.accounting.gaussian import gaussian_epsilon
from lgb_dp.accounting.ledger import Ledger, Release
from lgb_dp.accounting.unit import Unit
from lgb_dp.dpboost import square_loss
from lgb_dp.dpboost.square_loss import GRADIENT_STEPS
from lgb_dp.mechanisms import noise as mechanisms
from lgb_dp.mechanisms.noise import selection_scale
from reports_of_models import X, Y, release, report
from small_training import dataset, train


def test_same_part_adds_disjoint_parts_take_the_largest_groups_add():
    ledger = Ledger()
    for r in [release(0.5, 0, 0), release(0.25, 0, 0), release(1.0, 0, 1), release(2.0, 1, 0)]:
        ledger.charge(r)
    assert ledger.epsilon == 3.0


def test_what_was_inherited_costs_a_person_once_and_own_releases_k_times():
    ledger = Ledger(unit=Unit(3, 3))
    ledger.inherit(Cost(0.5, 1e-6, 0.25), "bounds", 1e-5)
    ledger.charge(release(0.25, 0, 0))
    ledger.charge(Release.gaussian("leaf sums", 0.5))
    assert (ledger.cost.epsilon, ledger.cost.delta) == (0.5 + 3 * 0.25, 1e-6)
    assert ledger.cost.mu == pytest.approx(math.hypot(0.25, 3 * 0.5), rel=1e-11)
    assert ledger.cost.mu >= math.hypot(0.25, 1.5)
    weighed = Ledger(unit=Unit(3))  # a person's rows weigh no more than one row
    weighed.charge(release(0.25, 0, 0))
    assert weighed.cost.epsilon == 0.25


def test_secret_samples_of_a_person_cost_k_times_each():
    ledger = Ledger(unit=Unit(3, 3))
    for _ in range(2):
        ledger.charge(Release.gaussian("leaf sums", 0.1, 0.5))
    (part,) = ledger.cost.sampled
    assert (part.probability, part.count) == (0.5, 2)
    assert part.mu == pytest.approx(0.3)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_reports_of_other_units_do_not_compose(place):
    reports = [report() for _ in range(3)]
    assert lgb_dp.compose(*reports).unit == Unit()
    reports[place] = report(unit=Unit(3))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="different units"):
        lgb_dp.compose(*reports)


@pytest.mark.parametrize(("delta", "counted"), [(0.0, 1), (1e-7, 2)])
def test_a_plan_counts_as_a_whole_unless_all_of_it_is_pure(delta, counted):
    ledger, planned = Ledger(), Release("splits", "approximate", 0.5, 0, 0, delta)
    ledger.grant([planned] * 2)
    ledger.charge(planned)
    assert (ledger.cost.epsilon, ledger.cost.delta) == (counted * 0.5, counted * delta)


def test_copies_multiply():
    ledger = Ledger(copies=4)
    ledger.charge(release(0.5, 0, 0))
    assert ledger.epsilon == 2.0


@given(st.floats(1e-9, 1e3), st.integers(1, 500))
def test_shares_never_exceed_the_whole_and_waste_nothing(epsilon, parts):
    part = share(epsilon, parts)
    assert parts * Fraction(part) <= Fraction(epsilon)
    assert part == pytest.approx(epsilon / parts, rel=1e-15)


@given(st.lists(st.floats(1e-9, 10), min_size=1, max_size=50))
def test_total_is_never_below_the_exact_sum(values):
    ledger = Ledger()
    for i, value in enumerate(values):
        ledger.charge(release(value, i, 0))
    assert Fraction(ledger.epsilon) >= sum(map(Fraction, values))


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([0.0, 0.1, 0.3, 2.0**-1074, 1e300])),
        max_size=30,
    )
)
def test_the_total_is_the_sum_over_groups_of_the_largest_part(costs):
    ledger, parts = Ledger(copies=3), {}
    for group, part, epsilon in costs:
        ledger.charge(Release("splits", "exponential", epsilon, group, part))
        of_group = parts.setdefault(group, {})
        of_group[part] = of_group.get(part, Fraction()) + Fraction(epsilon)
    exact = 3 * sum(max(of_group.values()) for of_group in parts.values())
    assert ledger.epsilon == upper_float(Fraction(exact))


def test_rounding_is_outward():
    third = Fraction(1, 3)
    assert Fraction(lower_float(third)) < third < Fraction(upper_float(third))
    assert lower_float(Fraction(1, 4)) == upper_float(Fraction(1, 4)) == 0.25
    largest = sys.float_info.max
    beyond = Fraction(largest) + Fraction(1, 3)
    assert (lower_float(beyond), upper_float(beyond)) == (largest, math.inf)
    assert upper_float(Fraction(largest)) == largest
    assert total_cost([Cost(epsilon=largest), Cost(epsilon=largest)]).epsilon == math.inf


def test_table_counts_equal_releases():
    ledger = Ledger()
    for part in (0, 1, 1):
        ledger.charge(release(0.5, 0, part))
    (row,) = ledger.table()
    assert (row["count"], row["disjoint_sets_of_rows"], row["epsilon"]) == (3, 2, 0.5)


def test_what_is_left_of_a_plan_can_be_replaced_at_no_higher_cost():
    count, tree = Release.gaussian("count", 0.1), Release.gaussian("tree", 0.3)
    half = Release.gaussian("tree", 0.3 * 0.5**0.5)
    ledger = Ledger()
    with pytest.raises(lgb_dp.BudgetSpentError):
        ledger.replan([])
    ledger.grant([count, tree, tree])
    ledger.charge(count)
    granted = ledger.granted.mu
    for dearer in ([tree, tree, half], [count, tree, tree], [release(0.1, 0, 0)]):
        with pytest.raises(lgb_dp.BudgetSpentError, match="take its place"):
            ledger.replan(dearer)
    ledger.replan([tree, half])
    with pytest.raises(lgb_dp.BudgetSpentError):
        ledger.charge(count)
    for planned in (tree, half):
        ledger.charge(planned)
    with pytest.raises(lgb_dp.BudgetSpentError):
        ledger.charge(tree)
    assert ledger.granted.mu < granted
    assert ledger.granted.mu == pytest.approx((0.01 + 0.09 * 1.5) ** 0.5)


def test_report_says_so_when_it_is_not_private():
    text = str(report(private=False, reasons=("bounds were read",)))
    assert "NOT PRIVATE" in text
    assert "bounds were read" in text


@pytest.mark.parametrize(("variant", "width"), [("tight", 4.0), ("paper", 6.0)])
def test_mechanisms_get_what_the_ledger_is_charged(monkeypatch, variant, width):
    scales, leaves = [], []
    grow, noise = square_loss.grow_structure, mechanisms.discrete_laplace
    monkeypatch.setattr(square_loss, "grow_structure", lambda *args: scales.extend(args[6]) or grow(*args))
    monkeypatch.setattr(
        mechanisms, "discrete_laplace", lambda n, s, e, random: leaves.append(e) or noise(n, s, e, random)
    )
    booster = train(
        dataset(X, Y), lgb_dp.DPBoost(1.0, variant=variant, leaf_share=0.3), n_rounds=1, max_depth=3
    )
    *splits, leaf = booster.privacy.ledger
    assert [row["release"] for row in splits] == [f"splits of level {i}" for i in (1, 2, 3)]
    assert scales == [selection_scale(row["epsilon"], width) / GRADIENT_STEPS**2 for row in splits]
    assert leaves == [leaf["epsilon"]]
    assert sum(Fraction(row["epsilon"]) for row in (*splits, leaf)) <= 1


def test_trees_of_one_iteration_read_the_same_rows_and_add_up():
    params = {"objective": "multiclass", "num_class": 3}
    booster = train(dataset(X, np.arange(len(X)) % 3), lgb_dp.DPBoost(1.0), n_rounds=4, **params)
    for row in booster.privacy.ledger:
        assert (row["count"], row["disjoint_sets_of_rows"]) == (12, 4)
    assert booster.privacy.epsilon == pytest.approx(3 * sum(row["epsilon"] for row in booster.privacy.ledger))


def test_replace_one_doubles_epsilon_and_more_than_doubles_delta():
    twice = report(epsilon=1.5, delta=1e-6).replace_one
    assert twice == (3.0, pytest.approx((1 + np.exp(1.5)) * 1e-6))


def test_the_neighbouring_relation_is_stated():
    assert report().to_dict()["neighbouring"] == "add or remove one row"
    assert "(add or remove one row; replace one row: epsilon = 3, delta = 0)" in str(report())


def test_ledgers_of_several_runs_are_joined_as_one():
    """Every plan counts, whether or not all of it was released; inherited costs count once."""
    runs, release = [Ledger(), Ledger(), Ledger()], Release.gaussian("leaf sums", 0.3)
    runs[0].inherit(Cost(0.25), "public knowledge", 0.0)
    for run in runs[1:]:
        run.grant([release] * 8)
        run.granted_delta = 1e-5
        run.charge(release)
    whole = Ledger.joined(runs)
    assert whole.cost.epsilon == 0.25
    assert whole.cost.mu == pytest.approx(0.3 * 4, rel=1e-9)
    assert whole.delta == pytest.approx(1e-5)
    assert [row["count"] for row in whole.table()] == [1, 2]
    assert whole.spent[0] == pytest.approx(0.25 + gaussian_epsilon(0.3 * 2**0.5, 1e-5), rel=1e-6)
    with pytest.raises(ValueError, match="unpack"):
        Ledger.joined([Ledger(), Ledger(unit=Unit(rows=2, row_costs=2))])
