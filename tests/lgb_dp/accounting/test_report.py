"""Composition of reports, and the plots."""

import json
import math

import lightgbm as lgb
import matplotlib
import pytest

import lgb_dp
from gbdt_hosts.lightgbm.text import guarantee_in, with_guarantee
from lgb_dp.accounting.cost import Cost, total_cost
from lgb_dp.accounting.gaussian import SampledGaussian, composed_epsilon, gaussian_epsilon, gaussian_mu
from lgb_dp.accounting.ledger import Ledger, Release
from lgb_dp.accounting.report import PrivacyReport
from reports_of_models import DELTA, X, Y
from small_training import binary_data, dataset, train

matplotlib.use("Agg")


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


@pytest.mark.parametrize(("epsilon", "cost"), [(math.inf, Cost(1.0)), (1.0, Cost(math.inf))])
def test_an_infinite_epsilon_anywhere_is_no_guarantee(epsilon, cost):
    report = PrivacyReport(epsilon, 0.0, True, (), (), (), cost=cost)
    assert not report.private
    assert report.reasons


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


@pytest.fixture(scope="module")
def theirs():
    return train(dataset(*binary_data()), lgb_dp.DPBoost(0.5)).model_to_string()


def forged(text, cost=(), **fields):
    guarantee = guarantee_in(text)
    guarantee["cost"].update(cost)
    for name in ("epsilon", "delta"):
        guarantee[name] = guarantee["cost"][name]
    return lgb.Booster(model_str=with_guarantee(text, {**guarantee, **fields}))


@pytest.mark.parametrize(
    "cost",
    [
        {"epsilon": -9.9},
        {"delta": -0.001},
        {"mu": -1.0},
        {"epsilon": math.nan},
        {"epsilon": "1"},
        {"epsilon": True},
        {"sampled": [[1.0, 0.5, -5]]},
        {"sampled": [[1.0, 0.5, 10**15]]},
    ],
)
def test_side_door_a_forged_cost_is_no_guarantee(theirs, cost):
    model = forged(theirs, cost)
    with pytest.raises(lgb_dp.NoGuaranteeError):
        lgb_dp.privacy_of(model)
    X, y = binary_data(seed=1)
    budget = lgb_dp.Budget(20.0)
    ours = lgb.train(
        {"objective": "binary", "verbosity": -1, "max_depth": 2},
        dataset(X, y, free_raw_data=False),
        2,
        init_model=model,
        callbacks=[lgb_dp.DPBoost(10.0, budget=budget)],
    )
    assert not ours.privacy.private
    assert ours.privacy.epsilon >= 10 * (1 - 1e-15)
    assert budget.spent.epsilon >= 10 * (1 - 1e-15)


def test_side_door_a_verdict_without_a_reason_still_voids(theirs):
    report = lgb_dp.privacy_of(forged(theirs, private=False, reasons=[]))
    assert not report.private
    assert report.reasons
    X, y = binary_data(seed=1)
    model = train(dataset(X, y, paid_for=[report]), lgb_dp.DPBoost(1.0))
    assert not model.privacy.private


def test_texts_of_a_guarantee_are_escaped_and_cut(theirs):
    evil = "\x1b[2J\nprivate: epsilon = 0.001"
    guarantee = guarantee_in(theirs)
    ledger = [{**row, "release": evil} for row in guarantee["ledger"]]
    report = lgb_dp.privacy_of(forged(theirs, notes=[evil, "x" * 10**6], reasons=[evil], ledger=ledger))
    assert "\x1b" not in str(report)
    assert not any(line.startswith("private") for line in str(report).splitlines())  # the reason voids it
    assert len(str(report)) < 10_000


ROW_WITHOUT_EPSILON = {
    "group": 0,
    "release": "leaf sums",
    "mechanism": "Gaussian",
    "mu": 0.1,
    "count": 1,
    "disjoint_sets_of_rows": 1,
}


@pytest.mark.parametrize(
    "fields",
    [
        {"ledger": [{}]},
        {"ledger": [3]},
        {"ledger": [ROW_WITHOUT_EPSILON]},
        {"private": "yes"},
        {"spent": [1]},
        {"spent": ["a", "b"]},
        {"notes": 3},
    ],
)
def test_what_is_not_a_report_is_no_guarantee(theirs, fields):
    with pytest.raises(lgb_dp.NoGuaranteeError):
        lgb_dp.privacy_of(forged(theirs, **fields))


def test_a_report_survives_its_own_dictionary(theirs):
    report = lgb_dp.privacy_of(lgb.Booster(model_str=theirs))
    again = lgb_dp.PrivacyReport.from_dict(json.loads(json.dumps(report.to_dict())))
    assert again == report


def test_a_large_epsilon_is_said_to_be_weak_in_an_attackers_chance():
    def text(epsilon):
        return str(PrivacyReport(epsilon, 0.0, True, (), (), ()))

    assert "weak" not in text(10.0)
    # An attacker on an ε-DP result is right with probability e^ε / (1 + e^ε) at most: 0.99998 at 11.
    assert "weak: epsilon is above 10; an attacker who sees the result may tell whether one row" in text(11.0)
    assert "be right 100% of the time, where guessing is right 50%" in text(11.0)
    assert "weak" in PrivacyReport(11.0, 0.0, True, (), (), ())._repr_html_()
    assert "weak" not in str(PrivacyReport(11.0, 0.0, False, ("of a reason",), (), ()))


def test_the_chance_at_a_large_epsilon_is_the_gaussian_mechanisms():
    mu, delta = 2.5, 1e-6
    cost = Cost(mu=mu)
    epsilon, _ = cost.at(delta)
    assert epsilon > 10
    text = str(PrivacyReport(epsilon, delta, True, (), (), (), cost=cost))
    share = float(text.split("be right ")[1].split("%")[0])
    exact = 100 * 0.5 * math.erfc(-mu / 2 / math.sqrt(2))  # Φ(μ / 2)
    assert exact <= share <= exact + 0.15
