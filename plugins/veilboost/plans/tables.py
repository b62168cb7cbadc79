"""A party's file: CSV, Parquet or LIBSVM, with ids of rows, and columns of numbers."""

from __future__ import annotations

import codecs
import csv
import gzip
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.quoting import quoted
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity.row_ids import fault_of
from veilboost.plans.file_forms import PLAIN, FileForm, hint_at_separator, left_out, options_of
from xgb_fed.boosting.features import Columns, read_columns

UNSEEN = "values not seen in training"
"""Meaning of the last code of a categorical column; XGBoost sends it left at every split."""


LIBSVM = (".svm", ".libsvm")
"""Endings of files of numbered columns."""

MAX_COLUMNS = 1 << 20
"""Of a file of numbered columns, each of which has a name and a place, whether or not a row has a value."""


class RowNumbers(Sequence[str]):
    """Row numbers from 1, as the ids of rows whose file has none: texts are made when they are asked for."""

    def __init__(self, n_rows: int) -> None:
        self._numbers = range(1, n_rows + 1)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...

    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        """The id of a row, or of some."""
        if isinstance(place, slice):
            return [str(k) for k in self._numbers[place]]
        return str(self._numbers[place])

    def __iter__(self) -> Iterator[str]:
        """All ids in turn."""
        return map(str, self._numbers)

    def __eq__(self, other: object) -> bool:
        """Whether another sequence has the same ids."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Table:
    """Rows with ids, which are row numbers from 1 if the file has none; others' rows only as far as aligned.

    `used` lists the columns of the file that are used, before encoding; none for LIBSVM. `categories` has the
    values of each one-hot encoded column, `categorical` those of each categorical one, in the order of their
    codes. `unseen` counts rows whose value of such a column is not a known one; in encoded columns they are
    missing.
    """

    columns: Columns
    ids: Sequence[str]
    has_ids: bool
    label: NDArray[np.float64] | None
    used: list[str]
    categories: dict[str, list[str]]
    unseen: dict[str, int] = field(default_factory=dict)
    categorical: dict[str, list[str]] = field(default_factory=dict)


def log_unseen(table: Table, path: str | Path, logger: logging.Logger) -> None:
    """Warn of values that were not in the file that the categories come from; without quoting them."""
    for name, count in table.unseen.items():
        logger.warning(
            "%s: column %r has a value that was not seen in training in %d of %d rows; %s",
            path,
            name,
            count,
            len(table.ids),
            "no split names it" if name in table.categorical else "it counts as missing",
        )


def label_columns(label: str | None, names: Sequence[str]) -> list[str]:
    """The column of a file that a name is of, or two with a comma between, which hold bounds of times."""
    if label is None:
        return []
    both = [one.strip() for one in label.split(",")]
    return both if len(both) == 2 and label not in names else [label]


def labels_of(columns: Mapping[str, Any], path: Path) -> NDArray[np.float64]:
    """Labels in a column, or in two the times after and by which events came, the second empty if none."""
    found = [numbers_of(column, f"column {name!r}", path, LABELS) for name, column in columns.items()]
    if len(found) == 1:
        return found[0]
    lower, upper = found
    return np.column_stack([lower, np.where(np.isnan(upper), np.inf, upper)])


def kind_of(path: Path, others: Sequence[str] = ()) -> str:
    """The ending of a file of rows, without ``.gz``; InvalidDataError for no file, or another ending."""
    endings = [ending for ending in path.suffixes if ending != ".gz"]
    kind = endings[-1].lower() if endings else ""
    if not path.is_file():
        raise InvalidDataError(f"{path} is not a file")
    if kind not in (".csv", ".parquet", *others):
        known = [".csv", ".csv.gz", ".parquet", *others]
        raise InvalidDataError(f"{path}: the name must end in {', '.join(known[:-1])} or {known[-1]}")
    return kind


def read_table(
    path: str | Path,
    *,
    id_column: str | None = None,
    label: str | None = None,
    keep: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    one_hot: Sequence[str] | Mapping[str, Sequence[str]] = (),
    categorical: Sequence[str] | Mapping[str, Sequence[str]] = (),
    form: FileForm = PLAIN,
) -> Table:
    """Read a ``.csv``, ``.parquet`` or LIBSVM (``.svm``, ``.libsvm``) file; all but Parquet may be
    ``.gz``.

    Ids are read as text, exactly as they stand. In LIBSVM files the `label` is each line's first number.
    `keep` names the only columns to use, in this order; `drop` those not to use. Columns of `one_hot` become
    one column of 0 and 1 for each value, those of `categorical` are split by category; their values may be
    known from an earlier file. Then other values, and missing ones, are missing in the former and one further
    category in the latter. `form` says how the file is written, and which rows are left out. Raises
    InvalidDataError, naming the file and the column that cannot be used.
    """
    path = Path(path)
    kind = kind_of(path, LIBSVM)
    if kind in LIBSVM:
        if id_column is not None or one_hot or categorical or keep is not None or drop or form.exclude:
            raise InvalidDataError(f"{path}: LIBSVM files have numbered columns and no ids")
        return _read_libsvm(path, label is not None)
    texts = [c for c in (id_column, *one_hot, *categorical) if c is not None]
    file = _FileColumns(path, kind, texts, form=form)
    names = file.names
    if len(set(names)) < len(names):
        raise InvalidDataError(f"{path}: {len(names)} columns have {len(set(names))} different names")
    own = label_columns(label, names)
    special = [*([] if id_column is None else [id_column]), *own]
    if {*own} & {id_column, *(keep or ())}:
        raise InvalidDataError(f"{path}: column {label!r} of labels cannot be ids or a feature as well")
    absent = [c for c in [*special, *(keep or ()), *drop, *one_hot, *categorical] if c not in names]
    if absent:
        # The names may be the first row's ids and values, if the file has no line of names.
        hint = hint_at_separator(names, form) if kind == ".csv" else ""
        raise InvalidDataError(f"{path} has no column {absent[0]!r} among its {len(names)} columns{hint}")
    ids: Sequence[str] = RowNumbers(file.n_rows)
    if id_column is not None:
        ids = checked_ids(file.take(id_column).to_pylist(), path)
    used = [c for c in (names if keep is None else keep) if c not in special and c not in drop]
    # None for a column of numbers, until there is a matrix to read it into.
    data: dict[str, NDArray[np.floating[Any]] | None] = {}
    categories, unseen = dict[str, list[str]](), dict[str, int]()
    by_category = dict[str, list[str]]()
    for name in dict.fromkeys(used):
        if name in one_hot:
            known = one_hot[name] if isinstance(one_hot, Mapping) else None
            values, codes, n_unseen = _codes(file.take(name).to_pylist(), known)
            categories[name] = values
            unseen |= {name: n_unseen} if n_unseen else {}
            for k, value in enumerate(values):
                flags = np.where(codes < len(values), codes == k, np.nan)
                if (encoded_name := f"{name}={value}") in data or encoded_name in names:
                    raise InvalidDataError(
                        f"{path}: one-hot encoding of column {name!r} gives a column the name of another one "
                        "in the file; rename that one"
                    )
                data[encoded_name] = flags.astype(np.float32)
        elif name in categorical:
            known = categorical[name] if isinstance(categorical, Mapping) else None
            by_category[name], data[name], n_unseen = _codes(file.take(name).to_pylist(), known)
            unseen |= {name: n_unseen} if n_unseen else {}
        else:
            data[name] = None
    if not data:
        raise InvalidDataError(f"{path} has no columns left to use")
    matrix = np.empty((file.n_rows, len(data)), dtype=np.float32)
    # Without a line of names, a column's name is a value of the first row, which no error quotes.  A file
    # with a column that was asked for has such a line.
    has_names = keep is not None or special or drop or one_hot or categorical
    for k, (name, encoded) in enumerate(data.items()):
        if encoded is None:
            shown = quoted(repr(name)) if has_names else f"{names.index(name) + 1} of {len(names)}"
            encoded = numbers_of(file.take(name), f"column {shown}", path, _REMEDIES)
        with np.errstate(over="ignore"):  # refused below
            matrix[:, k] = encoded
    checked = read_columns(matrix, str(path))
    target = labels_of({name: file.take(name) for name in own}, path) if own else None
    in_matrix = list(data)
    labels = {in_matrix.index(name): (*values, UNSEEN) for name, values in by_category.items()}
    return Table(
        Columns(checked.data, in_matrix, labels),
        ids,
        id_column is not None,
        target,
        used,
        categories,
        unseen,
        by_category,
    )


def _read_libsvm(path: Path, labelled: bool) -> Table:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path))
    except ValueError:
        # The error's own text quotes the line.
        raise InvalidDataError(f"{path} is not in LIBSVM format") from None
    except OverflowError:
        raise _too_many_columns(path) from None
    if X.shape[1] > MAX_COLUMNS:
        raise _too_many_columns(path)
    return Table(read_columns(X, str(path)), RowNumbers(X.shape[0]), False, y if labelled else None, [], {})


def _too_many_columns(path: Path) -> InvalidDataError:
    """The error of a LIBSVM file with its largest number of a column."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as lines:
        _, line, column = max(
            (float(one), number, one.decode())
            for number, line in enumerate(lines, 1)
            for one in re.findall(rb"\d+(?=:)", line.partition(b"#")[0])
        )
    return InvalidDataError(
        f"{path}: line {line} has column {quoted(column, 20)}; up to {MAX_COLUMNS} columns are accepted, so "
        "number those that have values without gaps"
    )


class _FileColumns:
    """The columns of a file, each taken once: there are never two copies of all of them.

    Those of a Parquet file are read when they are taken. Arguments are those of `read_arrow`; raises
    InvalidDataError if the file cannot be read, by `take`, too.
    """

    def __init__(
        self,
        path: Path,
        kind: str,
        texts: Sequence[str],
        keep: Sequence[str] | None = None,
        form: FileForm = PLAIN,
    ) -> None:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet

        self._path, self._kind, self._texts, self._form = path, kind, texts, form
        self.names = [name for name in names_in(path, kind, form) if keep is None or name in keep]
        self._kept = None if form.exclude is None else _kept_rows(path, kind, form)
        with _named_faults(path, kind, form):
            if kind == ".parquet":
                # Pages need not be in memory beside the columns that are read from them.
                self._file = pyarrow.parquet.ParquetFile(path, pre_buffer=False)
                self.n_rows = self._count(self._file.metadata.num_rows)
                return
            # Of text, an empty cell alone is missing: "NA" may be Namibia, and is a text in Parquet, too.
            options = pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(texts, pyarrow.string()), decimal_point=form.decimal
            )
            if keep is not None:
                options.include_columns = self.names
            table = pyarrow.csv.read_csv(path, convert_options=options, **options_of(form))
        self._file, self.n_rows = None, self._count(table.num_rows)
        # Without a name, pyarrow gives all columns.
        self._columns = dict(zip(self.names, table.columns, strict=bool(self.names)))

    def _count(self, n_rows: int) -> int:
        return int(n_rows) if self._kept is None else sum(self._kept.to_pylist())

    def take(self, name: str) -> Any:
        """A column, as pyarrow has it; one of texts, exactly as they stand, missing where they are empty."""
        with _named_faults(self._path, self._kind, self._form):
            if self._file is None:
                column = self._columns.pop(name)
            else:
                column = self._file.read(columns=[name]).column(name)
        if self._kept is not None:
            column = column.filter(self._kept)
        return _texts_of(column, name, self._path) if name in self._texts else column


def _kept_rows(path: Path, kind: str, form: FileForm) -> Any:
    """Which rows of a file are not left out, as booleans of pyarrow."""
    import pyarrow.compute

    others = Path(str(form.exclude))
    plain = replace(form, exclude=None)
    names = names_in(others, kind_of(others), plain)
    if len(names) != 1 or names[0] not in names_in(path, kind, plain):
        # Without a line of names, a name would be a value.
        seen = "its first line names another one" if len(names) == 1 else f"it has {len(names)}"
        raise InvalidDataError(
            f"exclude: {others} must have one column, named in its first line as the column of {path} that "
            f"tells which rows are left out; {seen}"
        )
    column, withdrawn = (
        read_arrow(one, of, names, names, plain).column(0).cast(pyarrow.large_string())
        for one, of in ((path, kind), (others, kind_of(others)))
    )
    return pyarrow.compute.invert(left_out(column, withdrawn.drop_null().unique(), others))


def _texts_of(column: Any, name: str, path: Path) -> Any:
    import pyarrow
    import pyarrow.compute

    try:
        texts = column if pyarrow.types.is_large_string(column.type) else column.cast(pyarrow.string())
        texts.validate(full=True)
    except pyarrow.ArrowException:
        raise InvalidDataError(
            f"{path}: column {name!r} is {column.type}, not text in UTF-8; write it as text, bytes as "
            "hexadecimal digits, in the same way at every party"
        ) from None
    nothing = pyarrow.scalar(None, texts.type)
    return pyarrow.compute.if_else(pyarrow.compute.equal(texts, ""), nothing, texts)


def read_arrow(
    path: Path, kind: str, texts: Sequence[str], keep: Sequence[str], form: FileForm = PLAIN
) -> Any:
    """Read columns of a file of a kind, ``.csv`` or ``.parquet``, as a table of pyarrow.

    Columns in `texts` are read as text, exactly as they stand, with empty ones as missing; of `keep`,
    those that the file has are read. Raises InvalidDataError if it cannot be read, or has one of them twice.
    """
    import pyarrow

    file = _FileColumns(path, kind, texts, keep, form)
    if len(set(file.names)) < len(file.names):
        raise InvalidDataError(f"{path} has a column twice that is declared or needed")
    return pyarrow.table({name: file.take(name) for name in file.names})


@contextmanager
def _named_faults(path: Path, kind: str, form: FileForm) -> Iterator[None]:
    """Name what cannot be read, without Arrow's words, which quote the line that it stumbles over."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        # One of the system, such as a disk's, has a number; Arrow's own about what it reads have none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = _fault_of_csv(path, form) if kind == ".csv" else type(error).__name__
        words = "CSV" if kind == ".csv" else "Parquet"
        raise InvalidDataError(f"{path} cannot be read as {words}: {reason}") from None


def names_in(file: Path, kind: str, form: FileForm = PLAIN) -> list[str]:
    """Names of a file's columns; none for LIBSVM, and an InvalidDataError if it cannot be read."""
    if kind in LIBSVM:
        return []
    import pyarrow.csv
    import pyarrow.parquet

    with _named_faults(file, kind, form):
        if kind == ".parquet":
            return list(pyarrow.parquet.read_schema(file).names)
        with pyarrow.csv.open_csv(file, **options_of(form)) as opened:
            return list(opened.schema.names)


def _fault_of_csv(path: Path, form: FileForm) -> str:
    """The first line of a file that is no CSV, and the reason; quotes neither a value nor a name."""
    opened = gzip.open if path.suffix == ".gz" else open
    n_named = 0
    try:
        with opened(path, "rt", encoding=form.encoding, newline="") as lines:
            reader = csv.reader(lines, delimiter=form.delimiter)
            for row in reader:
                hint = hint_at_separator(row, form) if not n_named and len(row) == 1 else ""
                if hint.endswith("reads it"):
                    return f"its first line names one column{hint}"
                n_named = n_named or len(row)
                if row and len(row) != n_named:
                    return (
                        f"line {reader.line_num} has {len(row)} columns, and the first line names {n_named}"
                        f"; a text with a {form.delimiter!r} needs quotation marks"
                    )
    except UnicodeError:
        is_utf8 = codecs.lookup(form.encoding).name == "utf-8"
        what = f"line {_first_line_beside_utf8(path, opened)} is not UTF-8" if is_utf8 else "it is not that"
        return (
            f'{what}, but Latin-1 or UTF-16, for instance: encoding = "latin-1" reads it then; save the file '
            'as UTF-8 otherwise, which Excel calls "CSV UTF-8"'
        )
    except (csv.Error, OSError, EOFError) as error:
        return f"behind line {reader.line_num}, {type(error).__name__}"
    return "it has no line of names" if not n_named else "a quotation mark may be missing"


def _first_line_beside_utf8(path: Path, opened: Any) -> int:
    with opened(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 0


def checked_ids(values: Sequence[Any], path: Path) -> Sequence[str]:
    """Ids of a file's rows; InvalidDataError, quoting none, if missing, not canonical or repeated."""
    for k, value in enumerate(values):
        fault = "is missing, empty or null" if value is None else fault_of(value)
        if fault is not None:
            raise InvalidDataError(f"{path}: the id of row {k + 1} {fault}")
    if len(set(values)) != len(values):
        raise InvalidDataError(f"{path}: {len(values) - len(set(values))} ids occur more than once")
    return values


LABELS = "write numbers into the file: classes as 0, 1, …"
"""The remedy for labels that are not numbers."""

_REMEDIES = (
    "leave it out (drop), or encode it: by one_hot or categorical with columns apart, as numbers in the file "
    "with rows apart"
)


def numbers_of(
    column: Any, shown: str, path: Path, remedies: str = "write numbers into the file"
) -> NDArray[np.float64]:
    """A pyarrow column as numbers, with NaN for missing values; `shown` is its name in errors.

    Raises InvalidDataError if it holds anything else; the text quotes no value, and ends with the `remedies`.
    """
    import pyarrow

    kind = column.type
    types = pyarrow.types
    if types.is_decimal(kind):
        column = column.cast(pyarrow.string())  # rounded once, as the same digits in CSV are
    elif types.is_date(kind) or types.is_timestamp(kind):
        # Seconds since 1970 (UTC), of whatever unit a party's file has.
        column = column.cast(pyarrow.timestamp("ms", getattr(kind, "tz", None)), safe=False)
        return numbers_of(column.cast(pyarrow.int64()), shown, path) / 1000
    elif not any(
        test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
    ):
        raise InvalidDataError(
            f"{path}: {shown} is {kind}, not numbers{_beginning_of_text(column)}; {remedies}"
        )
    # Integers beyond 2**53 are rounded, as decimal numbers are.
    return np.asarray(column.cast(pyarrow.float64(), safe=False).to_numpy(), dtype=np.float64)


def _beginning_of_text(column: Any) -> str:
    """Where a column's first text is, if numbers come before it: one cell makes the whole column text."""
    import pyarrow
    import pyarrow.csv

    if pyarrow.types.is_binary(column.type):
        return ' (nor text in UTF-8: encoding = "latin-1" reads Latin-1)'
    if not (pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)):
        return ""
    missing = {None, *pyarrow.csv.ConvertOptions().null_values}
    if any(re.fullmatch(r"-?\d+,\d+", cell or "") for cell in column.slice(0, 1000).to_pylist()):
        return ' (decimal commas: decimal = "," reads them)'
    for row, cell in enumerate(column.to_pylist(), 1):
        try:
            float("nan" if cell in missing else cell)
        except ValueError:
            return f" (the first text is in row {row})" if row > 1 else ""
    return ""


def _codes(
    values: list[str | None], known: Sequence[str] | None
) -> tuple[list[str], NDArray[np.float32], int]:
    """The values, each row's position among them, and the number of rows with another value.

    The position of another value is the one after the last, and that of a missing one NaN.
    """
    categories = sorted({v for v in values if v is not None}) if known is None else list(known)
    numbers = {value: k for k, value in enumerate(categories)}
    n_known = len(categories)
    codes = np.array([np.nan if v is None else numbers.get(v, n_known) for v in values], dtype=np.float32)
    return categories, codes, int(np.count_nonzero(codes == n_known))
