"""Tables for notebooks escape whatever they are given."""

from html.parser import HTMLParser

from gbdt_commons.html_tables import html_list, html_paragraph, html_table

EVIL = "<script>alert('&\"')</script>"


class Texts(HTMLParser):
    """Tags and texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_every_text_is_escaped():
    page = (
        html_table([{EVIL: EVIL, "n": 1234567, "x": 0.123456789}]) + html_list([EVIL]) + html_paragraph(EVIL)
    )
    read = Texts(page)
    assert "script" not in read.tags
    assert "".join(read.texts).count(EVIL) == 4
    assert {"1,234,567", "0.123457"} <= set(read.texts)


def test_nothing_is_nothing():
    assert html_table([]) == html_list([]) == ""
