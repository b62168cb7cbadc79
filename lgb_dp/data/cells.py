"""Cells of categorical columns as numbers: the one function that says which category a cell is.

A cell's category depends on that cell and on what was declared, and never on the data type of its column,
which another row can change: one text among numbers makes a column of pandas an object one, and one missing
cell turns integers and truth values into something else.  No cell raises an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.tables.frames import plain_value

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_PLAIN = frozenset({str, float, bool, type(None)})


def are_codes(values: Iterable[Any]) -> bool:
    """Whether declared categories, as `plain_value` gives them, are integers as LightGBM's."""
    return all(isinstance(v, (int, float)) and 0 <= v < 2**31 and float(v).is_integer() for v in values)


def number_of(cell: Any) -> float:
    """The number that a cell holds, rounded to float64 whatever its type; NaN if it holds none."""
    try:
        if isinstance(cell, (complex, np.complexfloating)):  # one of which makes its whole column complex
            cell = cell.real if cell.imag == 0 else None
        if isinstance(cell, (float, int, np.bool_, np.number)) and not isinstance(cell, np.timedelta64):
            return float(cell)
    except Exception:  # whatever a cell's own conversion raises, such as an integer beyond float64
        pass
    return float("nan")


def category_key(cell: Any) -> Any:
    """Key that cells of the same category share: a number, or a text; None for a missing one."""
    if isinstance(cell, str):
        return str(cell)
    try:
        number = number_of(cell)
        if number == number:
            return number
        plain = plain_value(cell)
    except Exception:  # whatever a cell's own conversion to text raises
        return None
    return plain if isinstance(plain, str) else None


def is_date(category: Any) -> bool:
    """Whether a category, as `plain_value` gives it, is a date."""
    return isinstance(category, str) and _DATE.fullmatch(category) is not None


def codes_by_value(categories: Sequence[Any]) -> dict[Any, float]:
    """The code of each category, its position, by the key of the cells that hold it."""
    codes = {category_key(value): float(code) for code, value in enumerate(categories)}
    codes.pop(None, None)
    for value in filter(is_date, categories):
        codes.setdefault(f"{value} 00:00:00", codes[value])  # libraries without dates have midnights
    return codes


def codes_of_cells(cells: Iterable[Any], known: Mapping[Any, float]) -> NDArray[np.float64]:
    """The code of each cell's category by `codes_by_value`, NaN for one that is missing or not known."""
    cells = list(cells)
    if not {*map(type, cells)} <= _PLAIN:
        cells = [category_key(cell) for cell in cells]
    return np.array([known.get(cell, np.nan) for cell in cells], dtype=np.float64)


def codes_of_numbers(numbers: NDArray[np.float64], known: Mapping[Any, float]) -> NDArray[np.float64]:
    """The same for cells that are all numbers."""
    distinct, place = np.unique(numbers, return_inverse=True)
    return np.asarray(codes_of_cells(distinct.tolist(), known)[place.reshape(-1)])


def numbers_of_cells(cells: Iterable[Any]) -> NDArray[np.float64]:
    """The number that each cell holds, NaN for one that holds none."""
    return np.array([number_of(cell) for cell in cells], dtype=np.float64)
