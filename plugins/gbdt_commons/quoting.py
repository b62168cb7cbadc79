"""Texts of another party, made safe to show in an exception, on a terminal or in a record."""

from __future__ import annotations

import reprlib
from typing import Any

MAX_CHARACTERS = 200


def quoted(text: str, max_characters: int = MAX_CHARACTERS) -> str:
    r"""Cut a text, and escape what is not printable.

    Line ends, terminal escapes and marks that reverse the direction of writing become ``\n``, ``\x1b``,
    ``\u202e``: the sender of a text can show nothing but that text, on its own line.

    Parameters
    ----------
    text : str
    max_characters : int
        Characters of the text that are kept; the rest becomes three dots.
    """
    kept = text[:max_characters]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in kept)
    return shown if len(text) <= max_characters else shown + "..."


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, MAX_CHARACTERS, MAX_CHARACTERS
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 10


def shown(value: Any) -> str:
    """A value that is refused as Python writes it, short however large it is: it may be another party's."""
    return quoted(_SHORT.repr(value), 2 * MAX_CHARACTERS)
