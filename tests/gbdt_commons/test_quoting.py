from hypothesis import given
from hypothesis import strategies as st

from gbdt_commons.quoting import MAX_CHARACTERS, quoted, shown


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


@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(), lambda one: st.lists(one) | st.tuples(one)
    )
)
def test_refused_values_are_shown_short_on_one_line(value):
    text = shown(value)
    assert text.isprintable()
    assert len(text) <= 2 * MAX_CHARACTERS + 3


def test_small_values_are_shown_as_python_writes_them_and_large_ones_cut():
    for value in ("a'b", 17, 0.1, [1, "x"], (1,), {"a": [1, (2,)]}, None, True, {1}):
        assert shown(value) == repr(value)
    large = ["x" * 10**6], {"x" * 10**6: 1}, list(range(10**5)), {str(k): k for k in range(10**5)}
    assert max(len(shown(value)) for value in large) <= 2 * MAX_CHARACTERS + 3
