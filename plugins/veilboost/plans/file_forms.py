"""The form of a party's files, and rows that are left out of them."""

from __future__ import annotations

import codecs
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilboost.plans.entries import entry

logger = logging.getLogger(__name__)
SIGNS = (",", ";", "\t", "|")
"""Signs that separate columns, as far as errors guess them."""


@dataclass(frozen=True, kw_only=True)
class FileForm:
    """Entries that say how files are read."""

    separator: str = entry('sign between the columns of CSV files, or `"tab"`', ",", metavar="SIGN")
    decimal: str = entry("decimal sign of CSV files", ".", metavar="SIGN")
    encoding: str = entry('encoding of CSV files, such as `"latin-1"`', "utf-8", metavar="NAME")
    exclude: str | None = entry(
        "file with one column, which the other files have, too: rows with one of its values are left out of "
        "everything from the next start on, as after a withdrawal of consent",
        None,
        option="file of values whose rows are left out",
        is_path=True,
        metavar="FILE",
    )

    @property
    def delimiter(self) -> str:
        """The sign itself."""
        return "\t" if self.separator == "tab" else self.separator


PLAIN = FileForm()


def faults_of_form(form: FileForm, called: Callable[[str], str]) -> Iterator[str]:
    """Signs and encodings that there are not."""
    for name, value in (("separator", form.delimiter), ("decimal", form.decimal)):
        if len(value) != 1 or not value.isascii() or value.isalnum() or value in '"\r\n':
            yield f"{called(name)}={value!r} must be one sign, such as , or ;"
    if form.delimiter == form.decimal:
        yield f"{called('decimal')}={form.decimal!r} is {called('separator')} as well"
    try:
        "".encode(form.encoding)
    except LookupError:
        yield f"{called('encoding')}={form.encoding!r} is not known; use utf-8 or latin-1, for instance"


def options_of(form: FileForm) -> dict[str, Any]:
    """How pyarrow reads CSV files of a form, but for the types of columns."""
    import pyarrow.csv

    return {
        "read_options": pyarrow.csv.ReadOptions(encoding=codecs.lookup(form.encoding).name),
        "parse_options": pyarrow.csv.ParseOptions(delimiter=form.delimiter),
    }


def hint_at_separator(names: list[str], form: FileForm) -> str:
    """The separator of a file whose line of names was read as one name; quotes no name."""
    text = names[0] if len(names) == 1 else ""
    sign = max(SIGNS, key=text.count)
    if not text.count(sign):
        return f"; {form.separator} separates columns, no other sign" if len(names) == 1 else ""
    return f'; separator = "{"tab" if sign == chr(9) else sign}" reads it'


def left_out(column: Any, withdrawn: Any, path: Path) -> Any:
    """Which rows are left out, as booleans of pyarrow; values of no row are counted, and not listed."""
    import pyarrow.compute

    found = pyarrow.compute.is_in(column, value_set=withdrawn.cast(column.type))
    known = pyarrow.compute.is_in(withdrawn.cast(column.type), value_set=column)
    n_unknown = len(withdrawn) - (pyarrow.compute.sum(known).as_py() or 0)
    logger.log(
        logging.WARNING if n_unknown else logging.INFO,  # " 7" and "7.0" leave "7" in
        "%s: %d rows are left out; %d of its %d values are in no row",
        path,
        pyarrow.compute.sum(found).as_py() or 0,
        n_unknown,
        len(withdrawn),
    )
    return found
