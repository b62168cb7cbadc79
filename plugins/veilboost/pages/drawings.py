"""Small drawings as SVG, each with an alternative text: curves, staircases, gauges, who sent to whom."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from veilboost.pages.markup import Markup, joined, spoken_bytes, tag

MAX_DRAWN = 12
"""Parties in a drawing of traffic; more would hide each other."""

_WIDTH, _HEIGHT, _LEFT, _TOP = 330.0, 130.0, 54.0, 10.0
_KEY = (("cipher", "mostly ciphertexts"), ("clear", "mostly in clear"))


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


def chart(
    label: str,
    points: Sequence[tuple[float, float]],
    ends: tuple[str, str],
    is_staircase: bool = False,
    limit: float | None = None,
) -> Markup:
    """A curve with what its axes begin and end with; empty if no point has two finite numbers.

    Parameters
    ----------
    label : str
        Alternative text.
    points : sequence of (float, float)
        Ascending in the first number.
    ends : (str, str)
        Words at the ends of the lower axis.
    is_staircase : bool
        Whether a value holds up to the next point, rather than changing evenly.  Its axis begins at 0.
    limit : float, optional
        A line that the curve may not cross.
    """
    points = [point for point in points if all(map(math.isfinite, point))]
    if not points:
        return Markup()
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low = 0.0 if is_staircase else min(ys)
    high = max([*ys, *([] if limit is None else [limit])])
    high = high if high > low else low + 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - xs[0]) / (xs[-1] - xs[0]) if xs[-1] > xs[0] else 1.0
        return round(_LEFT + _WIDTH * across, 1), round(_TOP + _HEIGHT * (1 - (y - low) / (high - low)), 1)

    steps = [
        f"M{place(xs[0], 0.0 if is_staircase else ys[0])}",
        *(_to(*place(*p), is_staircase) for p in points),
    ]
    path = "".join(steps).replace("(", "").replace(")", "").replace(",", "")
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    parts = [
        tag("path", class_="axis", d=f"M{_LEFT} {_TOP}V{bottom}H{right}"),
        tag("path", class_="line", d=path),
        tag("text", f"{high:.4g}", x=_LEFT - 5, y=_TOP + 8, text_anchor="end"),
        tag("text", f"{low:.4g}", x=_LEFT - 5, y=bottom, text_anchor="end"),
        tag("text", ends[0], x=_LEFT, y=bottom + 16),
        tag("text", ends[1], x=right, y=bottom + 16, text_anchor="end"),
    ]
    if limit is not None and math.isfinite(limit):
        y = place(xs[0], limit)[1]
        parts.append(tag("path", class_="limit", d=f"M{_LEFT} {y}H{right}"))
    return _drawing(label, _LEFT + _WIDTH + 6, bottom + 22, parts)


def gauge(label: str, used: float, most: float) -> Markup:
    """How much of a limit is used, as a bar."""
    share = min(1.0, max(0.0, used / most)) if most > 0 else 1.0
    whole = tag("rect", class_="whole", width="100%", height=14)
    part = tag("rect", class_="spent" if share >= 1 else "used", width=f"{100 * share:.1f}%", height=14)
    return tag("svg", whole, part, class_="gauge", role="img", aria_label=f"{label}: {share:.0%} used")


def traffic(flows: Sequence[Arrow]) -> Markup:
    """Parties on a ring, with an arrow for each direction in which something was sent: thicker for more."""
    names = list(dict.fromkeys(name for flow in flows for name in (flow.sender, flow.receiver)))
    if not 2 <= len(names) <= MAX_DRAWN:
        return Markup()
    height = 150.0 if len(names) == 2 else 260.0
    places = {name: _on_ring(k, len(names), height) for k, name in enumerate(names)}
    heads = (_head(kind) for kind, _ in _KEY)
    boxes = (_box(name, *places[name]) for name in names)
    arrows = (
        _arrow(flow, places[flow.sender], places[flow.receiver])
        for flow in flows
        if flow.sender != flow.receiver
    )
    known = any(flow.n_bytes is not None for flow in flows)
    key = (
        tag("text", tag("tspan", "■ ", class_=f"of-{kind}"), text, x=4 + 130 * k, y=height - 4)
        for k, (kind, text) in enumerate(_KEY)
        if known
    )
    label = "; ".join(f"{one.sender} to {one.receiver}{_amount(one)}" for one in flows)
    return _drawing(f"Traffic: {label}", 400, height, [tag("defs", *heads), *arrows, *boxes, *key])


def _amount(flow: Arrow) -> str:
    return "" if flow.n_bytes is None else f": {spoken_bytes(flow.n_bytes)}"


def _to(x: float, y: float, is_staircase: bool) -> str:
    return f"H{x} V{y} " if is_staircase else f"L{x} {y}"


def _on_ring(k: int, n: int, height: float) -> tuple[float, float]:
    angle = 2 * math.pi * (k / n + (0.5 if n == 2 else -0.25))
    return round(200 + 135 * math.cos(angle), 1), round(
        height / 2 - 8 + (height / 2 - 38) * math.sin(angle), 1
    )


def _head(kind: str) -> Markup:
    shape = tag("path", d="M0 0L6 3L0 6Z", class_=f"of-{kind}")
    return tag(
        "marker",
        shape,
        id=f"to-{kind}",
        markerWidth=12,
        markerHeight=12,
        refX=5,
        refY=3,
        orient="auto",
        markerUnits="userSpaceOnUse",
        viewBox="0 0 6 6",
    )


def _box(name: str, x: float, y: float) -> Markup:
    short = name if len(name) <= 16 else f"{name[:15]}…"
    shape = tag("rect", x=x - 56, y=y - 13, width=112, height=26, rx=5, class_="box")
    return tag("g", tag("title", name), shape, tag("text", short, x=x, y=y + 4, text_anchor="middle"))


def _arrow(flow: Arrow, start: tuple[float, float], end: tuple[float, float]) -> Markup:
    """An arc between the edges of two boxes, bent to the left, so that both directions are seen."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy)
    side = (dy / length, -dx / length)
    middle = ((start[0] + end[0]) / 2 + 34 * side[0], (start[1] + end[1]) / 2 + 34 * side[1])
    begin, stop = _edge(start, middle), _edge(end, middle)
    numbers = [round(one, 1) for one in (*begin, *middle, *stop)]
    width = 1.5 if not flow.n_bytes else min(6.0, 1 + 0.6 * math.log10(1 + flow.n_bytes))
    path = tag(
        "path",
        d="M{} {}Q{} {} {} {}".format(*numbers),
        class_=flow.kind,
        stroke_width=round(width, 1),
        marker_end=f"url(#to-{flow.kind})",
    )
    if flow.n_bytes is None:
        return path
    # Beyond the middle, so that the labels of both directions do not meet.
    x, y = (round(0.45 * start[k] + 0.55 * end[k] + 27 * side[k], 1) for k in range(2))
    return joined([path, tag("text", spoken_bytes(flow.n_bytes), x=x, y=y + 4, text_anchor="middle")])


def _edge(box: tuple[float, float], towards: tuple[float, float]) -> tuple[float, float]:
    """The point where a line from the middle of a box leaves it."""
    dx, dy = towards[0] - box[0], towards[1] - box[1]
    share = min(60 / abs(dx) if dx else math.inf, 17 / abs(dy) if dy else math.inf)
    return box[0] + share * dx, box[1] + share * dy


def _drawing(label: str, width: float, height: float, parts: Sequence[Markup]) -> Markup:
    return tag("svg", *parts, class_="drawing", viewBox=f"0 0 {width} {height}", role="img", aria_label=label)


def flows_of(rows: Sequence[Mapping[str, object]]) -> list[Arrow]:
    """Flows between pairs, from rows of a table of traffic, or of what leaves whom."""
    sums: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        pair = str(row["from"]), str(row["to"])
        of_pair = sums.setdefault(pair, [0, 0])
        for k, name in enumerate(("bytes", "ciphertext_bytes")):
            of_pair[k] += int(str(row.get(name, 0)))
    counted = any("bytes" in row for row in rows)
    return [Arrow(*pair, *(counts if counted else ())) for pair, counts in sums.items()]
