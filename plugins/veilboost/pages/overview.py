"""The page of parties and coordinators in use: what ``veilboost status`` finds, drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from gbdt_commons.quoting import quoted
from gbdt_commons.statements.page import html_page
from veilboost.doctor.findings import Finding
from veilboost.doctor.places import Place
from veilboost.pages.drawings import chart, flows_of, gauge, traffic
from veilboost.pages.markup import PAGE_STYLE, Markup, command, joined, section, spoken_bytes, table, tag

_ORDER = ("run", "runs", "budget", "names", "heard", "certificate", "models", "record")
_TITLES = {
    "run": "The run under way",
    "runs": "Runs of callers",
    "names": "Parties",
    "heard": "Last heard",
    "models": "Models, and who may use them",
    "record": "The record: who sent what to whom",
    "state": "State",
}
MOST = 300
"""Rows of a table at most; a record can have many more."""

_STOP = "To stop this side, in its terminal or here; the run goes on later where it stopped:"


def overview(
    places: Sequence[Place], reached: Callable[[str], str], when: datetime, pause: tuple[str, str]
) -> str:
    """The page as a whole, of places as they were at some time.

    `reached` says of a party's address whether a server answers there; `pause` has the words and the address
    of the link that stops the page's renewal, or takes it up.
    """
    mends = [(place, one) for place in places for one in place.findings if one.mend]
    items = (tag("li", f"{place.path}, {one.check}: {one.mend}") for place, one in mends)
    link = tag("a", pause[0], href=pause[1])
    line = tag("p", f"veilboost, {when:%Y-%m-%d %H:%M:%S} UTC. ", link, class_="what")
    said = tag("h1", f"{len(mends)} of these need a person" if mends else "Nothing needs a person")
    found = "void" if mends else "guarantee"
    head = tag("header", line, said, tag("ul", *items), class_=f"verdict {found}")
    return html_page("veilboost", [head, *(_place(one, reached) for one in places)], PAGE_STYLE)


def _place(place: Place, reached: Callable[[str], str]) -> Markup:
    limits = [one for one in place.findings if dict(one.values).keys() & {"used", "left"}]
    others = [one for one in place.findings if one not in limits]
    others.sort(key=lambda one: _ORDER.index(one.check) if one.check in _ORDER else len(_ORDER))
    shown = (_finding(one, reached) for one in others)
    return section(f"{place.path} ({place.what})", *shown, _limits(limits))


def _finding(one: Finding, reached: Callable[[str], str]) -> Markup:
    """A heading, what was seen, its remedy, and whatever can be drawn of it."""
    rows = table(
        {**row, "reachable": reached(str(row["address"]))} if "address" in row else _short(row)
        for row in one.rows[:MOST]
    )
    if len(one.rows) > MOST:
        rows = joined([rows, tag("p", f"{len(one.rows) - MOST:,} further rows are not shown")])
    if rows and one.check == "record":
        rows = tag("details", tag("summary", "Each kind of message"), rows)
    mend = tag("p", one.mend, class_="mend") if one.mend else Markup()
    seen = (tag("p", line) for line in one.seen.splitlines())
    title = tag("h3", _TITLES.get(one.check, one.check.capitalize()))
    return joined([title, *seen, mend, *_drawn(one), rows])


def _drawn(one: Finding) -> Iterator[Markup]:
    values = dict(one.values)
    if one.curve is not None:
        last = f"{one.curve.label}: {one.curve.points[-1][1]:.4g}"
        yield tag("figure", chart(*one.curve), tag("figcaption", last))
    if "days_left" in values:
        yield tag("p", f"{values['days_left']} days left")
    if one.check == "record":
        yield traffic(flows := flows_of([*map(_short, one.rows)]))
        for flow in flows[:MOST]:
            sent = f"{flow.sender} sent {flow.receiver} {flow.amount}"
            yield tag("p", f"{sent}, {spoken_bytes(flow.n_cipher)} of them as ciphertexts")
    if "process" in values:
        yield joined([tag("p", _STOP), command(f"kill -INT {values['process']}")])


def _short(row: Mapping[str, object]) -> dict[str, object]:
    """A row whose texts are cut: those of a record that somebody else has written are of any length."""
    return {name: quoted(one) if isinstance(one, str) else one for name, one in row.items()}


def _limits(limits: Sequence[Finding]) -> Markup:
    rows = []
    for one in limits:
        used, left = (dict(one.values).get(name) for name in ("used", "left"))
        drawn = Markup() if used is None or left is None else gauge(one.check, used, used + left)
        rows.append({"limit": one.check, "seen": one.seen, "used": drawn})
    return joined([tag("h3", "Limits"), table(rows)]) if rows else Markup()
