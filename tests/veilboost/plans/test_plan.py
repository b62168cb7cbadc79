"""Plans of a run's initiator: sections, entries and what they have to do with each other."""

import math
from dataclasses import MISSING, fields

import pytest
import yaml

from veilboost.plans import entries
from veilboost.plans.declared import Declared
from veilboost.plans.entries import PlanError
from veilboost.plans.exact import ExactSection
from veilboost.plans.plan import METHODS, faults_of_served, read_plan
from veilboost.plans.sections import PartyAddress
from veilboost.plans.simfl import SimFLData, SimFLTraining
from veilboost.plans.vertical import CIPHERS, VerticalData, VerticalServed, VerticalTraining
from veilboost.serving.options import option
from written_plans import read
from xgb_fed.horizontal.exact.cuts import DIGITS

TOML = """
tls = "certs"
parties = [{name = "bank", address = "h:1", server_name = "b"}, {name = "insurer", address = "i:2"}]
[data]
label = "y"
file = "a.csv"
drop = ["x", "z"]
[training]
cipher = "okamoto-uchiyama"
key_length = 3072
timeout = 5
[parameters]
max_depth = 3
eta = 0.1
"""

CONTENT = {
    "tls": "certs",
    "parties": [
        {"name": "bank", "address": "h:1", "server_name": "b"},
        {"name": "insurer", "address": "i:2"},
    ],
    "data": {"label": "y", "file": "a.csv", "drop": ["x", "z"]},
    "training": {"cipher": "okamoto-uchiyama", "key_length": 3072, "timeout": 5},
    "parameters": {"max_depth": 3, "eta": 0.1},
}

LEAST = {"tls": "certs", "parties": [{"name": "bank", "address": "h:1"}], "data": {"label": "y", "file": "a"}}


def test_toml_and_yaml_say_the_same(tmp_path):
    (tmp_path / "plan.toml").write_text(TOML)
    plan = read_plan(tmp_path / "plan.toml")
    assert read(tmp_path, CONTENT) == plan
    assert plan.data == VerticalData(file="a.csv", label="y", drop=["x", "z"])
    assert plan.parties == [
        PartyAddress(name="bank", address="h:1", server_name="b"),
        PartyAddress(name="insurer", address="i:2"),
    ]
    assert plan.parameters == {"max_depth": 3, "eta": 0.1}
    assert plan.path("model") == tmp_path / "model"
    assert plan.path("/elsewhere/model").parent.as_posix() == "/elsewhere"
    assert plan.training.timeout == 5
    assert (type(plan.training.scheme).__name__, plan.training.scheme.key_length) == ("OkamotoUchiyama", 3072)


def test_what_a_plan_leaves_out(tmp_path):
    plan = read(tmp_path, LEAST)
    assert plan.training == VerticalTraining()
    assert plan.parameters == {}
    assert (type(plan.training.scheme).__name__, plan.training.scheme.key_length) == ("Paillier", 2048)


def wrong_for(kind):
    """Values of another type than a field's."""
    return {
        "str": [3, None, True, ["a"]],
        "str | None": [3, False],
        "int": ["3", 2.5, True, None],
        "int | None": ["3", 2.5, True],
        "float": ["3", False, [1.0]],
        "bool": ["yes", 1],
        "list[str]": ["a", 3, {"a": "b"}, [3], [["a"]]],
    }[kind]


ENTRIES = [
    (section, f, value)
    for section, kind in (("data", VerticalData), ("parties", PartyAddress), ("training", VerticalTraining))
    for f in fields(kind)
    for value in wrong_for(str(f.type))
]


@pytest.mark.parametrize(("section", "field", "value"), ENTRIES, ids=lambda v: getattr(v, "name", str(v)))
def test_an_entry_of_another_type_is_named(tmp_path, section, field, value):
    given = {**CONTENT[section][0], field.name: value} if section == "parties" else None
    content = {**CONTENT, section: [given] if given else {**CONTENT[section], field.name: value}}
    with pytest.raises(PlanError, match=f"plan.yaml: {section}.*{field.name}="):
        read(tmp_path, content)


@pytest.mark.parametrize("section", ["", "data", "parties", "training"])
def test_an_unknown_entry_is_named(tmp_path, section):
    content = {**CONTENT}
    if section == "parties":
        content["parties"] = [CONTENT["parties"][0], {**CONTENT["parties"][1], "adress": "h:1"}]
    else:
        content |= {section: {**CONTENT[section], "adress": 1}} if section else {"adress": 1}
    where = r"parties\[1\]" if section == "parties" else section
    with pytest.raises(PlanError, match=f"{where}: unknown entry 'adress'"):
        read(tmp_path, content)


def test_a_missing_entry_is_named(tmp_path):
    for section, kind in (("data", VerticalData), ("parties", PartyAddress)):
        for f in fields(kind):
            if f.default is MISSING and f.default_factory is MISSING:
                own = LEAST[section][0] if section == "parties" else LEAST[section]
                rest = {name: value for name, value in own.items() if name != f.name}
                with pytest.raises(PlanError, match=f"{section}.*: {f.name} is missing"):
                    read(tmp_path, {**LEAST, section: [rest] if section == "parties" else rest})
    for name, words in [
        ("tls", "tls must be"),
        ("parties", "at least one"),
        ("data", "data must be a table"),
    ]:
        with pytest.raises(PlanError, match=words):
            read(tmp_path, {key: value for key, value in LEAST.items() if key != name})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parties": []}, "at least one"),
        ({"parties": {"name": "bank", "address": "h:1"}}, "at least one"),
        ({"parties": ["bank"]}, r"parties\[0\] must be a table"),
        ({"parameters": ["max_depth"]}, "parameters.*table"),
        ({"training": {"rounds": 0}}, r"training\.rounds=0 must be at least 1"),
        ({"training": {"timeout": math.nan}}, r"training\.timeout=nan must be above 0"),
        ({"training": {"timeout": math.inf}}, r"training\.timeout=inf must be above 0"),
        ({"training": {"patience": -1}}, r"training\.patience=-1 must be 0 to"),
        ({"data": {**LEAST["data"], "id": LEAST["data"]["label"]}}, r"data\.id.*data\.label as well"),
        ({"data": {**LEAST["data"], "drop": [LEAST["data"]["label"]]}}, r"data\.drop has .* data\.label"),
        ({"training": {"cipher": "rot13"}}, r"'rot13' must be one of \['okamoto-uchiyama', 'paillier'\]"),
    ],
)
def test_what_makes_no_plan(tmp_path, change, words):
    with pytest.raises(PlanError, match=words):
        read(tmp_path, {**LEAST, **change})


@pytest.mark.parametrize(
    ("role", "other"),
    [(a, b) for k, b in enumerate(("label", "id", "drop", "one_hot", "categorical")) for a in
     ("label", "id", "drop", "one_hot", "categorical")[k + 1:]],
)  # fmt: skip
def test_a_column_is_one_thing_only(tmp_path, role, other):
    """Of two roles one was ignored without a word, or ended in a stray error."""
    given = {name: "c" if name in ("label", "id") else ["c"] for name in (role, other)}
    with pytest.raises(PlanError, match=rf"data\.{role} has 'c'.*data\.{other} as well"):
        read(tmp_path, {**LEAST, "data": {**LEAST["data"], **given}})
    if "label" not in (role, other):
        served = VerticalServed(data="a.csv", tls="certs", allow=["acme"], **given)
        assert f"--{role} has 'c', which is --{other} as well".replace("_", "-") in [
            *faults_of_served("vertical", served, option)
        ]


def test_columns_that_are_encoded_are_used_and_others_are_not(tmp_path):
    def faults(**given):
        served = VerticalServed(data="a.csv", tls="certs", allow=["acme"], **given)
        return [*faults_of_served("vertical", served, option)]

    assert faults(columns=["a"], one_hot=["a"]) == []
    assert faults(columns=["a"], one_hot=["b"]) == ["--columns lacks 'b', which is --one-hot"]
    assert faults(columns=["a", "b"], id="b") == ["--columns has 'b', which is --id"]


def test_ciphers_of_plans_encrypt():
    """Clear text is for experiments in one process, not for plans."""
    assert set(CIPHERS) == {"paillier", "okamoto-uchiyama"}
    for name in CIPHERS:
        assert VerticalTraining(cipher=name).scheme.key_length == 2048


def test_every_entry_has_a_type_that_is_checked():
    sections = {s for one in METHODS.values() for s in (one.data, one.training, one.served)}
    for section in (*sections, PartyAddress, Declared):
        assert {entries.type_of(f) for f in fields(section)} <= set(entries.TYPES)


def test_cuts_of_plans_are_those_of_exact_training():
    (cuts,) = (f for f in fields(ExactSection) if f.name == "cuts")
    assert set(entries.Entry.of(cuts).choices) == set(DIGITS)


SIMFL = {
    "method": "simfl",
    "tls": "certs",
    "parties": [{"name": "north", "address": "n:1"}, {"name": "south", "address": "s:1"}],
}


def test_plans_of_horizontal_training(tmp_path):
    plan = read(tmp_path, SIMFL)
    assert plan.method == "simfl"
    assert plan.data == SimFLData()
    assert plan.training == SimFLTraining()
    given = {"data": {"file": "a.csv", "label": "y", "labels": "numbers", "min_similar": 5}}
    plan = read(tmp_path, {**SIMFL, **given, "training": {"n_hashes": 7, "rounds": 9}})
    assert plan.data == SimFLData(file="a.csv", label="y", labels="numbers", min_similar=5)
    assert (plan.training.n_hashes, plan.training.rounds, plan.training.patience) == (7, 9, 600.0)
    assert read(tmp_path, {**LEAST, "method": "vertical"}) == read(tmp_path, LEAST)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"method": "simfl2"},
            r"method='simfl2' must be one of \['vertical', 'exact', 'private', 'private-columns', 'simfl'\]",
        ),
        ({"training": {"cipher": "paillier"}}, "training: unknown entry 'cipher'"),
        ({"data": {"one_hot": ["city"]}}, "data: unknown entry 'one_hot'"),
        ({"data": {"labels": "colours"}}, r"labels='colours' must be one of \['classes', 'numbers'\]"),
        ({"data": {"file": "a.csv"}}, "data.label is missing"),
        ({"data": {"valid": "a.csv"}}, "data.label is missing"),
        ({"parties": SIMFL["parties"][:1]}, "training needs"),
        ({"training": {"early_stopping_rounds": 3}}, "needs data.valid"),
        ({"method": "vertical"}, "data.*table"),
    ],
)
def test_what_makes_no_plan_of_horizontal_training(tmp_path, change, words):
    with pytest.raises(PlanError, match=words):
        read(tmp_path, {**SIMFL, **change})


@pytest.mark.parametrize("entry", ["rounds", "timeout", "patience"])
def test_numbers_of_too_many_digits_are_refused_by_name(tmp_path, entry):
    sign = "-" if entry == "rounds" else ""
    numbers = {**SIMFL, "training": {entry: 1}}
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(numbers).replace(f"{entry}: 1", f"{entry}: {sign}0x{'f' * 9000}"))
    with pytest.raises(PlanError, match=f"training.{entry}=a.*thousands"):
        read_plan(path)
