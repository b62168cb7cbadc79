"""Statements about private models: their numbers are those of the report, and void comes first."""

import hashlib
import math
import re

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import federated_training
import lgb_dp
from gbdt_commons.statements.registry import OPEN_FIELDS
from lgb_dp.accounting.attack_curve import attack_curve, chance_of_telling
from small_training import binary_data

X, Y = binary_data(200)
HOSTILE = "<b onclick=x>&"
ROME = "Rome\u202e"
FRAME = pd.DataFrame({HOSTILE: X[:, 0], "age": X[:, 1], "city": np.where(Y > 0, ROME, "<Oslo>")})
BOUNDS = {HOSTILE: (-3.0, 4.5), "age": (-3.0, 3.0)}
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2}


def trained(trainer, **changes):
    settings = {"bounds": BOUNDS, "categories": {"city": [ROME, "<Oslo>", "Paris"]}, **changes}
    return lgb.train(QUIET, lgb_dp.Dataset(FRAME, Y, **settings), 3, callbacks=[trainer])


@pytest.fixture(scope="module")
def newton():
    return trained(lgb_dp.NewtonBoost(1.0, 1e-5))


@pytest.fixture(scope="module")
def models(newton):
    with pytest.warns(lgb_dp.PrivacyLeakWarning):
        seeded = trained(lgb_dp.NewtonBoost(1.0, 1e-5, random_state=1))
    with pytest.warns(lgb_dp.PrivacyLeakWarning):
        from_data = trained(lgb_dp.NewtonBoost(1.0, 1e-5), bounds=None)
    members = federated_training.parties(3)
    return {
        "newton": newton,
        "dpboost": trained(lgb_dp.DPBoost(2.0)),
        "persons": trained(lgb_dp.NewtonBoost(3.0, 1e-5), groups=np.arange(200) // 2, rows_per_group=2),
        "federated": federated_training.train(members, 2, epsilon=2.0),
        "seeded": seeded,
        "bounds from the data": from_data,
        "weak": trained(lgb_dp.NewtonBoost(60.0, 1e-5)),
    }


def record_of(statement):
    return {name: value for part in statement.registry["deployment"].values() for name, value in part.items()}


@pytest.mark.parametrize("name", ["newton", "dpboost", "persons", "federated", "weak"])
def test_numbers_are_those_of_the_report(models, name):
    booster = models[name]
    report, statement = booster.privacy, lgb_dp.statement(booster)
    found = statement.to_dict()
    assert found["verdict"] == ("weak" if name == "weak" else "guarantee")
    assert found["guarantee"]["epsilon"] == report.epsilon
    assert found["guarantee"]["delta"] == report.delta
    assert found["guarantee"].get("mu of Gaussian releases on all rows", 0.0) == report.cost.mu
    assert found["guarantee"]["neighbouring relation"] == report.neighbouring
    pair = tuple(found["guarantee"][f"{name}, replacing one"] for name in ("epsilon", "delta"))
    assert pair == report.replace_one
    assert found["notes"] == list(report.notes)
    assert found["attack_curve"] == attack_curve(report).tolist()
    releases = found["tables"]["Releases"]
    assert [(row["release"], row["count"]) for row in releases] == [
        (row["release"], row["count"]) for row in report.ledger
    ]
    sums = {}
    for _, whole, share in found["shares"]:
        sums[whole] = sums.get(whole, 0) + share
    assert sums == pytest.approx(dict.fromkeys(sums, 1.0))
    record = record_of(statement)
    assert record["privacy_parameters"] == {
        "epsilon": report.epsilon,
        **({"delta": report.delta} if report.delta else {}),
    }
    assert record["variant_name"] == ("Pure DP" if name == "dpboost" else "Approximate DP")
    assert record["privacy_unit"] == ("Person" if name == "persons" else "Row")
    assert report.neighbouring in record["privacy_unit_details"]
    assert record["model_name"] == ("Federated" if name == "federated" else "Central")
    assert ("What leaves whom" in statement.tables) == (name == "federated")
    assert f"epsilon = {report.epsilon:.6g}" in statement.headline


@pytest.mark.parametrize("name", ["newton", "dpboost"])
def test_shares_that_are_shown_do_not_understate_the_attacker(models, name):
    statement = lgb_dp.statement(models[name])
    chance = chance_of_telling(attack_curve(models[name].privacy))
    shown = float(re.search(r"right at most ([\d.]+)%", statement.headline)[1]) / 100
    assert chance <= shown + 1e-15
    assert shown <= chance + 0.001
    for row in statement.attacker:
        fpr, tpr = (float(text.rstrip("%")) / 100 for text in row.values())
        epsilon, delta = models[name].privacy.epsilon, models[name].privacy.delta
        assert tpr <= math.exp(epsilon) * fpr + delta + 0.001


@pytest.mark.parametrize(("name", "reason"), [("seeded", "random_state"), ("bounds from the data", "bounds")])
def test_void_comes_first_and_without_numbers_of_a_guarantee(models, name, reason):
    statement = lgb_dp.statement(models[name])
    header = statement.to_html().partition("<body>")[2].partition("</header>")[0]
    assert "VOID" in header
    assert reason in header
    assert statement.guarantee == {}
    assert statement.attack_curve == ()
    assert "epsilon = " not in header + "".join(statement.words)
    record = record_of(statement)
    assert record["privacy_parameters"] == {}
    assert record["variant_name"] == "Custom"
    assert "void" in record["unprotected_quantities"]
    columns = statement.tables["Columns"]
    assert [list(row) for row in columns] == [["column", "kind"]] * 3  # bounds may be those of the rows
    assert ROME not in statement.to_html() + statement.to_yaml() + statement.to_json()


@pytest.mark.parametrize("line", ["leaf_value=", "feature_infos="])
def test_altered_models_are_void_and_nothing_is_repeated_of_their_report(newton, line):
    text = newton.model_to_string(num_iteration=-1)
    place = text.index(line) + len(line)
    altered = text[:place] + text[place:].replace("1", "2", 1).replace("3", "4", 1)
    statement = lgb_dp.statement(altered)
    assert statement.verdict == "void"
    assert "differ" in statement.reasons[0]
    assert statement.shares == statement.attack_curve == statement.tables["Releases"] == ()
    assert str(newton.privacy.cost.mu)[:6] not in statement.to_json()


def test_columns_with_what_is_public_of_them(newton):
    rows = list(lgb_dp.statement(newton).tables.values())[-1]
    assert [(row["column"], row["kind"]) for row in rows] == [
        ("<b onclick=x>&", "number"),
        ("age", "number"),
        ("city", "categories"),
    ]
    assert [row["bounds or categories"] for row in rows] == [
        "-3.0 to 4.5",
        "-3.0 to 3.0",
        "Rome\\u202e, <Oslo>, Paris",
    ]
    page = lgb_dp.statement(newton).to_html()
    assert "&lt;b onclick=x&gt;&amp;" in page
    assert "<b onclick" not in page
    assert "Rome\\u202e, &lt;Oslo&gt;" in page
    assert "\u202e" not in page


def test_bounds_that_were_paid_for_are_said_to_come_from_the_rows():
    """Before, they counted as chosen without looking at the rows, though the ledger paid for them."""
    X = np.random.default_rng(0).random((400, 2))
    model = lgb_dp.DPLGBMClassifier(epsilon=1.0, delta=1e-4, n_estimators=2, auto_bounds=0.2)
    model.fit(X, X[:, 0] > 0.5, classes=[False, True])
    told = lgb_dp.statement(model)
    paid = "bounds and thresholds that the ledger pays for: they were released from the rows"
    assert paid in told.words[-1]
    assert "Columns, released or public bounds, and categories" in told.tables
    assert "Categories of the columns, parameters" in str(told.registry)
    assert "public knowledge" not in told.to_html()
    assert "released bounds" in str(model.privacy_)
    model.set_params(auto_bounds=None).fit(X, X[:, 0] > 0.5, bounds=(0, 1), classes=[False, True])
    assert paid not in str(lgb_dp.statement(model).words)


def test_times_are_shown_as_times():
    frame = FRAME[["age"]].assign(
        day=pd.Timestamp("2020-02-01"), stay=pd.Timedelta(hours=5), early=pd.Timestamp("1960-01-01 12:30")
    )
    bounds = {
        "age": (-3.0, 3.0),
        "day": (pd.Timestamp("2020-01-01"), pd.Timestamp("2023-01-01 06:00:00.5")),
        "stay": (pd.Timedelta(0), pd.Timedelta(days=30)),
        "early": (pd.Timestamp("1950-01-01"), pd.Timestamp("1970-01-01")),
    }
    data = lgb_dp.Dataset(frame, Y, bounds=bounds)
    booster = lgb.train(QUIET, data, 1, callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)])
    rows = list(lgb_dp.statement(booster).tables.values())[-1]
    assert [row["bounds or categories"] for row in rows[1:]] == [
        "2020-01-01 00:00:00 to 2023-01-01 06:00:00.500000",
        "0.0 seconds to 2592000.0 seconds",
        "1950-01-01 00:00:00 to 1970-01-01 00:00:00",
    ]


def test_path_text_booster_and_estimator_give_the_same(newton, tmp_path, monkeypatch):
    monkeypatch.setattr("lgb_dp.statements.today", lambda: "2026-01-01")  # midnight may come between two
    path = tmp_path / "model.txt"
    newton.save_model(path)
    by_path = lgb_dp.statement(path)
    assert by_path.model["SHA-256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert lgb_dp.statement(newton.model_to_string(num_iteration=-1)) == lgb_dp.statement(newton)
    assert by_path.guarantee == lgb_dp.statement(newton).guarantee
    estimator = lgb_dp.DPLGBMClassifier(epsilon=1.0, n_estimators=2, verbosity=-1)
    estimator.fit(X, Y, bounds=(-3, 3))
    assert lgb_dp.statement(estimator) == lgb_dp.statement(estimator.booster_)


def test_a_booster_that_still_holds_its_rows_says_no_more_than_its_file(newton):
    text = newton.model_to_string(num_iteration=-1)
    reloaded = lgb_dp.DPBooster(model_str=text)
    of_file, of_booster = (lgb_dp.statement(model).to_dict() for model in (reloaded, newton))
    for found in (of_file, of_booster):
        found["model"].pop("SHA-256")
    assert of_booster == of_file
    assert not re.search(r"\b200\b", lgb_dp.statement(newton).to_html())  # rows


def test_registry_fields_can_be_filled_in(newton):
    fill = {name: "2026-01-31" for name in OPEN_FIELDS}
    statement = lgb_dp.statement(newton, fill=fill)
    assert statement.to_fill_in == ()
    assert "TO FILL IN" not in statement.to_yaml()
    assert lgb_dp.statement(newton).to_fill_in
    with pytest.raises(lgb_dp.InvalidArgumentError, match="fill names 'epsilon'"):
        lgb_dp.statement(newton, fill={"epsilon": "0.1"})


def test_models_without_a_guarantee_have_no_statement():
    stock = lgb.train({"verbosity": -1}, lgb.Dataset(X, Y), 1)
    with pytest.raises(lgb_dp.NoGuaranteeError):
        lgb_dp.statement(stock)
    with pytest.raises(lgb_dp.ArgumentTypeError, match="list"):
        lgb_dp.statement([])
    with pytest.raises(lgb_dp.NoGuaranteeError, match="not text"):
        lgb_dp.statement("a\n\ud800")


def test_the_quality_on_held_out_rows_is_stated():
    X, y = np.random.default_rng(0).normal(size=(400, 3)), np.arange(400) % 2
    data = lgb_dp.Dataset(X, y, bounds=(-3, 3))
    trainer = lgb_dp.NewtonBoost(1.0, 1e-5, validation_fraction=0.3)
    booster = lgb.train({"objective": "binary", "verbosity": -1}, data, 2, callbacks=[trainer])
    rows = lgb_dp.statement(booster).tables["Quality on held-out rows"]
    assert str(booster.evaluation.auc) in {row["value (95% interval)"] for row in rows}
