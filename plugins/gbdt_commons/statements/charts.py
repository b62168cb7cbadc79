"""Plots as inline SVG: a curve of two rates, and a bar for a share; no text of anybody else's goes in."""

from __future__ import annotations

from collections.abc import Sequence

_SIDE, _LEFT, _TOP = 300, 60, 10
"""Side of the plot, and the room for labels left of it and above, in SVG's units."""


def curve_svg(points: Sequence[tuple[float, float]], label: str) -> str:
    """A curve in the unit square, above the diagonal of pure chance.

    Parameters
    ----------
    points : sequence of (float, float)
        False and true positive rates; straight lines are drawn between them.
    label : str
        Description for readers who do not see the plot, without markup.
    """
    ticks = [k / 5 for k in range(6)]
    grid = "".join(
        f'<path class="grid" d="M{_x(t)} {_y(0)}V{_y(1)}M{_x(0)} {_y(t)}H{_x(1)}"/>'
        f'<text x="{_x(t)}" y="{_y(0) + 18}" text-anchor="middle">{t:.0%}</text>'
        f'<text x="{_x(0) - 6}" y="{_y(t) + 4}" text-anchor="end">{t:.0%}</text>'
        for t in ticks
    )
    line = "L".join(f"{_x(fpr)} {_y(tpr)}" for fpr, tpr in points)
    return (
        f'<svg class="curve" viewBox="0 0 {_LEFT + _SIDE + 24} {_TOP + _SIDE + 44}" role="img" '
        f'aria-label="{label}">{grid}'
        f'<path class="area" d="M{line}L{_x(1)} {_y(0)}L{_x(0)} {_y(0)}Z"/>'
        f'<path class="chance" d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}"/>'
        f'<path class="bound" d="M{line}"/>'
        f'<text x="{_x(0.5)}" y="{_y(0) + 38}" text-anchor="middle">false positive rate</text>'
        f'<text transform="translate(12 {_y(0.5)}) rotate(-90)" text-anchor="middle">true positive rate'
        "</text></svg>"
    )


def _x(rate: float) -> float:
    return round(_LEFT + _SIDE * rate, 2)


def _y(rate: float) -> float:
    return round(_TOP + _SIDE * (1 - rate), 2)


def bar_svg(share: float, kind: str) -> str:
    """A bar whose length is a share of the width; `kind` is the class that colours it."""
    return (
        '<svg class="bar" width="100%" height="14" aria-hidden="true"><rect class="whole" width="100%" '
        f'height="14"/><rect class="{kind}" width="{100 * share:.2f}%" height="14"/></svg>'
    )
