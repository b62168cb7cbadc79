import math
from dataclasses import MISSING, fields

import pytest
import yaml

from veilboost.plans import entries
from veilboost.plans.declared import Declared, read_declared
from veilboost.plans.entries import PlanError
from veilboost.plans.exact import ExactTraining
from veilboost.plans.plan import METHODS, read_plan
from veilboost.plans.sections import PartyAddress
from veilboost.plans.simfl import SimFLData, SimFLTraining
from veilboost.plans.vertical import CIPHERS, VerticalData, VerticalTraining
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


def read(tmp_path, content):
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(content))
    return read_plan(path)


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
    with pytest.raises(PlanError, match=rf"plan.yaml: {section}.*{field.name}=.* must be"):
        read(tmp_path, content)


@pytest.mark.parametrize("section", ["", "data", "parties", "training"])
def test_an_unknown_entry_is_named(tmp_path, section):
    content = {**CONTENT}
    if section == "parties":
        content["parties"] = [CONTENT["parties"][0], {**CONTENT["parties"][1], "adress": "h:1"}]
    else:
        content |= {section: {**CONTENT[section], "adress": 1}} if section else {"adress": 1}
    where = r"parties\[1\]" if section == "parties" else section
    with pytest.raises(PlanError, match=rf"{where}: unknown entry 'adress'; known are"):
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
        ({"parameters": ["max_depth"]}, "parameters must be a table"),
        ({"training": {"rounds": 0}}, r"training\.rounds=0 must be at least 1"),
        ({"training": {"timeout": math.nan}}, r"training\.timeout=nan must be above 0"),
        ({"training": {"timeout": math.inf}}, r"training\.timeout=inf must be above 0"),
        ({"training": {"patience": -1}}, r"training\.patience=-1 must be 0 to"),
        ({"data": {**LEAST["data"], "id": LEAST["data"]["label"]}}, r"data\.id=.* is the column of labels"),
        ({"data": {**LEAST["data"], "drop": [LEAST["data"]["label"]]}}, r"data\.drop has .* data\.label"),
        ({"training": {"cipher": "rot13"}}, r"'rot13' must be one of \['okamoto-uchiyama', 'paillier'\]"),
    ],
)
def test_what_makes_no_plan(tmp_path, change, words):
    with pytest.raises(PlanError, match=words):
        read(tmp_path, {**LEAST, **change})


def test_files_that_are_no_plans(tmp_path):
    for name, text in [
        ("plan.toml", b"tls = "),
        ("plan.yaml", b"a: [b"),
        ("plan.yml", b"- a\n- b"),
        ("plan.yaml", b""),
        ("plan.yaml", b"!!python/object/apply:os.getcwd []"),
        ("plan.toml", b"\xff\xfe"),
        ("plan.ini", b"tls = 1"),
    ]:
        (tmp_path / name).write_bytes(text)
        with pytest.raises(PlanError, match=name):
            read_plan(tmp_path / name)
    for name in ("nothing.toml", "."):
        with pytest.raises(PlanError):
            read_plan(tmp_path / name)


def test_ciphers_of_plans_encrypt():
    """Clear text is for experiments in one process, not for plans."""
    assert set(CIPHERS) == {"paillier", "okamoto-uchiyama"}
    for name in CIPHERS:
        assert VerticalTraining(cipher=name).scheme.key_length == 2048


def test_every_entry_has_a_type_that_is_checked():
    sections = {s for one in METHODS.values() for s in (one.data, one.training, one.served)}
    for section in (*sections, PartyAddress, Declared):
        assert {entries.type_of(f) for f in fields(section)} <= set(entries._TYPES)


def test_cuts_of_plans_are_those_of_exact_training():
    (cuts,) = (f for f in fields(ExactTraining) if f.name == "cuts")
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
            r"method='simfl2' must be one of \['vertical', 'exact', 'private', 'simfl'\]",
        ),
        ({"training": {"cipher": "paillier"}}, "training: unknown entry 'cipher'"),
        ({"data": {"one_hot": ["city"]}}, "data: unknown entry 'one_hot'"),
        ({"data": {"labels": "colours"}}, r"labels='colours' must be one of \['classes', 'numbers'\]"),
        ({"data": {"file": "a.csv"}}, "data.label is missing"),
        ({"data": {"valid": "a.csv"}}, "data.label is missing"),
        ({"parties": SIMFL["parties"][:1]}, "training needs at least two parties"),
        ({"training": {"early_stopping_rounds": 3}}, "needs data.valid"),
        ({"method": "vertical"}, "data must be a table"),
    ],
)
def test_what_makes_no_plan_of_horizontal_training(tmp_path, change, words):
    with pytest.raises(PlanError, match=words):
        read(tmp_path, {**SIMFL, **change})


def _nested(kind, depth):
    """A plan whose parameters hold so many lists or tables within each other."""
    opening, closing = ("[", "]") if kind.endswith("lists") else ("{a = ", "}")
    if kind.startswith("yaml"):
        opening = "[" if kind.endswith("lists") else "{a: "
        return f"parameters:\n  eta: {opening * depth}1{closing * depth}\n"
    if kind == "toml dotted keys":
        return f"[parameters]\n{'.'.join(['a'] * depth)} = 1\n"
    if kind == "toml table of dotted keys":
        return f"[parameters.{'.'.join(['a'] * depth)}]\nb = 1\n"
    return f"[parameters]\neta = {opening * depth}1{closing * depth}\n"


@pytest.mark.parametrize("depth", [17, 400, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kind",
    [
        "toml lists",
        "toml tables",
        "toml dotted keys",
        "toml table of dotted keys",
        "yaml lists",
        "yaml tables",
    ],
)
def test_deep_nesting_is_refused_by_name(tmp_path, kind, depth):
    path = tmp_path / f"plan.{kind[:4]}"
    path.write_text(_nested(kind, depth))
    with pytest.raises(PlanError, match=r"plan\.\w+: tables and lists may be nested 16 deep, not deeper"):
        read_plan(path)


def test_yaml_that_refers_to_itself_is_refused_by_name(tmp_path):
    (tmp_path / "plan.yaml").write_text("parameters: &p\n  eta: *p\n")
    with pytest.raises(PlanError, match=r"the alias \*p in line 2 must be written out"):
        read_plan(tmp_path / "plan.yaml")


@pytest.mark.parametrize("entry", ["method", "tls", "parameters", "unknown"])
def test_attack_by_yaml_aliases_that_stand_for_more_than_the_memory_holds(tmp_path, entry):
    """Before, such a file of 335 bytes took 34 seconds and 3 GB to be quoted in an error."""
    lists = ["&a0 [x]", *(f"&a{k + 1} [{','.join([f'*a{k}'] * 9)}]" for k in range(12))]
    (tmp_path / "plan.yaml").write_text(f"{entry}: [{','.join(lists)}]\ntls: t\n")
    for read_file in (read_plan, read_declared):
        with pytest.raises(PlanError, match=r"the alias \*a0 in line 1 must be written out"):
            read_file(tmp_path / "plan.yaml")


@pytest.mark.parametrize(
    "text",
    [
        *("method: [" + "x," * 5000 + "]", f"method: 0x{'f' * 9000}", f"? [{'x' * 9000}, 1]\n: 2"),
        *("1: 2\nb: 3", f"0x{'f' * 900}: 1", f"? {'k' * 5000}\n: 1", f"method: !{'t' * 5000} 1"),
        *(f"tls: t\nparties: [{{at: 0x{'f' * 9000}}}]", 'method: "\\e[2J\\u202e"', "a: [\u202e"),
    ],
)
def test_whatever_stands_in_a_plan_an_error_quotes_it_within_bounds(tmp_path, text):
    (tmp_path / "plan.yaml").write_text(text + "\n")
    for read_file in (read_plan, read_declared):
        with pytest.raises(PlanError) as caught:
            read_file(tmp_path / "plan.yaml")
        assert len(str(caught.value)) < len(str(tmp_path)) + 600
        assert all(line.isprintable() for line in str(caught.value).splitlines())


@pytest.mark.parametrize("entry", ["rounds", "timeout", "patience"])
def test_numbers_of_too_many_digits_are_refused_by_name(tmp_path, entry):
    sign = "-" if entry == "rounds" else ""
    numbers = {**SIMFL, "training": {entry: 1}}
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(numbers).replace(f"{entry}: 1", f"{entry}: {sign}0x{'f' * 9000}"))
    with pytest.raises(PlanError, match=f"training.{entry}=a number of thousands of digits"):
        read_plan(path)


@pytest.mark.parametrize("value", ["2026-13-45", "1" * 5000])
def test_yaml_values_that_cannot_be_are_named_errors(tmp_path, value):
    (tmp_path / "plan.yaml").write_text(f"tls: {value}\n")
    with pytest.raises(PlanError, match=r"plan\.yaml: "):
        read_plan(tmp_path / "plan.yaml")
