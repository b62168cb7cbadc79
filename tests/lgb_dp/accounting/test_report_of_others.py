"""A guarantee in somebody else's file: it can be false, but it cannot make our own look better."""

import json
import math

import lightgbm as lgb
import pytest

import lgb_dp
from gbdt_hosts.lightgbm.text import guarantee_in, with_guarantee
from small_training import binary_data, dataset, train


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
    assert ours.privacy.epsilon >= 10
    assert budget.spent.epsilon >= 10


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
    assert sum(line.startswith("private") for line in str(report).splitlines()) == 1
    assert len(str(report)) < 10_000


@pytest.mark.parametrize(
    "fields",
    [
        {"ledger": [{}]},
        {"ledger": [3]},
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
