import csv
import gzip
import logging
import time

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allocated import peak_of
from gbdt_parties.errors import InvalidDataError
from veilboost.plans.tables import UNSEEN, RowNumbers, log_unseen, read_table

TEXT = "user,age,city,y\n007,31,Paris,1\n8,,Rome,0\n9,40,,1\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(TEXT)
    return path


def test_csv_with_ids_missing_values_and_text(file):
    table = read_table(file, id_column="user", label="y", one_hot=["city"])
    assert table.ids == ["007", "8", "9"]
    assert table.label.tolist() == [1, 0, 1]
    assert table.columns.names == ["age", "city=Paris", "city=Rome"]
    assert table.used == ["age", "city"]
    nan = np.nan
    np.testing.assert_array_equal(table.columns.data, [[31, 1, 0], [nan, 0, 1], [40, nan, nan]])
    assert table.columns.data.dtype == np.float32


def test_two_columns_of_labels_are_bounds_and_an_empty_upper_one_is_infinite(tmp_path):
    path = tmp_path / "stays.csv"
    path.write_text('low,high,"low,high",x\n1,2,5,1\n3,,6,0\n')
    table = read_table(path, label="low, high")
    np.testing.assert_array_equal(table.label, [[1, 2], [3, np.inf]])
    assert table.columns.names == ["low,high", "x"]
    assert read_table(path, label="low,high").label.tolist() == [5, 6]
    for label, name in {"low,end": "'end'", "low,x,high": "'low,x,high'"}.items():
        with pytest.raises(InvalidDataError, match=f"no column {name}"):
            read_table(path, label=label)
    with pytest.raises(InvalidDataError, match="cannot be ids"):
        read_table(path, label="low, high", keep=["high"])


def test_values_known_from_an_earlier_file(file):
    table = read_table(file, id_column="user", keep=["city", "age"], one_hot={"city": ["Oslo", "Rome"]})
    assert table.columns.names == ["city=Oslo", "city=Rome", "age"]
    np.testing.assert_array_equal(table.columns.data[:2, :2], [[np.nan, np.nan], [0, 1]])


def test_values_not_seen_before_are_counted_by_column_and_not_quoted(file, caplog):
    table = read_table(file, id_column="user", keep=["city", "age"], one_hot={"city": ["Oslo", "Rome"]})
    assert table.unseen == {"city": 1}  # Paris; the row without a city has a missing value as ever
    log_unseen(table, "people.csv", logging.getLogger("veilboost.test"))
    (text,) = caplog.messages
    assert "people.csv: column 'city' has a value that was not seen in training in 1 of 3 rows" in text
    assert "Paris" not in text
    assert read_table(file, id_column="user", one_hot={"city": ["Paris", "Rome"]}).unseen == {}
    assert read_table(file, id_column="user", one_hot=["city"]).unseen == {}


def test_categorical_columns(file, caplog):
    table = read_table(file, id_column="user", label="y", categorical=["city"])
    assert (table.columns.names, table.used) == (["age", "city"], ["age", "city"])
    np.testing.assert_array_equal(table.columns.data[:, 1], [0, 1, np.nan])
    assert table.columns.categories == {1: ("Paris", "Rome", UNSEEN)}
    assert (table.categorical, table.categories, table.unseen) == ({"city": ["Paris", "Rome"]}, {}, {})
    known = {"city": ["Oslo", "Rome"]}
    table = read_table(file, id_column="user", keep=["city", "age"], categorical=known)
    np.testing.assert_array_equal(table.columns.data[:, 0], [2, 1, np.nan])  # Paris is a category unheard of
    log_unseen(table, "people.csv", logging.getLogger("veilboost.test"))
    (text,) = caplog.messages
    assert "column 'city' has a value that was not seen in training in 1 of 3 rows; no split names it" in text
    with pytest.raises(InvalidDataError, match="no column 'town'"):
        read_table(file, categorical=["town"])


def test_the_same_from_csv_compressed_csv_and_parquet(file, tmp_path):
    zipped, parquet = tmp_path / "people.csv.gz", tmp_path / "people.parquet"
    zipped.write_bytes(gzip.compress(TEXT.encode()))
    content = {
        "user": ["007", "8", "9"],
        "age": [31.0, None, 40.0],
        "city": ["Paris", "Rome", None],
        "y": [1, 0, 1],
    }
    pyarrow.parquet.write_table(pyarrow.table(content), parquet)
    first, *others = (
        read_table(p, id_column="user", label="y", drop=["city"]) for p in (file, zipped, parquet)
    )
    for other in others:
        assert other.ids == first.ids
        np.testing.assert_array_equal(other.columns.data, first.columns.data)
        np.testing.assert_array_equal(other.label, first.label)


def test_libsvm(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:0.5 3:2\n-1 2:1\n")
    table = read_table(path, label="y")
    assert table.ids == ["1", "2"]
    assert table.label.tolist() == [1, -1]
    np.testing.assert_array_equal(table.columns.column(0), np.array([0.5, np.nan], dtype=np.float32))
    for text in ("1 nonsense-4711\n", "1 1:nonsense-4711\n", "nonsense-4711 1:1\n"):
        path.write_text(text)
        with pytest.raises(InvalidDataError, match="LIBSVM") as caught:
            read_table(path)
        assert "4711" not in str(caught.value)


@pytest.mark.parametrize("index", ["4000000000", "1048577", "2147483647", "9" * 3000])
@pytest.mark.parametrize("name", ["rows.svm", "rows.libsvm.gz"])
def test_a_column_number_of_libsvm_is_bounded_before_there_are_columns(tmp_path, name, index):
    path = tmp_path / name
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt") as file:
        file.write(f"# 1 9999999999:1\n0 1:1 # 9999999999:1\n1 1:0 {index}:1\n")

    def refused():
        with pytest.raises(
            InvalidDataError, match=rf"{name}: line 3 has column {index[:9]}.*1048576"
        ) as caught:
            read_table(path, label="y")
        return caught

    caught, peak = peak_of(refused)
    assert peak < 8 << 20
    assert len(str(caught.value)) < len(str(path)) + 400


def test_the_largest_column_number_of_libsvm(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("0 1:1\n1 1048576:1\n")
    assert read_table(path, label="y").columns.n_features == 1048576


def test_what_cannot_be_used_is_named_but_not_quoted(file, tmp_path):
    for how, message in [
        (dict(id_column="nobody"), "no column 'nobody'"),
        (dict(id_column="y", label="y"), "column 'y' of labels cannot be ids"),
        (dict(keep=["age", "y"], label="y"), "column 'y' of labels cannot be ids or a feature"),
        (dict(id_column="user"), "column 'city' is string, not numbers"),
        (dict(id_column="user", keep=["city"]), "column 'city' is string, not numbers"),
        (dict(id_column="user", keep=[]), "no columns left"),
        (dict(drop=["x"]), "no column 'x'"),
    ]:
        with pytest.raises(InvalidDataError, match=message):
            read_table(file, **how)
    for text, message in [
        ("user,age\na,1\na,2\n", "1 ids occur more than once"),
        ("user,age\n,1\n", "missing, empty"),
        ("user,age\nsecret-4711,1,2\n", "cannot be read"),
        ("user,age\nb,inf\n", "infinite"),
    ]:
        path = tmp_path / "bad.csv"
        path.write_text(text)
        with pytest.raises(InvalidDataError, match=message) as caught:
            read_table(path, id_column="user")
        assert "4711" not in str(caught.value)
    for text, message in [
        ("secret-4711,1.5,yes\nsecret-4712,2.5,no\n", "column 1 of 3 is string"),
        ("4711,4711,4711\n1,2,3\n", "3 columns have 1 different names"),
    ]:
        path.write_text(text)  # without a line of names
        with pytest.raises(InvalidDataError, match=message) as caught:
            read_table(path)
        assert "4711" not in str(caught.value)
    path.write_text("user;age\na;1\n")
    with pytest.raises(InvalidDataError, match=r"'user'.*1 columns.*separator"):
        read_table(path, id_column="user")
    with pytest.raises(InvalidDataError, match="not a file"):
        read_table(tmp_path / "absent.csv")
    (tmp_path / "data.xlsx").write_text("x")
    with pytest.raises(InvalidDataError, match="must end in"):
        read_table(tmp_path / "data.xlsx")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"user,age\nada,1\nsecret-4711,1,2\n", "line 3 has 3 columns, and the first line names 2"),
        (b"user,age\nada,1\nsecret-4711\n", "line 3 has 1 columns, and the first line names 2"),
        (b"user,age\nada,1\nbob,2\n\xff4711,1\n", "line 4 is not UTF-8, .*; save the file as UTF-8"),
        ("user,straße\nada,1\n".encode("latin-1"), "line 1 is not UTF-8, .*; save the file as UTF-8"),
        ("user,age\nada,1\n".encode("utf-16"), "line 1 is not UTF-8, .*; save the file as UTF-8"),
        (b"", "it has no line of names"),
    ],
)
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_the_line_of_a_damaged_file_and_the_reason_are_named(tmp_path, name, content, text):
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(InvalidDataError, match=f"{name}.*read as CSV: {text}") as caught:
        read_table(path, id_column="user")
    assert "4711" not in str(caught.value)


def test_a_column_of_text_is_named_where_the_first_line_holds_names(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("user,age,city\na,1,x\n")
    with pytest.raises(InvalidDataError, match="'city' is string"):
        read_table(path, id_column="user")
    path.write_text("user,age\na,1\nb,\nc,secret-4711\n")
    with pytest.raises(InvalidDataError, match=r"'age' is string.*\(the.*3\)"):
        read_table(path, id_column="user")
    path.write_text("user,age,ill\na,1,yes\n")
    text = r"rows\.csv: column 'ill' is string, not numbers; write numbers into the file: classes as 0, 1"
    with pytest.raises(InvalidDataError, match=text):
        read_table(path, id_column="user", label="ill")
    path.write_text("1,secret\n2,b\n")
    with pytest.raises(InvalidDataError, match=r"column 2 of 2.*string"):
        read_table(path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_is_read_without_a_second_copy_of_its_columns(tmp_path, ending):
    path = tmp_path / f"rows.{ending}"
    X = np.random.default_rng(0).normal(size=(20_000, 20)).astype(np.float32)
    content = pyarrow.table({f"x{k}": X[:, k] for k in range(20)})
    write = pyarrow.csv.write_csv if ending == "csv" else pyarrow.parquet.write_table
    write(content, path)
    before = pyarrow.default_memory_pool().bytes_allocated()
    table, peak = peak_of(lambda: read_table(path))
    np.testing.assert_array_equal(table.columns.data, X)
    assert peak < 1.5 * X.nbytes
    end = time.monotonic() + 30  # Arrow's threads let go of their last blocks a little later
    while pyarrow.default_memory_pool().bytes_allocated() - before > content.nbytes:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_columns_of_parquet_are_read_one_by_one(tmp_path):
    """Also where one name begins as another, which nested columns would."""
    path = tmp_path / "rows.parquet"
    content = pyarrow.table({"a": [1.0, 2.0], "a.b": [3.0, 4.0], "id": [7, 8], "city": [5, 6]})
    pyarrow.parquet.write_table(content, path)
    table = read_table(path, id_column="id", label="city", keep=["a.b", "a", "a.b"])
    assert (table.columns.names, table.ids, table.label.tolist()) == (["a.b", "a"], ["7", "8"], [5, 6])
    assert table.columns.data.tolist() == [[3, 1], [4, 2]]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InvalidDataError, match="read as Parquet"):
        read_table(path)


def test_row_numbers_are_a_sequence_of_texts():
    ids = RowNumbers(12)
    assert ids == [str(k) for k in range(1, 13)]
    assert (len(ids), ids[0], ids[-1], ids[2:4]) == (12, "1", "12", ["3", "4"])
    assert "12" in ids
    assert "13" not in ids
    assert ids != RowNumbers(11)
    with pytest.raises(IndexError):
        ids[12]
    assert peak_of(lambda: RowNumbers(10**9))[1] < 10_000


WORDS = [
    "NA",
    "null",
    "nan",
    "None",
    "N/A",
    "#N/A",
    "NULL",
    "true",
    "1",
    "1.0",
    "007",
    "Zürich",
    "a,b",
    'q"q',
]
CELLS = {
    "text": st.none() | st.sampled_from(["", *WORDS]),
    "number": st.none() | st.floats(-1e6, 1e6, width=32),
    "integer": st.none() | st.integers(-(2**63), 2**63 - 1),
    "decimal": st.none() | st.decimals(-(10**12), 10**12, places=4, allow_nan=False),
    "truth": st.none() | st.booleans(),
}
TYPES = {
    "text": [pyarrow.string(), pyarrow.large_string(), pyarrow.string_view(), pyarrow.binary()],
    "number": [pyarrow.float32(), pyarrow.float64()],
    "integer": [pyarrow.int64()],
    "decimal": [pyarrow.decimal128(20, 4), pyarrow.decimal256(30, 4)],
    "truth": [pyarrow.bool_()],
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), n_rows=st.integers(1, 8))
def test_csv_and_parquet_of_a_table_are_read_alike(tmp_path, data, n_rows):
    """CSV has "NA" for a missing number, and for Namibia: a column of text has what stands there."""
    cells = {name: data.draw(st.lists(of, min_size=n_rows, max_size=n_rows)) for name, of in CELLS.items()}
    types = {name: data.draw(st.sampled_from(of)) for name, of in TYPES.items()}
    cells["id"] = data.draw(st.lists(st.sampled_from(WORDS), min_size=n_rows, max_size=n_rows, unique=True))
    columns = {
        name: pyarrow.array(
            [v.encode() if types.get(name) == pyarrow.binary() and v is not None else v for v in values],
            type=types.get(name, pyarrow.string()),
        )
        for name, values in cells.items()
    }
    columns["coded"] = columns["text"]
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    with open(tmp_path / "t.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*({**cells, "coded": cells["text"]}[name] for name in columns), strict=True))
    how = {"id_column": "id", "one_hot": ["text"], "categorical": ["coded"]}
    first, second = (read_table(tmp_path / f"t.{end}", **how) for end in ("csv", "parquet"))
    assert list(first.ids) == list(second.ids) == cells["id"]
    assert (first.columns.names, first.categories, first.categorical, first.unseen) == (
        second.columns.names,
        second.categories,
        second.categorical,
        second.unseen,
    )
    np.testing.assert_array_equal(first.columns.data, second.columns.data)
    assert set(first.categorical["coded"]) == {v for v in cells["text"] if v}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([b"\xff\x00", b"b"], pyarrow.binary()),
        ([b"\xff" * 16, b"b" * 16], pyarrow.binary(16)),
        ([[1], [2]], pyarrow.list_(pyarrow.int64())),
    ],
)
@pytest.mark.parametrize("how", [{"id_column": "x"}, {"one_hot": ["x"]}, {"categorical": ["x"]}])
def test_columns_that_are_no_text_are_refused_with_what_to_do(tmp_path, values, kind, how):
    content = pyarrow.table({"x": pyarrow.array(values, type=kind), "y": [1.0, 2.0]})
    pyarrow.parquet.write_table(content, tmp_path / "rows.parquet")
    text = r"rows\.parquet: column 'x' is .*, not text in UTF-8; write it as text, bytes as hexadecimal"
    with pytest.raises(InvalidDataError, match=text):
        read_table(tmp_path / "rows.parquet", **how)


def test_text_in_another_encoding_is_refused_where_it_is_used(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("id,x,city\na,1,Köln\nb,2,Rom\n".encode("latin-1"))
    assert read_table(path, id_column="id", drop=["city"]).columns.names == ["x"]
    with pytest.raises(InvalidDataError, match=r"rows\.csv.*read as CSV: line 2.*UTF-8"):
        read_table(path, id_column="id", one_hot=["city"])
    with pytest.raises(InvalidDataError, match=r"'city' is binary.*\(nor.*latin-1"):
        read_table(path, id_column="id")


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("id,city,city=Paris\na,Paris,5\n", ["city"]),
        ("id,city=Paris,city\na,5,Paris\n", ["city"]),
        ("id,a,a=b\n1,b=c,c\n", ["a", "a=b"]),
    ],
)
def test_an_encoded_column_never_takes_the_place_of_another(tmp_path, text, encoded):
    """It did so without a word; the name of the encoded column is half a value, and not quoted."""
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(InvalidDataError, match="one-hot encoding") as caught:
        read_table(path, id_column="id", one_hot=encoded)
    assert "Paris" not in str(caught.value)


def test_numbers_beyond_the_precision_of_floats_are_rounded(tmp_path):
    big = [2**60 + 1, -(2**63), 2**53 + 1]
    content = {"x": big, "y": pyarrow.array([2**64 - 1, 1, 2], type=pyarrow.uint64())}
    pyarrow.parquet.write_table(pyarrow.table(content), tmp_path / "rows.parquet")
    table = read_table(tmp_path / "rows.parquet", label="x")
    assert table.label.tolist() == [float(v) for v in big]
    assert table.columns.data[:, 0].tolist() == [2.0**64, 1, 2]


@pytest.mark.parametrize(
    "content", [b"id,a\n1,2\n", gzip.compress(b"id,a\n1,2\n")[:-9]], ids=["plain", "cut off"]
)
def test_a_damaged_compressed_file_is_named(tmp_path, content):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(content)
    with pytest.raises(InvalidDataError, match=r"rows\.csv\.gz.*read as CSV"):
        read_table(path, id_column="id")
