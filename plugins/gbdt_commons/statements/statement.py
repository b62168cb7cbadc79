"""The statement about one model: facts that were collected, as a page, as JSON and as a registry's record."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from pathlib import Path
from typing import Any, Literal

import yaml

from gbdt_commons.files import write_atomically
from gbdt_commons.html_tables import html_list, html_paragraph
from gbdt_commons.statements.page import (
    html_bars,
    html_facts,
    html_page,
    html_section,
    html_signature,
    html_wide_table,
    html_words,
)

_SIDE, _LEFT, _TOP = 300, 60, 10
"""Side of the plot, and the room for labels left of it and above, in SVG's units."""


def curve_svg(points: Sequence[tuple[float, float]], label: str) -> str:
    """A curve in the unit square, above the diagonal of pure chance.

    `points` are false and true positive rates, with straight lines between them; the `label` describes the
    plot to readers who do not see it, without markup.
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


Rows = tuple[Mapping[str, object], ...]

_HEADLINES = {
    "guarantee": "",
    "weak": "",
    "void": "VOID: this model has no privacy guarantee.",
    "none": "NO PRIVACY GUARANTEE towards recipients of this model.",
}
_CURVE = (
    "Upper limit of what an attacker achieves who knows the model, every other row and everything about one "
    "{unit}, and must tell whether that {unit} was among the data. The dashed line is guessing."
)


class _Quoting(yaml.SafeDumper):
    """Every text in double quotes."""


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


@dataclass(frozen=True)
class Statement:
    """The guarantee of one model, and all that was shown to others, for readers who did not train it.

    Made by `lgb_dp.statement` and the command ``veilboost statement``.

    Parameters
    ----------
    title : str
        The model in a line.
    verdict : {"guarantee", "weak", "void", "none"}
        Whether the model has a privacy guarantee, one that limits hardly anything, has lost it, or never had
        one.
    headline : str
        The guarantee in a sentence, or what follows the words that there is none.
    words : tuple of str
        Its meaning, in plain words.
    reasons : tuple of str
        Why the guarantee is void.
    notes : tuple of str
        Limits of the guarantee.
    guarantee : mapping of str to number or text
        ε, δ, μ, the unit and the neighbouring relation; empty without a guarantee.
    unit : str
        Whose presence is hidden: "row" or "person".
    attack_curve : tuple of (float, float)
        False and true positive rates of an attacker at most, with straight lines between them.
    attacker : tuple of mapping
        Some points of the curve, rounded against the model.
    shares : tuple of (str, str, float)
        Release, what it took a share of (``"ε = 1, δ = 0"`` or ``"μ² = 0.07"``), and the share.
    tables : mapping of str to tuple of mapping
        Further facts by the heading that they stand under.
    model : mapping of str to value
        Settings, versions and the SHA-256 of the model.
    about : mapping of str to str
        Fields of `registry` that were filled in.
    to_fill_in : tuple of str
        Fields of `registry` that the model does not say, and that were not.
    registry : mapping
        The record for OpenDP's registry of deployments.
    """

    title: str
    verdict: Literal["guarantee", "weak", "void", "none"]
    headline: str
    words: tuple[str, ...]
    registry: Mapping[str, object]
    model: Mapping[str, object]
    about: Mapping[str, str] = field(default_factory=dict)
    to_fill_in: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    guarantee: Mapping[str, object] = field(default_factory=dict)
    unit: str = "row"
    attack_curve: tuple[tuple[float, float], ...] = ()
    attacker: Rows = ()
    shares: tuple[tuple[str, str, float], ...] = ()
    tables: Mapping[str, Rows] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Everything, in types that JSON has; numbers that are not finite are texts."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_yaml(self) -> str:
        """The record for OpenDP's registry of deployments, which takes YAML."""
        # Texts in quotes: none is taken for a number, a date or a comment.
        return str(yaml.dump(self.to_dict()["registry"], Dumper=_Quoting, sort_keys=False, width=math.inf))

    def to_html(self) -> str:
        """A page that needs nothing beside itself, for a browser and for paper."""
        return html_page(f"Privacy statement: {self.title}", self._parts())

    def _repr_html_(self) -> str:
        """The page for a notebook, in a frame of its own, so that neither changes the other's style."""
        style = "width: 100%; height: 40rem; border: 1px solid #bbb"
        return f'<iframe sandbox srcdoc="{escape(self.to_html())}" style="{style}"></iframe>'

    def save(self, path: str | Path) -> list[Path]:
        """Write the page, the registry's record and the JSON.

        Parameters
        ----------
        path : path
            Of the page without its ending: ``claims`` gives ``claims.html``, ``claims.yaml`` and
            ``claims.json``; an ending ``.html`` may be given.

        Returns
        -------
        list of Path
            The three files; ones that exist are replaced.

        Raises
        ------
        OSError
            If one cannot be written.
        """
        stem = str(path).removesuffix(".html")
        texts = {".html": self.to_html(), ".yaml": self.to_yaml(), ".json": self.to_json()}
        files = [Path(stem + ending) for ending in texts]
        for file, text in zip(files, texts.values(), strict=True):
            write_atomically(file, text)
        return files

    def _parts(self) -> list[str]:
        """The page from top to bottom: the verdict first."""
        return [
            self.html_verdict("Privacy statement"),
            html_section("About", html_facts({k.replace("_", " "): v for k, v in self.about.items()})),
            html_section("In words", *(f"<p>{html_words(text)}</p>" for text in self.words)),
            html_section("The guarantee", html_facts(self.guarantee)),
            self.html_attack(),
            html_section("Share of the budget", html_bars(self._bars())),
            *(html_section(title, html_wide_table(rows)) for title, rows in self.tables.items()),
            html_section("Notes", html_list(self.notes)),
            html_section("The model", html_facts(self.model)),
            html_section("Still to be filled in for the registry's record", self._to_fill_in()),
            html_section("Signature", html_signature(("Name and office", "Place and date", "Signature"))),
        ]

    def html_verdict(self, page: str) -> str:
        """The verdict, with the kind of page that it heads."""
        title = f'<p class="what">{escape(page)}: {escape(self.title)}</p>'
        headline = f"{_HEADLINES[self.verdict]} {self.headline}".strip()
        reasons = html_list(f"void because {reason}" for reason in self.reasons)
        return (
            f'<header class="verdict {self.verdict}">{title}<h1>{html_words(headline)}</h1>{reasons}</header>'
        )

    def html_attack(self) -> str:
        """The limits of an attacker, as a section; empty without a guarantee."""
        if not self.attack_curve:
            return ""
        text = _CURVE.format(unit=self.unit)
        figure = f"<figure>{curve_svg(self.attack_curve, 'Attack curve')}</figure>"
        numbers = html_wide_table(self.attacker)
        return html_section("What an attacker can achieve", html_paragraph(text), figure, numbers)

    def _to_fill_in(self) -> str:
        return html_paragraph(", ".join(self.to_fill_in) + ".") if self.to_fill_in else ""

    def _bars(self) -> list[tuple[str, str, str]]:
        return [
            (name, bar_svg(share, "epsilon" if whole.startswith("ε") else "mu"), f"{share:.1%} of {whole}")
            for name, whole, share in self.shares
        ]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
