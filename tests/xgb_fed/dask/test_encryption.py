"""The active party's encryption on a cluster: the same model, and a key that travels by TLS alone."""

import logging
import pickle

import pytest
from distributed import Client, LocalCluster, Security

import xgb_fed
from dask_party import N_ACTIVE, X, Y
from dask_training import local_cluster
from vertical_training import text_of
from xgb_fed.dask import ClusterCipher, encryption

SCHEMES = [xgb_fed.OkamotoUchiyama(512, True), xgb_fed.Paillier(512, True)]


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("cryptography")
    where = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "protocol": "tls"}
    security = Security.temporary()
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, security=security, **where
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster, monkeypatch):
    monkeypatch.setattr(encryption, "MIN_ROWS", 4)
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        yield client


@pytest.fixture
def asked(monkeypatch):
    """What workers were asked, in order."""
    questions, answer = [], encryption.KeyOfWorker.answer

    def asked_to_work(worker, message):
        questions.append(message["ask"])
        return answer(worker, message)

    monkeypatch.setattr(encryption.KeyOfWorker, "answer", asked_to_work)
    return questions


@pytest.mark.parametrize("scheme", SCHEMES)
def test_workers_encrypt_and_decrypt(client, asked, scheme):
    values = [*range(9), 1 << 100]
    with ClusterCipher(client, scheme) as cipher:
        key = cipher.generate()
        encrypted = key.encrypt(values)
        key.public.check(encrypted)
        assert key.decrypt(encrypted) == values
        assert {*asked} == {"encrypt", "decrypt"}
        n_asked = len(asked)
        assert key.decrypt(key.encrypt(values[:2])) == values[:2]  # too few to ask for
    assert len(asked) == n_asked
    with pytest.raises(TypeError, match="secret key"):
        key.__reduce__()


def test_the_model_is_that_of_one_process(client, asked):
    party = xgb_fed.LocalParty(X[:, N_ACTIVE:], "bank")

    def fitted(**kwargs):
        model = xgb_fed.VerticalXGBClassifier(2, max_depth=3, max_bin=8, cipher=SCHEMES[0], **kwargs)
        return model.fit(X[:, :N_ACTIVE], Y, parties=[party])

    here = fitted()
    assert not asked
    model = fitted(client=client)
    assert {*asked} == {"encrypt", "decrypt"}
    assert text_of(model.model_) == text_of(here.model_)
    assert pickle.loads(pickle.dumps(model)).client is None


def test_a_key_never_passes_through_the_scheduler(client, asked, monkeypatch):
    """Where workers cannot be reached directly, everything is done here."""

    async def unreachable(*args, **kwargs):
        raise OSError

    with ClusterCipher(client, SCHEMES[0]) as cipher:
        key = cipher.generate()
        monkeypatch.setattr("gbdt_hosts.dask.connections.connect", unreachable)
        monkeypatch.setattr(client, "run", unreachable)
        assert key.decrypt(key.encrypt(list(range(20)))) == list(range(20))
    assert not asked


def test_no_log_has_the_key(client, caplog, monkeypatch):
    def broken(key, what, rows):
        raise ValueError(key.private_bytes().hex())

    with caplog.at_level(logging.DEBUG), ClusterCipher(client, SCHEMES[0]) as cipher:
        key = cipher.generate()
        monkeypatch.setattr(encryption, "worked", broken)
        with pytest.raises(ValueError, match=r"[0-9a-f]+"):  # here, after both workers failed
            key.encrypt([1] * 8)
    assert "could not be answered: ValueError" in caplog.text
    assert key.key.private_bytes().hex() not in caplog.text
    assert repr(key.key.private_bytes())[2:60] not in caplog.text


def test_a_cluster_without_tls_is_refused():
    with (
        local_cluster(1) as cluster,
        Client(cluster) as client,
        pytest.raises(xgb_fed.InsecureClusterError, match="only with TLS"),
    ):
        ClusterCipher(client, SCHEMES[0])
    with pytest.raises(xgb_fed.ArgumentTypeError, match="client must be"):
        ClusterCipher(None)


def test_keys_that_do_not_encrypt_are_refused(client):
    with pytest.raises(xgb_fed.UnsupportedParameterError, match=r"work.*cluster"):
        ClusterCipher(client, xgb_fed.Plain()).generate()
