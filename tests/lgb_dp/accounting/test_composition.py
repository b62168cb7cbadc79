"""Composition of reports, and the plots."""

import math

import matplotlib
import pytest

import lgb_dp
from lgb_dp.accounting.gaussian import SampledGaussian, composed_epsilon, gaussian_epsilon, gaussian_mu
from lgb_dp.accounting.ledger import Cost, Ledger, Release, total_cost
from lgb_dp.accounting.report import PrivacyReport
from small_training import binary_data, dataset, train

matplotlib.use("Agg")
X, Y = binary_data()
DELTA = 1e-5


def gaussian_report(mu, delta=DELTA, private=True):
    cost = Cost(mu=mu)
    epsilon, delta = cost.at(delta)
    return PrivacyReport(epsilon, delta, private, () if private else ("a reason",), (), (), cost=cost)


def test_gaussian_reports_compose_by_squares_and_pure_ones_by_sums():
    together = lgb_dp.compose(gaussian_report(0.3), gaussian_report(0.4))
    assert together.epsilon == pytest.approx(gaussian_epsilon(0.5, DELTA), rel=1e-8)
    assert together.delta == DELTA
    pure = PrivacyReport(0.25, 0.0, True, (), (), ())
    mixed = lgb_dp.compose(pure, gaussian_report(0.3), pure)
    assert mixed.epsilon == pytest.approx(0.5 + gaussian_epsilon(0.3, DELTA), rel=1e-8)
    assert lgb_dp.compose(pure, pure).delta == 0.0


def test_another_delta_can_be_asked_for():
    report = lgb_dp.compose(gaussian_report(0.3), delta=1e-9)
    assert report.delta == 1e-9
    assert report.epsilon == pytest.approx(gaussian_epsilon(0.3, 1e-9), rel=1e-8)


def test_composing_is_never_below_any_part_and_keeps_what_voids():
    one, two = gaussian_report(0.3), gaussian_report(1.0, private=False)
    together = lgb_dp.compose(one, two)
    assert together.epsilon > max(one.epsilon, two.epsilon)
    assert not together.private
    assert together.reasons == ("a reason",)


def test_models_compose_with_models():
    boosters = [train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, DELTA)) for _ in range(4)]
    together = lgb_dp.compose(*(booster.privacy for booster in boosters))
    expected = gaussian_epsilon(2 * gaussian_mu(1.0, DELTA), DELTA)
    assert together.epsilon == pytest.approx(expected, rel=1e-6)
    assert len(together.ledger) == 8


def test_reports_survive_json_with_sampled_parts():
    cost = Cost(0.1, 1e-7, 0.2, (SampledGaussian(0.5, 0.1, 3),))
    assert Cost.from_dict(cost.to_dict()) == cost
    assert total_cost([cost, cost]).sampled == cost.sampled * 2
    epsilon, delta = cost.at(DELTA)
    assert epsilon >= 0.1 + composed_epsilon(0.2, cost.sampled, DELTA)
    assert delta >= DELTA + 1e-7


def test_disjoint_rows_cost_the_largest_of_gaussian_releases():
    ledger = Ledger(granted_delta=DELTA)
    for part, mu in ((0, 0.3), (0, 0.4), (1, 0.45)):
        ledger.charge(Release("leaf sums", "Gaussian", 0.0, 7, part, mu=mu))
    ledger.charge(Release("leaf sums", "Gaussian", 0.0, 8, 0, mu=1.2))
    assert ledger.epsilon == pytest.approx(gaussian_epsilon(1.3, DELTA), rel=1e-8)
    copies = Ledger(copies=4, releases=ledger.releases, granted_delta=DELTA)
    assert copies.epsilon == pytest.approx(gaussian_epsilon(2.6, DELTA), rel=1e-8)


def test_without_a_delta_gaussian_releases_have_no_finite_epsilon():
    ledger = Ledger()
    ledger.charge(Release("leaf sums", "Gaussian", 0.0, 0, 0, mu=0.1))
    assert math.isinf(ledger.epsilon)


def test_replacing_a_row_costs_two_mu():
    report = gaussian_report(0.3)
    assert report.replace_one == pytest.approx((gaussian_epsilon(0.6, DELTA), DELTA))
    mixed = lgb_dp.compose(report, PrivacyReport(0.5, 0.0, True, (), (), ()))
    assert mixed.replace_one[0] == pytest.approx(1.0 + gaussian_epsilon(0.6, DELTA))


def test_a_report_never_composes_as_less_than_it_states():
    for cost in (Cost(), Cost(0.1), Cost(mu=0.01), Cost(1.0, 0.0)):
        report = PrivacyReport(1.0, DELTA, True, (), (), (), cost=cost)
        together = lgb_dp.compose(report, report)
        assert together.epsilon >= 2.0
        assert together.delta >= 2 * DELTA


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="reports"):
        lgb_dp.compose(gaussian_report(0.1), 1.0)
    with pytest.raises(ValueError, match="at least one"):
        lgb_dp.compose()
    with pytest.raises(ValueError, match="delta"):
        lgb_dp.compose(gaussian_report(0.1), delta=0.0)


def test_plots_show_every_method_and_every_release():
    axes = lgb_dp.plot_utility({"a": {0.1: [0.7, 0.8], 1.0: [0.9]}, "b": {1.0: [0.5]}}, metric="accuracy")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert axes.get_ylabel() == "accuracy"
    assert axes.lines[0].get_ydata().tolist() == [0.75, 0.9]
    booster = train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, DELTA))
    axes = lgb_dp.plot_budget(booster.privacy)
    shares = [bar.get_width() for bar in axes.patches]
    assert shares == pytest.approx([0.01, 0.99], rel=1e-6)
    pure = lgb_dp.plot_budget(train(dataset(X, Y), lgb_dp.DPBoost(1.0)).privacy)
    assert sum(bar.get_width() for bar in pure.patches) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="results"):
        lgb_dp.plot_utility({})
