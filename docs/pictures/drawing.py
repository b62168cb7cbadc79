"""Small drawings as SVG whose words stay words: boxes, arrows and lines of text on white.

A drawing is 460 units wide, so that it can be read on a telephone, and brings its own background for the dark
theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH = 460
INK, QUIET, SAFE, RISK = "#222222", "#5A5A5A", "#1B6E3C", "#A33A12"
OURS, THEIRS, SHARED = "#FBE3E0", "#E0ECFB", "#F1F1F1"
SIZE = 13

Point = tuple[float, float]


class Drawing:
    """A drawing that grows by its methods; `svg` is its text.

    Parameters
    ----------
    height : int
    title : str
        Shown by browsers that open the file alone.
    """

    def __init__(self, height: int, title: str) -> None:
        head = '<path d="M0 0 8 4 0 8z" fill="context-stroke"/>'
        self._height = height
        self._lines = [
            f"<title>{escape(title)}</title>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            f'markerUnits="userSpaceOnUse" orient="auto">{head}</marker></defs>',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        ]

    def text(
        self,
        at: Point,
        words: str,
        *,
        anchor: str = "middle",
        color: str = INK,
        size: float = SIZE,
        bold: bool = False,
    ) -> None:
        """A line of words, with its baseline `at` a point."""
        weight = ' font-weight="bold"' if bold else ""
        place = f'x="{at[0]:g}" y="{at[1]:g}" text-anchor="{anchor}" font-size="{size:g}" fill="{color}"'
        self._lines.append(f"<text {place}{weight}>{escape(words)}</text>")

    def box(
        self,
        corner: Point,
        size: Point,
        fill: str,
        title: str,
        lines: Sequence[str] = (),
        *,
        dashed: bool = False,
    ) -> None:
        """A box with a title in its middle, and lines of words below it."""
        (x, y), (width, height) = corner, size
        border = ' stroke-dasharray="5 4"' if dashed else ""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7"'
        self._lines.append(f'<rect {place} fill="{fill}" stroke="{INK}"{border}/>')
        self.text((x + width / 2, y + 20), title, bold=True)
        for k, line in enumerate(lines):
            self.text((x + width / 2, y + 39 + 17 * k), line, size=12)

    def arrow(
        self,
        start: Point,
        end: Point,
        above: str = "",
        below: str = "",
        *,
        color: str = INK,
        note: str = QUIET,
    ) -> None:
        """An arrow, with words above and below its middle."""
        (x, y), (to_x, to_y) = start, end
        self._lines.append(
            f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" stroke="{color}" stroke-width="1.6" '
            'marker-end="url(#head)"/>'
        )
        middle = (x + to_x) / 2, (y + to_y) / 2
        if above:
            self.text((middle[0], middle[1] - 6), above, size=12.5)
        if below:
            self.text((middle[0], middle[1] + 15), below, size=12, color=note)

    def svg(self) -> str:
        """The drawing's file."""
        frame = f'width="{WIDTH}" height="{self._height}" viewBox="0 0 {WIDTH} {self._height}"'
        family = 'font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"'
        opening = f'<svg xmlns="http://www.w3.org/2000/svg" {frame} {family} role="img">'
        return "\n".join([opening, *self._lines, "</svg>"]) + "\n"


Flight = tuple[bool, str, str]
"""Whether it goes to the right, what goes, and how."""


def exchange(
    title: str, left: tuple[str, Sequence[str]], right: tuple[str, Sequence[str]], flights: Sequence[Flight]
) -> Drawing:
    """Two parties, each with what stays there, and the flights between them, from the first one downwards."""
    height = 34 + 56 * len(flights)
    drawing = Drawing(height, title)
    ends = {True: (123, 337), False: (337, 123)}
    for (name, stays), x, fill in ((left, 4, OURS), (right, 341, THEIRS)):
        drawing.box((x, 4), (115, height - 8), fill, name, ["stays here:", *stays])
    for k, (to_right, what, how) in enumerate(flights):
        start, end = ends[to_right]
        drawing.arrow((start, 48 + 56 * k), (end, 48 + 56 * k), what, how)
    return drawing
