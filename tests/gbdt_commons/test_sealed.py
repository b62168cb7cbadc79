import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_commons.sealed import read_sealed, write_sealed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("sealed") / "file.json"


@given(content=st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
@settings(max_examples=60)
def test_what_is_written_is_read(path, content):
    write_sealed(path, content)
    assert read_sealed(path) == content


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "3", "{}", "[" * 100_000, '{"a": 1}', '{"sha256": 1, "content": []}', "\x00", "{torn"],
    ids=lambda text: text[:20],
)
def test_files_of_anything_else_are_refused(path, text):
    path.write_text(text)
    with pytest.raises(ValueError):  # noqa: PT011
        read_sealed(path)


def test_a_file_cut_off_or_altered_anywhere_is_refused(path):
    write_sealed(path, {"names": ["a", "b"], "thresholds": [0.5, -2.0]})
    content = path.read_bytes()
    for k in range(len(content)):
        for altered in (content[:k], content[:k] + bytes([content[k] ^ 1]) + content[k + 1 :]):
            path.write_bytes(altered)
            with pytest.raises(ValueError):  # noqa: PT011
                read_sealed(path)
