"""Declarations beside the rows that come: values that were not declared."""

from dataclasses import replace

import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
import yaml

from gbdt_parties.errors import InvalidDataError
from veilboost import command_line as cli
from veilboost.plans.declared import Declared, DeclaredColumns, read_declared_columns
from veilboost.plans.entries import PlanError

SEX = {"sex": ["f", "m"]}
CODES = {"sex": [1, 2]}


def rows(tmp_path, values, ending="csv"):
    path = tmp_path / f"rows.{ending}"
    table = pyarrow.table({"sex": values, "age": [30.0] * len(values), "ill": [0, 1] * (len(values) // 2)})
    if ending == "csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pyarrow.parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("categories", "known", "other"),
    [
        (SEX, "f", "d"),
        (SEX, "f", "NA"),
        (SEX, "f", "F"),
        (CODES, 1, 3),
        (CODES, 1, 0),
        ({"sex": ["1"]}, "1", "2"),
    ],
)
def test_many_undeclared_values_are_refused_unless_accepted_by_name(
    tmp_path, ending, categories, known, other
):
    declared = Declared(label="ill", bounds={"age": [0, 100]}, categories=categories)
    few = rows(tmp_path, [other] * 2 + [known] * 198, ending)
    assert declared.table_of(few).features.num_rows == 200
    many = rows(tmp_path, [other] * 4 + [known] * 196, ending)
    text = rf"rows\.{ending}: column 'sex' has a value that is not declared in 2\.0% of the rows"
    for how in ({}, {"labelled": False}):
        with pytest.raises(InvalidDataError, match=text) as caught:
            declared.table_of(many, **how)
        assert repr(other) not in str(caught.value).partition(": ")[2].replace("2.0%", "")
    assert replace(declared, accept_undeclared=["sex"]).table_of(many).features.num_rows == 200


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_missing_values_are_no_undeclared_ones(tmp_path, ending):
    columns = DeclaredColumns(categories=SEX)
    assert columns.table_of(rows(tmp_path, ["f", None, "", "m"] * 20, ending)).features.num_rows == 80
    for values in ([1, None] * 20, [1.0, float("nan"), None, 2.0] * 10):
        assert DeclaredColumns(categories=CODES).table_of(rows(tmp_path, values, ending))


def test_a_text_among_codes_does_not_make_all_of_them_missing(tmp_path):
    """One cell of text makes a column of CSV text, and each of its codes was missing without a word."""
    path = rows(tmp_path, [1] * 199 + [2])
    path.write_text(path.read_text().replace("2,30", '"?",30'))
    with pytest.raises(InvalidDataError, match=r"declared in 100\.0%.*rows"):
        DeclaredColumns(categories=CODES).table_of(path)


def test_columns_are_accepted_by_name_in_the_declaration(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows(tmp_path, ["f", "d"] * 20)
    (tmp_path / "columns.yaml").write_text(yaml.safe_dump({"bounds": {"age": [0, 100]}, "categories": SEX}))
    assert cli.main(["certs", "bank"]) == 0
    doctor = [
        "doctor",
        "private-columns",
        "--data",
        "rows.csv",
        "--declared",
        "columns.yaml",
        "--allow",
        "acme",
    ]
    doctor += ["--tls", "certs/bank", "--party", f"sha256:{'a' * 64}", "--budget", "1", "1e-5"]
    doctor += ["--listen", "127.0.0.1:0"]
    cli.main(doctor)
    assert "MEND  values: " in (shown := capsys.readouterr().out)
    assert "name the column in accept_undeclared" in shown
    with open("columns.yaml", "a") as file:
        file.write("accept_undeclared: [sex]\n")
    cli.main(doctor)
    assert "ok    values: 40 rows" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["sexx", "age"])
def test_accepted_columns_have_categories(tmp_path, name):
    content = {"bounds": {"age": [0, 99]}, "categories": SEX, "accept_undeclared": [name]}
    (tmp_path / "declared.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(PlanError, match=f"accept_undeclared names '{name}'"):
        read_declared_columns(tmp_path / "declared.yaml")
