"""Names of rows by which organisations recognise each other's: one way to write each, and each once.

An id is compared by its bytes in UTF-8.  Two texts that a person reads as one (a letter with its accent as
one character or as two, a blank at the end) would be different ids, and rows would be missing from an
alignment without a word; so an id that is not written in the one canonical way is refused, and not silently
changed.  Canonical is a text that

* is not empty, and printable: no control, zero-width or line-breaking character, and no blank but " ";
* has no blank at its beginning or end;
* is in Unicode's normalisation form C.

What is left, such as "7" and "007", or letters of different case, are different ids.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from gbdt_parties.errors import InvalidDataError


def fault_of(one: object) -> str | None:
    """Why a value is not a canonical id; None if it is one.  The text does not quote it."""
    if not isinstance(one, str):
        return f"is of type {type(one).__name__}, not a text; write it as one, in the same way at every party"
    if not one:
        return "is empty"
    if not one.isprintable():
        return "has a character that is not printable: a control character, a line break, or a special blank"
    if one[0] == " " or one[-1] == " ":
        return "has a blank at its beginning or end"
    if not unicodedata.is_normalized("NFC", one):
        return "is not in Unicode's normalisation form C (unicodedata.normalize('NFC', ...))"
    return None


def check_ids(ids: Sequence[object], shown: str) -> list[str]:
    """Check that ids are canonical and different.

    Parameters
    ----------
    ids : sequence
    shown : str
        What errors call them.

    Returns
    -------
    list of str

    Raises
    ------
    InvalidDataError
        Naming the position, counted from 1, and what is wrong there; no id is quoted.
    """
    checked: list[str] = []
    for k, one in enumerate(ids):
        fault = fault_of(one)
        if fault is not None:
            raise InvalidDataError(f"{shown}: id {k + 1} of {len(ids)} {fault}")
        checked.append(str(one))
    if not checked:
        raise InvalidDataError(f"{shown}: there are no ids")
    if len(set(checked)) != len(checked):
        raise InvalidDataError(f"{shown}: {len(checked)} ids, of which {len(set(checked))} are different")
    return checked
