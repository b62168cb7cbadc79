"""The page, from whatever texts: escaped, whole in itself, the verdict first; JSON and files."""

import json
import math
import re
from html.parser import HTMLParser

import pytest

from gbdt_commons.statements.statement import Statement, curve_svg

HOSTILE = "<script>alert('x')</script>\"&<img src=//evil>"


class Tags(HTMLParser):
    """Tags with their attributes, and checks that what is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open, self.text = [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def statement(**changes):
    fields = {
        "title": HOSTILE,
        "verdict": "guarantee",
        "headline": HOSTILE,
        "words": (HOSTILE, "at delta = 1e-05"),
        "registry": {"tier": 3, "name": HOSTILE},
        "model": {HOSTILE: HOSTILE, "SHA-256": "0" * 64},
        "about": {HOSTILE: HOSTILE},
        "to_fill_in": (HOSTILE,),
        "reasons": (HOSTILE,),
        "notes": (HOSTILE,),
        "guarantee": {HOSTILE: HOSTILE, "epsilon": 0.5},
        "unit": HOSTILE,
        "attack_curve": ((0.0, 0.1), (0.4, 0.9), (1.0, 1.0)),
        "attacker": ({HOSTILE: HOSTILE},),
        "shares": ((HOSTILE, f"μ² = {HOSTILE}", 0.25), ("b", "ε", 1.0)),
        "tables": {HOSTILE: ({HOSTILE: HOSTILE, "n": 3},)},
    }
    return Statement(**{**fields, **changes})


def test_texts_of_others_are_text_wherever_they_stand():
    page = Tags(statement().to_html())
    assert not page.open
    assert page.text.count(HOSTILE) >= 15
    assert not {"script", "img", "link", "iframe", "a", "object"} & {tag for tag, _ in page.found}


def test_page_loads_nothing_from_elsewhere():
    page = Tags(statement().to_html())
    attributes = [(name, value) for _, attrs in page.found for name, value in attrs.items()]
    assert not {"src", "href", "xlink:href", "onload", "onclick", "action"} & {name for name, _ in attributes}
    harmless = re.sub(re.escape(HOSTILE), "", page.text)
    assert not re.search(r"https?://|url\(|@import|//", harmless)
    policy = next(attrs["content"] for _, attrs in page.found if "http-equiv" in attrs)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("void", "VOID: this model has no privacy guarantee."),
        ("none", "NO PRIVACY GUARANTEE towards recipients"),
    ],
)
def test_the_lack_of_a_guarantee_is_the_first_thing_seen(verdict, words):
    page = statement(verdict=verdict, title="A model", headline="", reasons=("a seed was fixed",)).to_html()
    body = page.partition("<body>")[2]
    assert body.lstrip().startswith(f'<header class="verdict {verdict}">')
    header = body.partition("</header>")[0]
    assert words in header
    assert "void because a seed was fixed" in header
    assert body.index(words) < body.index("<h2>")


def test_numbers_are_not_broken_at_their_sign():
    assert '<span class="number">1e-05</span>' in statement().to_html()


def test_notebooks_show_the_page_in_a_frame_of_its_own():
    shown = Tags(statement()._repr_html_())
    assert not shown.open
    ((tag, attributes),) = shown.found
    assert tag == "iframe"
    assert attributes["srcdoc"] == statement().to_html()
    assert "sandbox" in attributes


def test_json_holds_everything_and_nothing_but_json():
    found = json.loads(statement(model={"rounds": 3, "bound": math.inf}).to_json())
    assert found["title"] == HOSTILE
    assert found["attack_curve"] == [[0.0, 0.1], [0.4, 0.9], [1.0, 1.0]]
    assert found["model"] == {"rounds": 3, "bound": "inf"}
    assert found["registry"] == {"tier": 3, "name": HOSTILE}


def test_empty_parts_have_no_heading():
    empty = statement(
        attack_curve=(),
        attacker=(),
        shares=(),
        tables={"Traffic": ()},
        notes=(),
        guarantee={},
        about={},
        to_fill_in=(),
    )
    headings = re.findall("<h2>(.*?)</h2>", empty.to_html())
    assert headings == ["In words", "The model", "Signature"]


def test_curve_goes_through_its_points():
    svg = curve_svg(((0.0, 0.0), (0.5, 1.0), (1.0, 1.0)), "curve")
    drawn = re.search('class="bound" d="M([^"]*)"', svg)[1]
    points = [tuple(map(float, pair.split())) for pair in drawn.split("L")]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 == (x0 + x2) / 2
    assert y1 == y2 < y0  # SVG counts downwards


@pytest.mark.parametrize("name", ["claims", "claims.html"])
def test_files_stand_side_by_side(tmp_path, name):
    files = statement().save(tmp_path / name)
    assert [path.name for path in files] == ["claims.html", "claims.yaml", "claims.json"]
    assert [path.read_text(encoding="utf-8") for path in files] == [
        statement().to_html(),
        statement().to_yaml(),
        statement().to_json(),
    ]
