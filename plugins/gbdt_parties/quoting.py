"""Words of another party, made fit to be shown: in an exception, on a terminal, in a record."""

from __future__ import annotations

MAX_CHARACTERS = 200


def quoted(text: str, most: int = MAX_CHARACTERS) -> str:
    r"""Cut a text, and escape what is not printable.

    Line ends, terminal escapes and marks that reverse the direction of writing become ``\n``, ``\x1b``,
    ``\u202e``: whoever sent the text draws nothing but its own words, on the line they are on.

    Parameters
    ----------
    text : str
    most : int
        Characters of the text that are kept; the rest becomes three dots.
    """
    kept = text[:most]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in kept)
    return shown if len(text) <= most else shown + "..."
