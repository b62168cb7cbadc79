"""Parts of a page in HTML that needs nothing beside itself: no script, no link, no picture from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from gbdt_commons.html_tables import html_table

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 52rem;
  margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid #bbb; break-after: avoid; }
.verdict { border: 2px solid; border-left-width: 12px; padding: .75rem 1rem; margin: 0 0 1.25rem; }
.verdict > :last-child { margin-bottom: 0; }
.verdict h1 + ul { margin-top: 0; }
.guarantee { border-color: #1b7340; background: #eef7f1; }
.void { border-color: #b3261e; background: #fdeceb; }
.weak, .none { border-color: #96610a; background: #fdf5e6; }
p.what { color: #555; margin: 0 0 .5rem; }
.wide { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; overflow-wrap: normal; }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .75rem .25rem 0; vertical-align: top;
  text-align: left; }
th { white-space: nowrap; }
td { font-variant-numeric: tabular-nums; text-align: left !important; }
.number { white-space: nowrap; }
.facts th { width: 14rem; font-weight: 600; white-space: normal; }
.facts td { overflow-wrap: anywhere; }
.bars td { overflow-wrap: break-word; }
tr, figure, .verdict, .signature { break-inside: avoid; }
figure { margin: .5rem 0; }
svg text { font: 12px system-ui, sans-serif; fill: #333; }
.curve { display: block; width: 100%; max-width: 26rem; margin: 0 auto; }
.grid { stroke: #ddd; fill: none; }
.chance { stroke: #777; stroke-dasharray: 5 4; fill: none; }
.bound { stroke: #0b5394; stroke-width: 2.5; fill: none; }
.area { fill: #0b5394; fill-opacity: .1; }
.bars td:nth-child(2) { width: 45%; min-width: 5rem; }
.bars td:nth-child(3) { white-space: nowrap; }
.bar { display: block; margin-top: .3rem; }
.whole { fill: #eee; }
.epsilon { fill: #0b5394; }
.mu { fill: #b45f06; }
.signature td { border-bottom: 1px solid #333; height: 2.5rem; width: 60%; }
.signature th { vertical-align: bottom; border-bottom: 0; }
@media (max-width: 480px) { th { white-space: normal; }
  .wide td:first-child { overflow-wrap: anywhere; min-width: 6.5rem; }
  .facts tr, .bars tr { display: block; padding: .25rem 0; border-bottom: 1px solid #ddd; }
  .facts th, .facts td, .bars td:nth-child(n) { display: block; width: auto; border: 0; padding: 0; } }
@media print { body { font-size: 10.5pt; max-width: none; padding: 0; }
  .verdict, .bar { print-color-adjust: exact; } .wide { overflow: visible; }
  .curve { max-width: 10cm; } }
@page { margin: 18mm; }
"""
"""Style of statements, for screens and paper."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html_page(title: str, parts: Sequence[str], style: str = STYLE) -> str:
    """A page of parts in HTML; the browser is forbidden to load or to run anything."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def html_words(text: str) -> str:
    """A text in which no number such as 1e-05 is broken at the end of a line."""
    return re.sub(r"\d[\d.]*e[-+]\d+", r'<span class="number">\g<0></span>', escape(text))


def html_section(title: str, *parts: str) -> str:
    """A heading and what stands below it; empty if there is nothing."""
    body = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def html_facts(facts: Mapping[str, object]) -> str:
    """Names and values, one below the other; empty without any."""
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(shown(v))}</td></tr>" for k, v in facts.items())
    return f'<table class="facts"><tbody>{rows}</tbody></table>' if rows else ""


def html_wide_table(rows: Sequence[Mapping[str, object]]) -> str:
    """A table that scrolls by itself where the screen is narrow; empty if there are no rows."""
    return f'<div class="wide">{html_table(rows)}</div>' if rows else ""


def html_bars(rows: Sequence[tuple[str, str, str]]) -> str:
    """A label, a bar as SVG, and a value in words on each line; empty without any."""
    cells = "".join(
        f"<tr><td>{escape(label)}</td><td>{bar}</td><td>{escape(value)}</td></tr>"
        for label, bar, value in rows
    )
    return f'<table class="bars"><tbody>{cells}</tbody></table>' if cells else ""


def html_signature(lines: Sequence[str]) -> str:
    """Lines to write on."""
    rows = "".join(f"<tr><th>{escape(line)}</th><td></td></tr>" for line in lines)
    return f'<table class="signature"><tbody>{rows}</tbody></table>'


def shown(value: object) -> str:
    """A value for a reader: numbers with six digits."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
