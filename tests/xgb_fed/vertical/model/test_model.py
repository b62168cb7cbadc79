"""Models on disk, and what they are told at prediction."""

import copy
import json

import numpy as np
import pandas as pd
import pytest

import xgb_fed
from fitted_estimators import NEW, X, Y, classifier, party
from gbdt_parties.errors import InvalidDataError
from kept_splits import splits_of
from xgb_fed import LocalParty, VerticalXGBClassifier
from xgb_fed.errors import CorruptDataError
from xgb_fed.vertical.model.model import VerticalModel

OTHERS = [None, True, -1, 0, 10**30, 1e300, float("inf"), float("nan"), "", "x", [], {}, [[]], {"a": 1}]

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.errors.NotEncryptedWarning")


@pytest.mark.parametrize(
    "y",
    [Y.astype(bool), np.where(Y == 1, "a\nb", "c"), np.where(Y == 1, 2.5, -1)],
    ids=["bool", "text", "float"],
)
def test_splits_on_disk(y, tmp_path):
    """Each party keeps its own; together they predict as before."""
    one = party()
    model = classifier().fit(X[:, :3], y, parties=[one])
    model.save_model(tmp_path / "active")
    one.save_model(tmp_path / "bank")
    again, other = VerticalXGBClassifier(), LocalParty(NEW[:, 3:], "bank")
    again.load_model(tmp_path / "active", [other])
    with pytest.raises(xgb_fed.PartyRefusedError, match="no splits"):
        again.predict(NEW[:, :3])
    other.load_model(tmp_path / "bank")
    got, expected = again.predict(NEW[:, :3]), model.predict(NEW[:, :3], [one.with_rows(NEW[:, 3:])])
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == expected.dtype
    splits = splits_of(one)[0]
    active = "".join(path.read_text() for path in (tmp_path / "active").iterdir())
    assert not [t for t in splits.thresholds if repr(t) in active]


def test_damaged_splits(fitted, tmp_path):
    fitted.save_model(tmp_path / "active")
    path = tmp_path / "active" / "active.model.json"
    text = path.read_text()
    for damaged in ("", text[:-10], "[]", "{}", text.replace('"format": 1', '"format": 2'), '{"format": 1}'):
        path.write_text(damaged)
        with pytest.raises(CorruptDataError):
            VerticalXGBClassifier().load_model(tmp_path / "active")
    path.write_text(text.replace(fitted.model_.model_id.hex(), "no hex"))
    with pytest.raises(CorruptDataError):
        VerticalXGBClassifier().load_model(tmp_path / "active")
    path.write_text(text)
    classes = tmp_path / "active" / "active.classes.json"
    for damaged in ("", "garbage\n1\n2", "{}"):
        classes.write_text(damaged)
        with pytest.raises(CorruptDataError):
            VerticalXGBClassifier().load_model(tmp_path / "active")


def test_missing_parties_at_prediction(fitted):
    with pytest.raises(ValueError, match="lacks"):
        fitted.predict(X[:, :3], [])
    with pytest.raises(xgb_fed.RowMismatchError, match=r"rows.*300.*parties="):
        fitted.predict(NEW[:, :3])
    with pytest.raises(xgb_fed.PartyRefusedError, match="300"):
        fitted.predict(NEW[:, :3], fitted.parties_)


def test_columns_of_parties():
    with pytest.raises(InvalidDataError, match="no columns"):
        LocalParty(X[:, :0], "bank")
    with pytest.raises(InvalidDataError, match="'bank'"):
        LocalParty(X, "bank", eval_sets=[X[:, :2]])
    with pytest.raises(InvalidDataError, match="categorical"):
        LocalParty(pd.DataFrame({"a": pd.Categorical(["x", "y"])}), "bank")
    with pytest.raises(InvalidDataError, match="'bank'"):
        party().with_rows(X)


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
