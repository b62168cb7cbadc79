"""A damaged or forged file is read as a valid one, or refused by an error that we name.

Forgeries carry digests that fit, as somebody who writes such a file on purpose makes them.
"""

import hashlib
import json
import logging

import numpy as np
import pandas as pd
import pytest
from xgboost.core import XGBoostError

import xgb_fed
from gbdt_commons.errors import VeilboostError
from gbdt_commons.store import bytes_kind
from kept_stores import restarted
from mutations import mutated_bytes, mutated_json
from xgb_fed.vertical.training.checkpoint import ENTRY, ROLE, STORE_FILE

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Z = pd.DataFrame({"p": RNG.normal(size=40), "c": pd.Categorical(RNG.integers(0, 3, 40))})
Y = (X[:, 0] + Z["p"] > 0).to_numpy().astype(int)
COUNTS = [15, pytest.param(1500, marks=pytest.mark.slow)]
NAMED = (VeilboostError, XGBoostError)

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def bank():
    how = {"allow_explanations": "per-feature", "enable_categorical": True, "allow_export": True}
    return xgb_fed.LocalParty(Z, "bank", **how)


def classifier(**kwargs):
    return xgb_fed.VerticalXGBClassifier(
        enable_categorical=True, n_estimators=2, max_depth=2, cipher=xgb_fed.Plain(), **kwargs
    )


@pytest.fixture
def folder(tmp_path):
    party = bank()
    model = classifier().fit(X, Y, parties=[party])
    model.save_model(tmp_path / "active")
    party.save_model(tmp_path / "passive")
    return tmp_path


def sealed(text):
    """A sealed file with a content that may be nested too deeply to be read."""
    try:
        digest = hashlib.sha256(json.dumps(json.loads(text)).encode()).hexdigest()
    except RecursionError:
        digest = "0" * 64
    return f'{{"sha256": "{digest}", "content": {text}}}'.encode()


def forgeries(path, count, rng):
    written = path.read_bytes()
    yield from mutated_bytes(written, rng, count)
    for text in mutated_json(json.loads(written)["content"], rng, count):
        yield sealed(text)


def loaded(folder):
    party = bank()
    party.load_model(folder / "passive")
    model = xgb_fed.VerticalXGBClassifier()
    model.load_model(folder / "active", parties=[party])
    return model


USES = (
    lambda model: model.predict_proba(X),
    lambda model: model.predict(X),
    lambda model: model.model_.explain(X, [*model.parties_]),
    lambda model: model.feature_importances_,
    lambda model: model.model_.importances(),
    lambda model: model.model_.to_json(),
    lambda model: model.export_booster(),
)


def refused(attempt):
    try:
        attempt()
    except NAMED:
        return True
    return False


@pytest.mark.parametrize(
    "pattern", ["active/active.model.json", "active/*classes.json", "passive/*.splits.json"]
)
@pytest.mark.parametrize("count", COUNTS)
def test_forged_model_folders_are_read_or_refused_by_name(folder, pattern, count):
    (path,) = folder.glob(pattern)
    rng, n_refused = np.random.default_rng(3), 0
    for content in forgeries(path, count, rng):
        path.write_bytes(content)
        models = []
        n_refused += refused(lambda models=models: models.append(loaded(folder)))
        for model in models:
            for use in USES:
                refused(lambda use=use, model=model: use(model))
    assert n_refused > count


def forged_entries(entries, count, rng):
    """Entries one of which has a forged JSON; the store makes the digest fit."""
    for _ in range(count):
        which = int(rng.integers(len(entries)))
        head, line_end, rest = entries[which].partition(b"\n")
        for text in mutated_json(json.loads(head), rng, 1):
            yield [*entries[:which], text.encode() + line_end + rest, *entries[which + 1 :]]


class Stopped(Exception):
    pass


class StoppingParty(xgb_fed.LocalParty):
    """A party whose process ends after some requests."""

    left = 7

    def handle(self, request):
        self.left -= 1
        if self.left < 0:
            raise Stopped
        return super().handle(request)


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_forged_checkpoints_are_taken_up_or_refused_by_name(tmp_path, count):
    with pytest.raises(Stopped):
        classifier().fit(
            X, Y, parties=[StoppingParty(Z, "bank", enable_categorical=True)], checkpoint=tmp_path
        )
    path, rng, kind = tmp_path / STORE_FILE, np.random.default_rng(4), bytes_kind(ENTRY.name)
    written = path.read_bytes()
    store = restarted(tmp_path, STORE_FILE, ROLE)
    entries = list(store.entries(kind, ""))
    store.close()
    assert len(entries) > 1

    def take_up():
        classifier().fit(X, Y, parties=[bank()], checkpoint=tmp_path)

    for content in mutated_bytes(written, rng, count):
        path.write_bytes(content)
        refused(take_up)
    for forged in forged_entries(entries, count, rng):
        path.write_bytes(written)
        store = restarted(tmp_path, STORE_FILE, ROLE)
        store.delete(kind, "")
        for entry in forged:
            store.append(kind, "", entry)
        store.close()
        refused(take_up)
