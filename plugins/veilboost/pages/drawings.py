"""Small drawings as SVG, each with an alternative text: curves, staircases, gauges, who sent to whom."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from veilboost.pages.markup import Markup, joined, spoken_bytes, tag

MAX_DRAWN = 12
"""Parties in a drawing of traffic; more would hide each other."""

_WIDTH, _HEIGHT, _LEFT, _TOP = 330.0, 130.0, 54.0, 10.0
_KEY = (("cipher", "mostly ciphertexts"), ("clear", "mostly in clear or masked"))


class Arrow(NamedTuple):
    """Bytes from one party to another, None if not counted, and how many of them are ciphertexts."""

    sender: str
    receiver: str
    n_bytes: int | None = None
    n_cipher: int = 0

    @property
    def kind(self) -> str:
        """The class that colours it."""
        return "cipher" if self.n_bytes and 2 * self.n_cipher > self.n_bytes else "clear"

    @property
    def amount(self) -> str:
        """The bytes in words; empty if they were not counted."""
        return "" if self.n_bytes is None else spoken_bytes(self.n_bytes)


def chart(
    label: str,
    points: Sequence[tuple[float, ...]],
    ends: tuple[str, str],
    is_staircase: bool = False,
    limit: float | None = None,
) -> Markup:
    """A curve of points that ascend in the first number; empty if none has two finite ones.

    A third number says how far a band reaches on either side.  The label is the alternative text, and `ends`
    are words below the curve's ends.  A staircase holds its value up to the next point, and its axis begins
    at 0; a limit is drawn as a line.
    """
    points = [point for point in points if all(map(math.isfinite, point))]
    if not points:
        return Markup()
    triples = [(*point, 0.0)[:3] for point in points]
    edge = [(x, y + reach) for x, y, reach in triples] + [(x, y - reach) for x, y, reach in triples[::-1]]
    xs, ys, _ = zip(*triples, strict=True)
    low = 0.0 if is_staircase else min(y for _, y in edge)
    high = max([*(y for _, y in edge), *([] if limit is None else [limit])])
    high = high if high > low else low + 1.0

    def across(x: float) -> float:
        return round(_LEFT + _WIDTH * ((x - xs[0]) / (xs[-1] - xs[0]) if xs[-1] > xs[0] else 1.0), 1)

    def down(y: float) -> float:
        return round(_TOP + _HEIGHT * (1 - (y - low) / (high - low)), 1)

    step = "H{} V{} " if is_staircase else "L{} {}"
    begin = f"M{across(xs[0])} {down(low if is_staircase else ys[0])}"
    path = begin + "".join(step.format(across(x), down(y)) for x, y, _ in triples)
    area = "L".join(f"{across(x)} {down(y)}" for x, y in edge)
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    parts = [
        tag("path", class_="axis", d=f"M{_LEFT} {_TOP}V{bottom}H{right}"),
        *([tag("path", class_="area", d=f"M{area}Z")] if any(reach for *_, reach in triples) else []),
        tag("path", class_="line", d=path),
        tag("text", f"{high:.4g}", x=_LEFT - 5, y=_TOP + 8, text_anchor="end"),
        tag("text", f"{low:.4g}", x=_LEFT - 5, y=bottom, text_anchor="end"),
        tag("text", ends[0], x=_LEFT, y=bottom + 16),
        tag("text", ends[1], x=right, y=bottom + 16, text_anchor="end"),
    ]
    if limit is not None and math.isfinite(limit):
        parts.append(tag("path", class_="limit", d=f"M{_LEFT} {down(limit)}H{right}"))
    return _drawing(label, _LEFT + _WIDTH + 6, bottom + 22, parts)


def gauge(label: str, used: float, most: float) -> Markup:
    """How much of a limit is used, as a bar."""
    share = min(1.0, max(0.0, used / most)) if most > 0 else 1.0
    whole = tag("rect", class_="whole", width="100%", height=14)
    part = tag("rect", class_="spent" if share >= 1 else "used", width=f"{100 * share:.1f}%", height=14)
    return tag("svg", whole, part, class_="gauge", role="img", aria_label=f"{label}: {share:.0%} used")


def marked_bar(share: float, mark: float, kind: str) -> Markup:
    """A bar of a share of the width, with a line at another share; `kind` is the class that colours it."""
    whole = tag("rect", class_="whole", width="100%", height=14)
    part = tag("rect", class_=kind, width=f"{100 * share:.1f}%", height=14)
    line = tag("rect", class_="spent", x=f"{min(100 * mark, 99):.1f}%", width=2, height=14)
    return tag("svg", whole, part, line, class_="bar", width="100%", height=14, aria_hidden="true")


def traffic(flows: Sequence[Arrow]) -> Markup:
    """Parties on a ring, with an arrow for each direction in which something was sent: thicker for more."""
    names = list(dict.fromkeys(name for flow in flows for name in (flow.sender, flow.receiver)))
    if not 2 <= len(names) <= MAX_DRAWN:
        return Markup()
    height = 150.0 if len(names) == 2 else 260.0
    turns = (k / len(names) + (0.5 if len(names) == 2 else -0.25) for k in range(len(names)))
    ring = [complex(135 * math.cos(math.tau * t), (height / 2 - 38) * math.sin(math.tau * t)) for t in turns]
    places = {name: complex(200, height / 2 - 8) + place for name, place in zip(names, ring, strict=True)}
    arrows = (_arrow(one, places) for one in flows if one.sender != one.receiver)
    boxes = (_box(name, place) for name, place in places.items())
    keys = _KEY if any(flow.n_bytes is not None for flow in flows) else ()
    key = (
        tag("text", tag("tspan", "■ ", class_=f"of-{kind}"), text, x=4 + 130 * k, y=height - 4)
        for k, (kind, text) in enumerate(keys)
    )
    said = (f"{one.sender} to {one.receiver}: {one.amount or 'not counted'}" for one in flows)
    heads = tag("defs", *(_head(kind) for kind, _ in _KEY))
    return _drawing(f"Traffic: {'; '.join(said)}", 400, height, [heads, *arrows, *boxes, *key])


def _head(kind: str) -> Markup:
    shape = tag("path", d="M0 0L6 3L0 6Z", class_=f"of-{kind}")
    size = {"markerWidth": 12, "markerHeight": 12, "markerUnits": "userSpaceOnUse", "viewBox": "0 0 6 6"}
    return tag("marker", shape, id=f"to-{kind}", refX=5, refY=3, orient="auto", **size)


def _box(name: str, place: complex) -> Markup:
    x, y, short = place.real, place.imag, name if len(name) <= 16 else f"{name[:15]}…"
    shape = tag("rect", x=x - 56, y=y - 13, width=112, height=26, rx=5, class_="box")
    return tag("g", tag("title", name), shape, tag("text", short, x=x, y=y + 4, text_anchor="middle"))


def _arrow(flow: Arrow, places: Mapping[str, complex]) -> Markup:
    """An arc between the edges of two boxes, bent to the left, so that both directions are seen."""
    start, end = places[flow.sender], places[flow.receiver]
    side = -1j * (end - start) / abs(end - start)
    bend = (start + end) / 2 + 34 * side
    begin, stop = _edge(start, bend), _edge(end, bend)
    numbers = (f"{part:.1f}" for point in (begin, bend, stop) for part in (point.real, point.imag))
    path = tag(
        "path",
        d="M{} {}Q{} {} {} {}".format(*numbers),
        class_=flow.kind,
        stroke_width=f"{min(6.0, 1.5 + 0.6 * math.log10(1 + (flow.n_bytes or 0))):.1f}",
        marker_end=f"url(#to-{flow.kind})",
    )
    # Beyond the middle, so that the labels of both directions do not meet.
    at = 0.45 * start + 0.55 * end + 27 * side
    label = tag("text", flow.amount, x=f"{at.real:.1f}", y=f"{at.imag + 4:.1f}", text_anchor="middle")
    return joined([path, label])


def _edge(box: complex, towards: complex) -> complex:
    """The point where a line from the middle of a box leaves it."""
    way = towards - box
    return box + way * min(60 / max(abs(way.real), 1e-9), 17 / max(abs(way.imag), 1e-9))


def _drawing(label: str, width: float, height: float, parts: Sequence[Markup]) -> Markup:
    return tag("svg", *parts, class_="drawing", viewBox=f"0 0 {width} {height}", role="img", aria_label=label)


def flows_of(rows: Sequence[Mapping[str, object]]) -> list[Arrow]:
    """Flows between pairs, from rows of a table of traffic, or of what leaves whom."""
    counts = ("bytes", "ciphertext_bytes") if any("bytes" in row for row in rows) else ()
    sums: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        of_pair = sums.setdefault((str(row["from"]), str(row["to"])), [0] * len(counts))
        of_pair[:] = [so_far + int(str(row[name])) for so_far, name in zip(of_pair, counts, strict=True)]
    return [Arrow(*pair, *of_pair) for pair, of_pair in sums.items()]
