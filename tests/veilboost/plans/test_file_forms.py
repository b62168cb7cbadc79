"""The form of CSV files, values of Parquet, and rows that are left out."""

import datetime
import decimal
import logging

import numpy as np
import pytest

from gbdt_parties.errors import InvalidDataError
from veilboost.plans.declared import Declared, read_declared
from veilboost.plans.entries import PlanError
from veilboost.plans.file_forms import FileForm
from veilboost.plans.tables import read_table
from written_plans import read

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
ROWS = "id,x,y\nu1,1.5,0\nu2,2.5,1\nu3,-3.5,0\n"


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "encoding", "form", "named"),
    [
        (ROWS.replace(",", ";"), "utf-8", {"separator": ";"}, 'separator = ";" reads it'),
        (ROWS.replace(",", "\t"), "utf-8", {"separator": "tab"}, 'separator = "tab" reads it'),
        (
            ROWS.replace(",", ";").replace(".", ","),
            "utf-8",
            {"separator": ";", "decimal": ","},
            'separator = ";" reads it',
        ),
        (ROWS + "é,4,1\n", "latin-1", {"encoding": "latin-1"}, r'line 5.*encoding = "latin-1"'),
        (ROWS + "é,4,1\n", "utf-16", {"encoding": "utf-16"}, "is not UTF-8"),
    ],
    ids=["semicolon", "tab", "decimal comma", "latin-1", "utf-16"],
)
def test_a_file_of_another_form_is_named_with_the_option_that_reads_it(tmp_path, text, encoding, form, named):
    path, declared = written(tmp_path / "a.csv", text, encoding), Declared(bounds={"x": [-4, 4]}, label="y")
    with pytest.raises(InvalidDataError, match=named):
        read_table(path, id_column="id", label="y")
    if "encoding" not in form:
        with pytest.raises(InvalidDataError, match=named):
            declared.table_of(path)
    assert len(declared.table_of(path, form=FileForm(**form)).label) == text.count("u") + text.count("é")
    table = read_table(path, id_column="id", label="y", form=FileForm(**form))
    assert table.columns.data[:3, 0].tolist() == [1.5, 2.5, -3.5]
    assert list(table.ids)[3:] == (["é"] if "é" in text else [])


def test_decimal_commas_are_named(tmp_path):
    path = written(tmp_path / "a.csv", ROWS.replace(",", ";").replace(".", ","))
    with pytest.raises(InvalidDataError, match=r'\'x\'.*decimal = "," reads them'):
        read_table(path, id_column="id", label="y", form=FileForm(separator=";"))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"separator": ";;"}, "separator=';;' must be one sign"),
        ({"separator": "a"}, "separator='a'"),
        ({"decimal": "."}, None),
        ({"separator": ";", "decimal": ";"}, "decimal=';' is data.separator as well"),
        ({"encoding": "klingon"}, "encoding='klingon' is not known"),
        ({"exclude": "gone.csv"}, "exclude needs data.id"),
    ],
)
def test_entries_of_a_plan(tmp_path, given, named):
    plan = {"tls": "certs", "data": {"label": "y", "file": "a.csv", **given}}
    plan["parties"] = [{"name": "bank", "address": "h:1"}]
    if named is None:
        assert read(tmp_path, plan).form == FileForm(**given)
        return
    with pytest.raises(PlanError, match=named):
        read(tmp_path, plan)


def test_values_of_parquet(tmp_path):
    day = datetime.date(2020, 1, 2)
    columns = {
        "id": pyarrow.array(["u1", "u2"], pyarrow.large_string()),
        "price": pyarrow.array([decimal.Decimal("1.10"), None], pyarrow.decimal128(9, 2)),
        "day": pyarrow.array([day, None], pyarrow.date32()),
        "time": pyarrow.array([datetime.datetime(2020, 1, 2), None], pyarrow.timestamp("us")),
        "sex": pyarrow.array(["m", "f"], pyarrow.large_string()),
        "y": pyarrow.array([decimal.Decimal(0), decimal.Decimal(1)], pyarrow.decimal128(3, 0)),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet", id_column="id", label="y", categorical=["sex"])
    seconds = datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc).timestamp()
    assert table.columns.data[0].tolist() == [np.float32(1.1), seconds, seconds, 1]
    assert np.isnan(table.columns.data[1, :3]).all()
    (tmp_path / "columns.toml").write_text('label = "y"\n[bounds]\nday = [2020-01-01, 2021-01-01]\n')
    assert read_declared(tmp_path / "columns.toml").bounds["day"][1] == datetime.date(2021, 1, 1)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_of_an_exclude_file_are_left_out_and_unknown_values_counted(tmp_path, ending, caplog):
    caplog.set_level(logging.INFO)
    path = written(tmp_path / "a.csv", ROWS + "007,4,1\n7,5,1\n")
    if ending == "parquet":
        columns = {"id": ["u1", "u2", "u3", "007", "7"], "x": [1.5, 2.5, -3.5, 4, 5], "y": [0, 1, 0, 1, 1]}
        path = tmp_path / "a.parquet"
        parquet.write_table(pyarrow.table(columns), path)
    gone = written(tmp_path / "gone.csv", "id\nu2\n7\nsecret-1\nsecret-2\nu2\n")
    form = FileForm(exclude=str(gone))
    table = read_table(path, id_column="id", label="y", form=form)
    assert list(table.ids) == ["u1", "u3", "007"]
    assert table.columns.data[:, 0].tolist() == [1.5, -3.5, 4]
    rows = Declared(bounds={"x": [-4, 4]}, label="y").table_of(path, form=form)
    assert rows.features.num_rows == len(rows.label) == 3
    assert "2 rows are left out; 2 of its 4 values are in no row" in caplog.text
    assert caplog.records[-1].levelname == "WARNING"  # a value may be written otherwise in the rows
    assert "secret" not in caplog.text


@pytest.mark.parametrize("text", ["u2\nu3\n", "id,x\nu2,1\n", "person\nu2\n"])
def test_an_exclude_file_names_the_column_in_its_first_line(tmp_path, text):
    path, gone = written(tmp_path / "a.csv", ROWS), written(tmp_path / "gone.csv", text)
    with pytest.raises(InvalidDataError, match=r"exclude.*gone\.csv") as caught:
        read_table(path, id_column="id", label="y", form=FileForm(exclude=str(gone)))
    assert "u2" not in str(caught.value)


def test_rows_without_columns_of_names_are_not_left_out(tmp_path):
    path, gone = written(tmp_path / "a.svm", "0 1:2\n1 1:3\n"), written(tmp_path / "gone.csv", "id\nu2\n")
    with pytest.raises(InvalidDataError, match="LIBSVM files have numbered columns"):
        read_table(path, label="y", form=FileForm(exclude=str(gone)))
