"""Markup that is escaped as it is made: a text becomes part of a page by `tag` alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from gbdt_commons.quoting import quoted
from gbdt_commons.statements.page import STYLE

PAGE_STYLE = (
    STYLE
    + """
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
pre { background: #f4f4f4; padding: .5rem .75rem; white-space: pre-wrap; font-size: .9rem; margin: .5rem 0; }
.drawing { display: block; width: 100%; max-width: 34rem; }
.cipher { stroke: #0b5394; fill: none; } .clear { stroke: #b45f06; fill: none; }
.of-cipher { fill: #0b5394; } .of-clear { fill: #b45f06; }
.line { fill: none; stroke: #0b5394; stroke-width: 2; }
.drawing text { paint-order: stroke; stroke: #fff; stroke-width: 3px; }
.axis { stroke: #777; fill: none; } .limit { stroke: #b3261e; stroke-dasharray: 5 4; fill: none; }
.box { fill: #f4f4f4; stroke: #777; }
.used { fill: #0b5394; } .noise { fill: #999; } .spent { fill: #b3261e; }
.mend { border-left: 6px solid #b3261e; background: #fdeceb; padding: .25rem .75rem; margin: .5rem 0; }
.gauge { width: 100%; max-width: 12rem; height: 14px; display: block; print-color-adjust: exact; }
details td:last-child { min-width: 14rem; }
summary { cursor: pointer; } :focus-visible { outline: 3px solid #0b5394; outline-offset: 2px; }
"""
)
"""Style of all pages of the command."""


class Markup(str):
    """Text that is HTML already; any other text is escaped where it joins one."""

    __slots__ = ()


def tag(name: str, *parts: object, **attributes: object) -> Markup:
    """An element with its parts, in which every attribute, and every part that is no markup, is escaped.

    In names of attributes an underscore is a hyphen, and one at the end nothing: ``class_``, ``aria_label``.
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{said}>{joined(parts)}</{name}>")


def joined(parts: Iterable[object]) -> Markup:
    """Parts beside each other; a text is escaped, and what could move text around it is shown by its code."""
    return Markup("".join(one if isinstance(one, Markup) else _escaped(one) for one in parts))


def table(rows: Iterable[Mapping[str, object]]) -> Markup:
    """Rows with the same keys, which are the head, in a box that scrolls by itself; empty without rows."""
    if not (rows := list(rows)):
        return Markup()
    head = tag("tr", *(tag("th", name, scope="col") for name in rows[0]))
    body = (tag("tr", *(tag("td", _shown(one)) for one in row.values())) for row in rows)
    filled = tag("table", tag("thead", head), tag("tbody", *body))
    return tag("div", filled, class_="wide", tabindex=0, role="region", aria_label="table")


def section(title: str, *parts: object) -> Markup:
    """A heading and what stands below it; empty if there is nothing."""
    body = joined(parts)
    return tag("section", tag("h2", title), body) if body else Markup()


def command(text: str) -> Markup:
    """A command to copy."""
    return tag("pre", tag("code", text), tabindex=0)


def spoken_bytes(n: float) -> str:
    """A number of bytes for people: ``"12.3 MB"``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            break
        n /= 1000
    return f"{n:.0f} bytes" if unit == "bytes" else f"{n:.3g} {unit}" if n < 1000 else f"{n:,.0f} {unit}"


def _shown(value: object) -> object:
    if isinstance(value, Markup):
        return value
    return f"{value:,}" if type(value) is int else f"{value:.4g}" if isinstance(value, float) else value


def _escaped(value: object) -> str:
    text = str(value)
    return escape(quoted(text, max(1, len(text))))
