"""TOML and YAML files: depth, aliases, and errors that quote them."""

import pytest

from veilboost.plans.declared import read_declared
from veilboost.plans.entries import PlanError
from veilboost.plans.plan import read_plan


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
    with pytest.raises(PlanError, match=r"nothing\.toml.*No.*directory"):
        read_plan(tmp_path / "nothing.toml")


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
    with pytest.raises(PlanError, match=r"plan\.\w+:.*nested 16.*deeper"):
        read_plan(path)


def test_yaml_that_refers_to_itself_is_refused_by_name(tmp_path):
    (tmp_path / "plan.yaml").write_text("parameters: &p\n  eta: *p\n")
    with pytest.raises(PlanError, match=r"alias \*p in line 2"):
        read_plan(tmp_path / "plan.yaml")


@pytest.mark.parametrize("entry", ["method", "tls", "parameters", "unknown"])
def test_attack_by_yaml_aliases_that_stand_for_more_than_the_memory_holds(tmp_path, entry):
    """Before, such a file of 335 bytes took 34 seconds and 3 GB to be quoted in an error."""
    lists = ["&a0 [x]", *(f"&a{k + 1} [{','.join([f'*a{k}'] * 9)}]" for k in range(12))]
    (tmp_path / "plan.yaml").write_text(f"{entry}: [{','.join(lists)}]\ntls: t\n")
    for read_file in (read_plan, read_declared):
        with pytest.raises(PlanError, match=r"alias \*a0 in line 1"):
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


@pytest.mark.parametrize("value", ["2026-13-45", "1" * 5000])
def test_yaml_values_that_cannot_be_are_named_errors(tmp_path, value):
    (tmp_path / "plan.yaml").write_text(f"tls: {value}\n")
    with pytest.raises(PlanError, match=r"plan\.yaml: "):
        read_plan(tmp_path / "plan.yaml")


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 10**30, 10**400])
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("training: {{rounds: {}}}", "training.rounds"),
        ("parameters: {{learning_rate: {}}}", "parameters.learning_rate"),
        ("parties: [{{name: b}}, {{name: {}}}]", "parties.1.name"),
        ("bounds: {{age: [0, {}]}}", "bounds.age.1"),
    ],
)
def test_an_integer_that_no_number_of_a_machine_holds_is_named(tmp_path, text, name, number):
    """One of 400 digits was a defect of the command: it is beyond all floating-point numbers, too."""
    (tmp_path / "plan.yaml").write_text(text.format(number) + "\n")
    for read_file in (read_plan, read_declared):
        with pytest.raises(PlanError, match=f"{name}={str(number)[:9]}.*64 bits") as caught:
            read_file(tmp_path / "plan.yaml")
        assert len(str(caught.value)) < len(str(tmp_path)) + 600


CONTENTS = {
    "plan.toml": 'tls = "Straße"\n[[parties]]\nname = "b"\naddress = "h:1"\n'
    '[data]\nfile = "a.csv"\nlabel = "y"\n',
    "plan.yaml": "tls: Straße\nparties: [{name: b, address: 'h:1'}]\ndata: {file: a.csv, label: y}\n",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_mark_of_the_order_of_bytes_is_no_part_of_a_plan(tmp_path, name):
    """Windows' editor writes one."""
    plain, marked = tmp_path / name, tmp_path / f"marked-{name}"
    plain.write_text(CONTENTS[name], encoding="utf-8")
    marked.write_text(CONTENTS[name], encoding="utf-8-sig")
    assert read_plan(plain) == read_plan(marked)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
@pytest.mark.parametrize("name", CONTENTS)
def test_plans_in_another_encoding_are_refused_with_what_to_do(tmp_path, name, encoding):
    (tmp_path / name).write_text(CONTENTS[name], encoding=encoding)
    with pytest.raises(PlanError, match=f"{name}.*read.*UTF-8.*; save.*UTF-8"):
        read_plan(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tls: a\ntls: b\n", 1),
        ("tls: a\ndata: {file: a, file: b}\n", 2),
        ("tls: a\nparameters:\n  eta: 1\n  'eta': 2\n", 3),
        ("parameters: {1: a, 1.0: b}\n", 1),
        ("parameters:\n  bounds: {1: a, '1': b}\n", 2),
        ("parameters: {true: a, 'True': b}\n", 1),
        ("parameters: {eta: [{a: 1, a: 2}]}\n", 1),
    ],
)
def test_a_name_that_occurs_twice_is_refused(tmp_path, text, line):
    """The last one won silently; TOML has no such files."""
    (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(PlanError, match=f"line {line}.*twice"):
        read_plan(tmp_path / "plan.yaml")
