"""Tables of every kind at parties of every mode: no value is in what is sent, kept, logged or raised."""

import logging
import re
import warnings
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import xgboost

import lgb_dp
import lgb_dp.federated
import lgb_dp.vertical
import xgb_fed
from gbdt_commons.errors import VeilboostError
from gbdt_parties.session import SessionHandler
from table_kinds import ACCEPTED, COLUMNS, PLAIN, REFUSED, recognisable, snapshot, traces

N = 120
X = recognisable(N, 3)
Y = (X[:, 0] + X[:, 1] > 8000).astype(int)
OTHER = recognisable(N, 2, seed=1)
"""The active party's columns, which are an array in every run."""
BOUNDS = (0, 8192)


class Tap:
    """Passes messages on, and keeps them."""

    def __init__(self, party, sent):
        self.party, self.sent, self.name = party, sent, party.name

    def handle(self, request):
        answer = self.party.handle(request)
        self.sent += [bytes(request), bytes(answer)]
        return answer


def horizontal(make, names, sent, folder, train):
    parties = [
        xgb_fed.HorizontalParty(
            make(X[place::3], names),
            Y[place::3],
            name,
            categorical_labels=True,
            random_state=place,
            n_jobs=1,
            directory=folder / name,
            exact=xgb_fed.ExactTerms(min_rows_per_node=1),
        )
        for place, name in enumerate(("ada", "bob", "cyd"))
    ]
    params = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 8}
    try:
        return train(params, [Tap(party, sent) for party in parties], 2).booster
    finally:
        for party in parties:
            party.close()


def exact(make, names, sent, folder):
    return horizontal(
        make, names, sent, folder, lambda *given: xgb_fed.train_exact(*given, min_rows_per_node=1)
    )


def simfl(make, names, sent, folder):
    return horizontal(
        make, names, sent, folder, lambda *given: xgb_fed.train_simfl(*given, hash_seed=3, verbose_eval=False)
    )


def vertical(make, names, sent, folder):
    """With an evaluation set, saved, read again and asked about other rows; the party exports its splits."""
    bank = xgb_fed.LocalParty(make(X, names), "bank", allow_export=True, eval_sets=[make(X[:50], names)])
    params = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 8}
    data, held_out = xgb_fed.ActiveData(OTHER, Y), xgb_fed.ActiveData(OTHER[:50], Y[:50])
    model = xgb_fed.train(
        params,
        data,
        [Tap(bank, sent)],
        2,
        evals=[(held_out, "valid")],
        cipher=xgb_fed.Plain(),
        verbose_eval=False,
    )
    (folder / "model.json").write_text(model.to_json())
    again = bank.with_rows(make(X[:60], names))
    np.testing.assert_array_equal(
        model.predict(OTHER[:60], [Tap(again, sent)]), model.predict(OTHER, [Tap(bank, sent)])[:60]
    )
    found = list(sent)
    booster = model.export_booster([bank])
    sent[:] = found
    return booster


def private_rows(make, names, sent, folder):
    parties = [
        lgb_dp.federated.Party(
            make(X[place::2], names), Y[place::2], name=name, bounds=BOUNDS, max_bin=8, folder=folder / name
        )
        for place, name in enumerate(("ada", "bob"))
    ]
    params = {"objective": "binary", "max_depth": 2, "num_threads": 1}
    return lgb_dp.federated.train(
        params, [Tap(one, sent) for one in parties], 2, callbacks=[lgb_dp.NewtonBoost(20.0, 1e-5)]
    )


def private_columns(make, names, sent, folder):
    bank = lgb_dp.vertical.ColumnParty(
        make(X, names), name="bank", bounds=BOUNDS, max_bin=8, folder=folder / "bank"
    )
    model = lgb_dp.vertical.VerticalDPLGBMClassifier(
        epsilon=20.0, delta=1e-5, n_estimators=2, max_depth=2, trees_per_round=2
    )
    handle = SessionHandler.handle

    def noted(sessions, request):
        answer = handle(sessions, request)
        sent.extend([bytes(request), bytes(answer)])
        return answer

    with mock.patch.object(SessionHandler, "handle", noted):
        model.fit(OTHER, Y, parties=[bank], bounds=BOUNDS, classes=[0, 1])
    return model.booster_


class Mode(NamedTuple):
    train: Callable
    names: tuple
    is_private: bool


MODES = {
    "exact": Mode(exact, COLUMNS, False),
    "simfl": Mode(simfl, COLUMNS, False),
    "vertical": Mode(vertical, COLUMNS, False),
    "private rows": Mode(private_rows, PLAIN, True),
    "private columns": Mode(private_columns, PLAIN, True),
}


def run(mode, make, tmp_path, caplog, capfd):
    """The model, or the error, of a run, and all bytes that it sent, kept, logged and showed."""
    sent, folder = [], tmp_path / "kept"
    folder.mkdir()
    found = None
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        try:
            found = mode.train(make, mode.names, sent, folder)
        except VeilboostError as error:
            found = error
    kept = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    shown = "".join([caplog.text, *capfd.readouterr(), *(str(one.message) for one in caught)])
    if isinstance(found, VeilboostError):
        chain, error = [], found
        while error is not None:
            chain, error = [*chain, repr(error)], error.__context__
        shown += "".join(chain)
    return found, [*sent, *kept, shown.encode()]


def thresholds_of(model):
    """A model holds the thresholds that XGBoost finds among the values."""
    text = model.save_raw("json").decode() if isinstance(model, xgboost.Booster) else ""
    listed = re.findall(r'"split_conditions":\[(.*?)\]', text)
    numbers = np.array([float(one) for some in listed for one in some.split(",") if some], dtype=np.float32)
    return {f"{value:.10f}"[:8].encode() for value in numbers.tolist()} | {
        value.tobytes() for value in numbers.astype(np.float64)
    }


def assert_nothing_of_the_values(model, chunks):
    everything = b"\n".join(chunks)
    allowed = thresholds_of(model)
    found = [trace for trace in traces(X) | traces(OTHER) if trace in everything and trace not in allowed]
    assert found == []


def predictions_of(mode, model):
    if mode.is_private:
        return None
    both = np.concatenate([OTHER, X], axis=1) if model.num_features() == 5 else X
    return model.predict(xgboost.DMatrix(both), validate_features=False)


@pytest.fixture(scope="module")
def of_arrays():
    """Predictions of the models of plain arrays, by mode."""
    return {}


EVERYWHERE = {"pandas", "Arrow table", "sparse unsorted csc"}
TURNS = ("vertical", "private rows")


def modes_and_kinds():
    """Every kind in one mode, of both packages in turn, some in all modes; the other pairs are slow."""
    for mode in MODES:
        for place, kind in enumerate(ACCEPTED):
            is_quick = mode == TURNS[place % 2] or kind in EVERYWHERE
            yield pytest.param(mode, kind, marks=() if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("mode", "kind"), list(modes_and_kinds()))
def test_no_value_leaves_and_the_model_is_that_of_the_array(
    mode, kind, of_arrays, tmp_path, tmp_path_factory, caplog, capfd
):
    way, make = MODES[mode], ACCEPTED[kind]
    given = []

    def noted(values, names):
        given.append(make(values, names))
        seen.append(snapshot(given[-1]))
        return given[-1]

    seen = []
    model, chunks = run(way, noted, tmp_path, caplog, capfd)
    assert not isinstance(model, VeilboostError), model
    assert_nothing_of_the_values(model, chunks)
    assert sum(map(len, chunks)) > 1000
    assert [snapshot(one) for one in given] == seen
    if way.is_private:
        plain, own = (
            lgb_dp.Dataset(one, Y, bounds=BOUNDS, max_bin=8).construct() for one in (X, make(X, way.names))
        )
        np.testing.assert_array_equal(*(codes_of(data) for data in (plain, own)))
        return
    # The hashes of SimFL have another scale for sparse matrices.
    like = (mode, "sparse csr" if mode == "simfl" and kind.startswith("sparse") else "array")
    if like not in of_arrays:
        make = ACCEPTED.get(like[1], lambda values, _: values)
        plain, _ = run(way, make, tmp_path_factory.mktemp("plain"), caplog, capfd)
        of_arrays[like] = predictions_of(way, plain)
    np.testing.assert_array_equal(predictions_of(way, model), of_arrays[like])


def codes_of(data):
    return np.ravel(data.codes.codes)


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("mode", MODES)
def test_no_value_leaves_where_a_table_is_refused_by_name(mode, kind, tmp_path, caplog, capfd):
    make, word = REFUSED[kind]
    error, chunks = run(MODES[mode], make, tmp_path, caplog, capfd)
    assert isinstance(error, VeilboostError), error
    assert re.search(word, str(error)), error
    assert_nothing_of_the_values(None, chunks)


@pytest.mark.parametrize("mode", MODES)
def test_models_predict_the_table_that_they_were_trained_on(mode, tmp_path, caplog, capfd):
    """Names have other alphabets, quotes, combining marks and backslashes, as far as the host takes them."""
    way = MODES[mode]
    model, _ = run(way, ACCEPTED["pandas"], tmp_path, caplog, capfd)
    assert not isinstance(model, VeilboostError), model
    own = {"vertical": ["f0", "f1"], "private columns": ["Column_0", "Column_1"]}.get(mode, [])
    table = pd.DataFrame(np.concatenate([OTHER[:, : len(own)], X], axis=1), columns=[*own, *way.names])
    if not way.is_private:
        again = xgboost.Booster(model_file=bytearray(model.save_raw("ubj")))
        assert again.feature_names == model.feature_names == list(table.columns)
        np.testing.assert_array_equal(again.predict(xgboost.DMatrix(table)), predictions_of(way, model))
        return
    again = lgb_dp.DPBooster(model_str=model.model_to_string())
    assert again.feature_name() == model.feature_name() == list(table.columns)
    np.testing.assert_array_equal(again.predict(table), model.predict(table.to_numpy(dtype=float)))


def test_a_value_that_leaves_would_be_found():
    for leaked in (
        str(X[3, 1]),
        repr(float(X[7, 2])),
        X[5].tobytes(),
        X.T.tobytes(),
        np.float64(X[2, 2]).tobytes(),
    ):
        chunk = leaked if isinstance(leaked, bytes) else leaked.encode()
        with pytest.raises(AssertionError):
            assert_nothing_of_the_values(None, [b"...", chunk])
