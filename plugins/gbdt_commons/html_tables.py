"""Tables in HTML, for notebooks: every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def html_table(rows: Sequence[Mapping[str, object]]) -> str:
    """A table of rows that have the same keys, which are its head; empty without any."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(f"<tr>{''.join(_cell(value) for value in row.values())}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_list(lines: Iterable[str]) -> str:
    """A list of lines; empty without any."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def html_paragraph(text: str) -> str:
    """A line of its own."""
    return f"<p>{escape(text)}</p>"


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f'<td style="text-align: left">{escape(str(value))}</td>'
    text = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    return f'<td style="text-align: right">{text}</td>'
