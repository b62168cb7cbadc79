"""Markup: no text and no attribute can be anything else than text, whatever is in it."""

from html.parser import HTMLParser

import hypothesis.strategies as st
import pytest
from hypothesis import given

from veilboost.pages.markup import command, joined, section, spoken_bytes, table, tag

TEXTS = st.text(st.sampled_from("<>&\"'/=`ab \x00\x1b\n\u202e\ud800") | st.characters(), max_size=30)


class Seen(HTMLParser):
    """Names of elements, attributes, and the text between."""

    def __init__(self, page):
        super().__init__()
        self.names, self.attributes, self.text = [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


@given(TEXTS, TEXTS)
def test_no_text_becomes_an_element_or_an_attribute(text, value):
    seen = Seen(joined([tag("p", text, title=value), text, command(text), table([{text: text}])]))
    assert seen.names == ["p", "pre", "code", "div", "table", "thead", "tr", "th", "tbody", "tr", "td"]
    assert [name for name, _ in seen.attributes] == [
        "title", "tabindex", "class", "tabindex", "role", "aria-label", "scope",
    ]  # fmt: skip
    assert seen.text.isprintable()
    if text.isprintable():
        assert seen.text == 5 * text
    assert seen.attributes[0][1].isprintable()
    if value.isprintable():
        assert seen.attributes[0][1] == value


@given(TEXTS)
def test_markup_that_is_changed_is_text_again(text):
    changed = tag("b", text) + "<i>"
    assert Seen(tag("p", changed)).names == ["p"]


def test_an_empty_section_is_no_section():
    assert section("Parties", table([])) == ""
    assert section("<b>", "x") == "<section><h2>&lt;b&gt;</h2>x</section>"


@pytest.mark.parametrize(
    ("n", "shown"),
    [(0, "0 bytes"), (999, "999 bytes"), (12345, "12.3 kB"), (5e6, "5 MB"), (5e13, "50,000 GB")],
)
def test_bytes_for_people(n, shown):
    assert spoken_bytes(n) == shown
