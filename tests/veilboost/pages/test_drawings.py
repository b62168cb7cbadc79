"""Drawings: well-formed whatever the names and numbers, with an alternative text, in their own frame."""

import math
import re
from xml.etree import ElementTree

import hypothesis.strategies as st
import pytest
from hypothesis import given

from veilboost.pages.drawings import MAX_DRAWN, Arrow, chart, flows_of, gauge, marked_bar, traffic

NUMBERS = st.floats(allow_nan=True) | st.floats(-1e6, 1e6)


def elements(drawing):
    root = ElementTree.fromstring(drawing)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    return [(one.tag, one.attrib) for one in root.iter()]


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8), st.booleans(), st.none() | NUMBERS)
def test_a_curve_stays_in_its_frame(points, is_staircase, limit):
    points = sorted(points)
    drawing = chart("AUC", points, ("1", "9"), is_staircase=is_staircase, limit=limit)
    finite = [one for one in points if all(map(math.isfinite, one))]
    assert bool(drawing) == bool(finite)
    if drawing and is_staircase and all(y >= 0 for _, y in finite):
        (path,) = (found["d"] for name, found in elements(drawing) if found.get("class") == "line")
        numbers = [float(one) for one in re.findall(r"[-\d.e+]+", path)]
        assert all(0 <= one <= 390 for one in numbers)


def test_a_band_reaches_as_far_as_it_says():
    drawing = chart("effect", [(0, 1, 1), (10, 2, 2)], ("a", "b"))
    found = {attributes.get("class"): attributes.get("d") for _, attributes in elements(drawing)}
    assert found["area"] == "M54.0 75.0L384.0 10.0L384.0 140.0L54.0 140.0Z"
    assert found["line"] == "M54.0 107.5L54.0 107.5L384.0 75.0"
    assert "area" not in chart("effect", [(0, 1), (10, 2)], ("a", "b"))


@pytest.mark.parametrize(("share", "floor", "at"), [(0.5, 0.25, "25.0%"), (1.0, 3.0, "99.0%")])
def test_a_bar_has_a_mark_inside(share, floor, at):
    whole, part, mark = ElementTree.fromstring(marked_bar(share, floor, "noise"))
    assert [whole.get("width"), part.get("width"), mark.get("x")] == ["100%", f"{share:.1%}", at]
    assert part.get("class") == "noise"


def test_a_staircase_holds_until_the_next_step():
    drawing = chart("ε", [(0, 1), (10, 2)], ("a", "b"), is_staircase=True, limit=4)
    found = {attributes.get("class"): attributes.get("d") for _, attributes in elements(drawing)}
    assert found["line"] == "M54.0 140.0H54.0 V107.5 H384.0 V75.0 "
    assert found["limit"] == "M54.0 10.0H384.0"


@pytest.mark.parametrize(
    ("used", "most", "share"), [(1, 4, "25"), (9, 4, "100"), (0, 0, "100"), (-1, 3, "0")]
)
def test_a_gauge_is_never_more_than_full(used, most, share):
    found = elements(gauge("models of acme", used, most))
    assert found[0][1]["aria-label"] == f"models of acme: {share}% used"
    assert found[2][1]["width"] == f"{share}.0%"
    assert found[2][1]["class"] == ("spent" if share == "100" else "used")


@given(st.lists(st.builds(Arrow, st.text("<a\"'&"), st.text("<a\"'&"), st.none() | st.integers(0, 1 << 62))))
def test_traffic_has_a_box_for_each_party_and_an_arrow_for_each_direction(flows):
    flows = list({(one.sender, one.receiver): one for one in flows}.values())
    names = {name for one in flows for name in one[:2]}
    drawing = traffic(flows)
    assert bool(drawing) == (2 <= len(names) <= MAX_DRAWN)
    if drawing:
        found = elements(drawing)
        assert sum(one.get("class") == "box" for _, one in found) == len(names)
        assert sum("marker-end" in one for _, one in found) == sum(
            one.sender != one.receiver for one in flows
        )


def test_flows_are_added_up_by_pair():
    rows = [
        {"from": "a", "to": "b", "bytes": 10, "ciphertext_bytes": 9},
        {"from": "a", "to": "b", "bytes": 5, "ciphertext_bytes": 0},
        {"from": "b", "to": "a", "bytes": 1, "ciphertext_bytes": 0},
    ]
    assert flows_of(rows) == [Arrow("a", "b", 15, 9), Arrow("b", "a", 1, 0)]
    assert [one.kind for one in flows_of(rows)] == ["cipher", "clear"]
    assert flows_of([{"from": "a", "to": "b", "what": "sums"}]) == [Arrow("a", "b")]
