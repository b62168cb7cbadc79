"""Pictures of the documentation: drawn by their scripts, readable, described, and used."""

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.font_manager
import pytest
from matplotlib.ft2font import FT2Font

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "experiments").glob("*.md")]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def diagrams(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import diagrams

    return diagrams


def width_of(text):
    """Width of a line of words in DejaVu, which is wider than other sans-serif fonts."""
    name = "DejaVu Sans:bold" if text.get("font-weight") else "DejaVu Sans"
    font = FT2Font(matplotlib.font_manager.findfont(name))
    font.set_size(float(text.get("font-size")), 72)
    font.set_text(text.text)
    return font.get_width_height()[0] / 64


def frame_of(text):
    """Left, right, top and bottom of a line of words."""
    x, y, size, width = *(float(text.get(name)) for name in ("x", "y", "font-size")), width_of(text)
    left = x - {"start": 0.0, "middle": 0.5}[text.get("text-anchor")] * width
    return left, left + width, y - 0.76 * size, y + 0.2 * size


def frame_of_box(box):
    x, y = float(box.get("x", 0)), float(box.get("y", 0))
    return x, x + float(box.get("width")), y, y + float(box.get("height"))


def meet(one, other):
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def is_inside(one, other):
    return other[0] <= one[0] and one[1] <= other[1] and other[2] <= one[2] and one[3] <= other[3]


def unreadable(svg):
    """Lines of words that leave the picture, cross the border of a box, or meet another line."""
    root = ElementTree.fromstring(svg)
    whole, *boxes = (frame_of_box(box) for box in root.iter(f"{SVG}rect"))
    lines = [(text.text, frame_of(text)) for text in root.iter(f"{SVG}text") if text.text]
    found = {name for name, frame in lines if not is_inside(frame, whole)}
    found |= {n for n, frame in lines for box in boxes if meet(frame, box) and not is_inside(frame, box)}
    return found | {name for (name, one), (_, other) in combinations(lines, 2) if meet(one, other)}


def test_the_diagrams_are_what_their_script_draws(diagrams):
    drawn = {name: draw().svg() for name, draw in diagrams.PICTURES.items()}
    assert drawn == {name: (FOLDER / f"{name}.svg").read_text(encoding="utf-8") for name in drawn}


def test_the_words_of_diagrams_can_be_read(diagrams):
    assert {name: unreadable(draw().svg()) for name, draw in diagrams.PICTURES.items()} == {
        name: set() for name in diagrams.PICTURES
    }


def test_words_that_do_not_fit_are_found(diagrams):
    drawing = diagrams.Drawing(100, "three lines that do not fit")
    drawing.text((440, 20), "beyond the edge")
    drawing.box((10, 30), (60, 60), "white", "wider than its box")
    drawing.text((300, 60), "one")
    drawing.text((305, 62), "another")
    assert unreadable(drawing.svg()) >= {"beyond the edge", "wider than its box", "one"}


def images():
    """Page, description and file of every picture in the pages."""
    found = [(page, *one) for page in PAGES for one in re.findall(r"!\[(.*?)\]\((.+?)\)", page.read_text())]
    return [(page, words, (page.parent / name).resolve()) for page, words, name in found]


def test_every_picture_is_described_and_exists():
    assert len(images()) > 15
    assert [(page.name, file.name) for page, _, file in images() if not file.exists()] == []
    assert [(page.name, words) for page, words, _ in images() if len(words.split()) < 4] == []


def test_every_drawn_picture_is_shown():
    examples = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py"))
    shown = {file.name for *_, file in images()} | set(re.findall(r"pictures/([\w-]+\.svg)", examples))
    assert {path.name for path in FOLDER.glob("*.svg")} - shown == set()


EXAMPLES = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")}
THUMBNAIL = re.compile(r'^# sphinx_gallery_thumbnail_path = "(.+)"$', re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_shows_a_figure_of_its_own(example):
    """By drawing one, or, if the gallery does not run it, by a picture that no other one has."""
    chosen = {name: THUMBNAIL.findall(text) for name, text in EXAMPLES.items()}
    if example.startswith(("remote_", "dask_", "spark_")):
        (picture,) = chosen[example]
        assert f".. image:: /{picture}\n" in EXAMPLES[example]
        assert [name for name, pictures in chosen.items() if picture in pictures] == [example]
    else:
        assert "plt.show()" in EXAMPLES[example]


WALKS = ("recommended", "vertical_xgboost", "two_banks", "exact_two_hospitals", "hospitals")


@pytest.mark.parametrize("walk", WALKS)
def test_the_walks_of_the_five_uses_are_short(walk):
    assert EXAMPLES[walk].count("\n") <= 60
