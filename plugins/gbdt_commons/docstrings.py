"""Docstrings made of others', which are the same on every version of Python.

Since Python 3.13 the compiler takes the indentation of docstrings away, so nothing here depends on it; with
``python -OO`` there are none.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping


def with_words_replaced(doc: str | None, replacements: Mapping[str, str]) -> str | None:
    """Replace words of a docstring.

    Parameters
    ----------
    doc : str or None
        None where Python removes docstrings.
    replacements : mapping
        Words that the docstring has once, and what comes in their place, both without the indentation of the
        docstring's own place.

    Returns
    -------
    str or None
        The docstring without the indentation of its place.

    Raises
    ------
    ValueError
        If it does not have the words once.
    """
    if doc is None:
        return None
    text = inspect.cleandoc(doc)
    for words, replacement in replacements.items():
        if text.count(words) != 1:
            raise ValueError(f"a docstring has {words!r} {text.count(words)} times, not once")
        text = text.replace(words, replacement)
    return text
