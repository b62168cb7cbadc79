"""Names of rows by which organisations recognise each other's: one way to write each, and each once.

An id is compared by its bytes in UTF-8.  Two texts that a person reads as one (a letter with its accent as
one character or as two, a blank at the end) would be different ids, and rows would be missing from an
alignment without a word; so an id that is not written in the one canonical way is refused, and not silently
changed.  Canonical is a text that

* is not empty, and printable: no control or line-breaking character, and no blank but " ";
* has no character that is not shown, or is shown as a blank (`_NOT_SHOWN`);
* has no blank at its beginning or end;
* is in Unicode's normalisation form KC: in form C, and without compatibility characters such as full-width
  digits, ligatures and superscripts.

The following ids remain different: "7" and "007", letters of different case, and letters of different
scripts, such as Latin and Cyrillic "a", although some of them look alike.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from gbdt_parties.errors import InvalidDataError

_NOT_SHOWN = re.compile(
    # Default_Ignorable_Code_Point in DerivedCoreProperties.txt of Unicode 16.0.
    "[\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    # Others that are shown as blanks, by their names in UnicodeData.txt: Braille pattern blank, Egyptian
    # hieroglyph full and half blank, Khitan small script filler, musical symbol null notehead.
    "\u2800\U00013441-\U00013442\U00016fe4\U0001d159]"
)


def fault_of(one: object) -> str | None:
    """Why a value is not a canonical id; None if it is one.  The text does not quote it."""
    if not isinstance(one, str):
        return f"is of type {type(one).__name__}, not a text; write it as one, in the same way at every party"
    if not one:
        return "is empty"
    if not one.isprintable():
        return "has a character that is not printable: a control character, a line break, or a special blank"
    if _NOT_SHOWN.search(one):
        return "has a character that is not shown, or only as a blank, such as a variation selector"
    if one[0] == " " or one[-1] == " ":
        return "has a blank at its beginning or end"
    if not unicodedata.is_normalized("NFC", one):
        return "is not in Unicode's normalisation form C (unicodedata.normalize('NFC', ...))"
    if not unicodedata.is_normalized("NFKC", one):
        return (
            "has a compatibility character, such as a full-width digit or a ligature "
            "(unicodedata.normalize('NFKC', ...))"
        )
    return None


_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
FORMS: dict[str, re.Pattern[str]] = {
    "text of mixed forms": re.compile("(?!)"),
    "integers": re.compile("-?(0|[1-9][0-9]*)"),
    "integers with leading zeros": re.compile("0[0-9]+"),
    "decimal numbers": re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?"),
    "UUIDs in lower case": re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "UUIDs in upper case": re.compile("[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}"),
    "UUIDs without hyphens": re.compile("[0-9a-fA-F]{32}"),
    "dates": re.compile(_DAY),
    "times with a T": re.compile(f"{_DAY}T.*"),
    "times with a blank": re.compile(f"{_DAY} .*"),
    "text in lower case": re.compile("(?=.*[a-z])[^A-Z]*"),
    "text in upper case": re.compile("(?=.*[A-Z])[^a-z]*"),
}
"""Ways to write ids, by the words for them; messages have their places, and the first that fits counts."""

_N_LOOKED_AT = 1000


def form_of(ids: Sequence[str]) -> str:
    """The form in which more than half of the ids are written, of some a thousand that are spread evenly.

    No single id can change what a party tells of its ids by it, unless they are split in half.
    """
    some = ids[:: -(-len(ids) // _N_LOOKED_AT) or 1]
    for form, pattern in FORMS.items():
        if 2 * sum(pattern.fullmatch(one) is not None for one in some) > len(some):
            return form
    return next(iter(FORMS))


def check_ids(ids: Sequence[object], shown: str) -> list[str]:
    """Check that ids, which errors call `shown`, are canonical and different.

    Raises `InvalidDataError` naming the position, counted from 1, and what is wrong there; no id is quoted.
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
        raise InvalidDataError(f"{shown}: {len(checked)} ids, but only {len(set(checked))} different ones")
    return checked
