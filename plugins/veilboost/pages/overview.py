"""The page of parties and coordinators in use: what ``veilboost status`` finds, drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from gbdt_commons.statements.page import html_page
from veilboost.doctor.findings import Finding
from veilboost.doctor.places import Place
from veilboost.pages.drawings import Arrow, chart, flows_of, gauge, traffic
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
_STOP = "To stop this side, in its terminal or here; the run goes on later where it stopped:"


def overview(
    places: Sequence[Place], reached: Callable[[str], str], when: datetime, pause: tuple[str, str]
) -> str:
    """The page as a whole.

    Parameters
    ----------
    places : sequence of Place
        Of `veilboost.doctor.places.places_of`.
    reached : callable
        Says of a party's address whether a server answers there.
    when : datetime
        When they were looked at.
    pause : (str, str)
        Words and address of the link that stops the page's renewal, or takes it up.
    """
    mends = [(place, one) for place in places for one in place.findings if one.mend]
    items = (tag("li", f"{place.path}, {one.check}: {one.mend}") for place, one in mends)
    said = f"{len(mends)} of these need a person" if mends else "Nothing needs a person"
    head = tag(
        "header",
        tag(
            "p",
            f"veilboost, {when:%Y-%m-%d %H:%M:%S} UTC. ",
            tag("a", pause[0], href=pause[1]),
            class_="what",
        ),
        tag("h1", said),
        tag("ul", *items) if mends else "",
        class_=f"verdict {'void' if mends else 'guarantee'}",
    )
    return html_page("veilboost", [head, *(_place(one, reached) for one in places)], PAGE_STYLE)


def _place(place: Place, reached: Callable[[str], str]) -> Markup:
    checks = {one.check: one for one in place.findings}
    limits = [one for one in place.findings if {"used", "left"} & {name for name, _ in one.values}]
    known = [checks.pop(name) for name in _ORDER if name in checks]
    others = [one for one in checks.values() if one not in limits]
    shown = [*(_finding(one, reached) for one in known), _limits(limits)]
    return section(f"{place.path} ({place.what})", *shown, *(_finding(one, reached) for one in others))


def _finding(one: Finding, reached: Callable[[str], str]) -> Markup:
    """A heading, what was seen, its remedy, and whatever can be drawn of it."""
    return joined(
        [
            tag("h3", _TITLES.get(one.check, one.check.capitalize())),
            *(tag("p", line) for line in one.seen.splitlines()),
            tag("p", one.mend, class_="mend") if one.mend else Markup(),
            *_drawn(one),
            _folded(one, table(_with_reach(one.rows, reached))),
        ]
    )


def _folded(one: Finding, rows: Markup) -> Markup:
    return (
        tag("details", tag("summary", "Each kind of message"), rows)
        if rows and one.check == "record"
        else rows
    )


def _in_words(flow: Arrow) -> str:
    sent = f"{flow.sender} sent {flow.receiver} {spoken_bytes(flow.n_bytes or 0)}"
    return f"{sent}, {spoken_bytes(flow.n_cipher)} of them as ciphertexts"


def _drawn(one: Finding) -> Iterator[Markup]:
    values = dict(one.values)
    if one.curve is not None:
        last = f"{one.curve.label}: {one.curve.points[-1][1]:.4g}"
        yield tag("figure", chart(*one.curve), tag("figcaption", last))
    if "days_left" in values:
        yield tag("p", f"{values['days_left']} days left")
    if one.check == "record":
        yield traffic(flows := flows_of(one.rows))
        yield tag("ul", *(tag("li", _in_words(flow)) for flow in flows))
    if "process" in values:
        yield joined([tag("p", _STOP), command(f"kill -INT {values['process']}")])


def _limits(limits: Sequence[Finding]) -> Markup:
    rows = []
    for one in limits:
        values = dict(one.values)
        whole = values["used"] + values["left"] if "left" in values else 0.0
        drawn = gauge(one.check, values["used"], whole) if "left" in values else Markup()
        rows.append({"limit": one.check, "seen": one.seen, "used": drawn})
    return joined([tag("h3", "Limits"), table(rows)]) if rows else Markup()


def _with_reach(
    rows: Sequence[Mapping[str, object]], reached: Callable[[str], str]
) -> Iterator[Mapping[str, object]]:
    for row in rows:
        yield {**row, "reachable": reached(str(row["address"]))} if "address" in row else row
