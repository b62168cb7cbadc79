from hypothesis import given
from hypothesis import strategies as st

from gbdt_commons.quoting import MAX_CHARACTERS, quoted


@given(st.text(max_size=30))
def test_nothing_but_printable_words_of_bounded_length(text):
    shown = quoted(text, 20)
    assert shown.isprintable()
    assert len(shown) <= 10 * 20 + 3
    if text.isprintable() and len(text) <= 20:
        assert shown == text


def test_what_is_escaped():
    assert quoted("a\nb\x1b[31m\x07\u202ec é") == "a\\nb\\x1b[31m\\x07\\u202ec é"
    assert quoted("abcdef", 3) == "abc..."
    assert quoted("x" * 10**6) == "x" * MAX_CHARACTERS + "..."
