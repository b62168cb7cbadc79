"""Training over both transports: the same bytes, models and predictions as in one process."""

from contextlib import ExitStack

import numpy as np
import pytest

import xgb_fed
from deployment import HandlerService, Recorder, connected, serving, tls
from gbdt_parties.transport.remote import RemoteParty
from xgb_fed.horizontal.common.rows import HorizontalLimits
from xgb_fed.horizontal.service import HorizontalService

PARAMS = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 16}


def problem(n=200, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6)).astype(np.float32)
    y = (X @ random.normal(size=6) > 0).astype(np.float32)
    return X[:, :2], X[:, 2:], y


def trained(party, X, y, cipher):
    return xgb_fed.train(PARAMS, xgb_fed.ActiveData(X, y), [party], 3, cipher=cipher, verbose_eval=False)


@pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")
def test_both_transports_carry_the_same_bytes(monkeypatch):
    monkeypatch.setattr("xgb_fed.vertical.training.run_state.os.urandom", lambda n: b"s" * n)
    own, other, y = problem()
    local = Recorder(xgb_fed.LocalParty(other, "bank"))
    model = trained(local, own, y, xgb_fed.Plain())
    service = HandlerService(xgb_fed.LocalParty(other, "bank"))
    with serving(service) as server, connected(server) as party:
        remote = Recorder(party)
        same = trained(remote, own, y, xgb_fed.Plain())
    assert len(local.exchanges) > 10
    assert local.exchanges == remote.exchanges == service.exchanges
    assert model.to_json() == same.to_json()
    assert set(service.callers) == {("acme", ())}


@pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")
def test_requests_in_parts_are_the_same_bytes_as_whole_ones(monkeypatch):
    """A `Recorder` takes whole requests; the remote party itself takes those of gradients in parts."""
    monkeypatch.setattr("xgb_fed.vertical.training.run_state.os.urandom", lambda n: b"s" * n)
    monkeypatch.setattr("xgb_fed.vertical.growing.gradients.PART_BYTES", 7 * 256)
    own, other, y = problem(seed=2)
    exchanges = []
    for wrapped in (Recorder, lambda party: party):
        service = HandlerService(xgb_fed.LocalParty(other, "bank"))
        with serving(service) as server, connected(server) as party:
            trained(wrapped(party), own, y, xgb_fed.Plain())
        exchanges.append(service.exchanges)
    assert exchanges[0] == exchanges[1]
    assert len(exchanges[0]) > 10


def test_training_and_prediction_under_encryption_over_tls():
    own, other, y = problem(seed=1)
    cipher = xgb_fed.OkamotoUchiyama(key_length=1024, allow_weak_key=True)
    local = xgb_fed.LocalParty(other, "bank", allow_export=True)
    with serving(HandlerService(local)) as server, connected(server) as party:
        model = trained(party, own, y, cipher)
        at_a_distance = model.predict(own, [party])
        booster = model.export_booster([party])
    np.testing.assert_array_equal(at_a_distance, model.predict(own, [local]))
    assert booster.num_boosted_rounds() == 3


def test_horizontal_parties_over_tls(tmp_path):
    random = np.random.default_rng(4)
    rows = [random.normal(size=(80, 4)).astype(np.float32) for _ in range(2)]
    labels = [(X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int) for X in rows]

    def made():
        return [
            xgb_fed.HorizontalParty(X, y, f"party{k}", categorical_labels=True, random_state=k)
            for k, (X, y) in enumerate(zip(rows, labels, strict=True))
        ]

    def boosted(parties):
        params = {"objective": "binary:logistic", "max_depth": 3}
        return xgb_fed.train_simfl(params, parties, 4, hash_seed=0, verbose_eval=False)

    here = boosted(made())
    with ExitStack() as stack:
        there = []
        for party in made():
            service = HorizontalService(party, tmp_path / party.name, HorizontalLimits())
            server = stack.enter_context(serving(service, party.name))
            remote = RemoteParty(f"127.0.0.1:{server.port}", tls("acme"), party.name, 60)
            stack.callback(remote.close)
            there.append(remote)
        far = boosted(there)
    assert far.booster.save_raw() == here.booster.save_raw()
