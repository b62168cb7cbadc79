import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xgb_fed
from gbdt_commons.sealed import read_sealed, write_sealed
from xgb_fed.errors import CorruptDataError
from xgb_fed.vertical.model.model import VerticalModel

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OTHERS = [None, True, -1, 0, 10**30, 1e300, float("inf"), float("nan"), "", "x", [], {}, [[]], {"a": 1}]


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


def places(content, at=()):
    yield at
    for key in content if isinstance(content, dict) else range(len(content) if type(content) is list else 0):
        yield from places(content[key], (*at, key))


def put(content, at, value):
    if not at:
        return value
    content = copy.deepcopy(content)
    place = content
    for key in at[:-1]:
        place = place[key]
    place[at[-1]] = value
    return content


@pytest.mark.filterwarnings("ignore::xgb_fed.NoPartiesWarning")
def test_a_damaged_model_never_loads(tmp_path):
    """Also where the value that was replaced would be another model's: predictions would be wrong."""
    X = np.arange(60.0).reshape(-1, 2)
    params = {"objective": "binary:logistic", "max_depth": 1}
    model = xgb_fed.train(params, xgb_fed.ActiveData(X, X[:, 0] > 30), [], 1, verbose_eval=False)
    model.save(tmp_path)
    (file,) = tmp_path.iterdir()
    good = json.loads(file.read_text())
    assert VerticalModel.load(tmp_path).to_json() == model.to_json()
    for at in places(good):
        for value in OTHERS:
            altered = json.dumps(put(good, at, value))
            if altered == json.dumps(good):
                continue
            file.write_text(altered)
            with pytest.raises(CorruptDataError):
                VerticalModel.load(tmp_path)
