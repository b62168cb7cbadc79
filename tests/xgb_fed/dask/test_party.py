"""A party on a cluster answers as a party in one process does, whatever happens to workers."""

import numpy as np
import pytest
from distributed import Client

import xgb_fed
from dask_party import CIPHERS, N_ACTIVE, PARAMS, ROWS, X, Y, chunked, dask_party, recorded, replayed
from dask_training import local_cluster
from vertical_training import text_of
from vertical_training import train as train_quietly
from xgb_fed.dask import DaskParty


@pytest.fixture(scope="module")
def client():
    with local_cluster(2) as cluster, Client(cluster) as client:
        yield client


@pytest.mark.parametrize("lengths", [(300,), (0, 1, 150, 0, 149), (60,) * 5])
@pytest.mark.parametrize("cipher", CIPHERS)
def test_messages_equal_those_of_a_local_party(client, cipher, lengths):
    with dask_party(client, lengths) as party:
        assert replayed(party, cipher) == recorded(cipher)[1]


def model_text(party, **kwargs):
    active = xgb_fed.ActiveData(X[ROWS, :N_ACTIVE], Y[ROWS], rows=ROWS)
    how = {"cipher": xgb_fed.OkamotoUchiyama(512, True), "verbose_eval": False, **kwargs}
    return text_of(xgb_fed.train(PARAMS, active, [party], 2, **how))


def test_the_model_of_selected_rows_equals_that_of_a_local_party(client):
    with DaskParty(client, chunked(X[:, N_ACTIVE:], (100, 200)), "bank") as party:
        assert model_text(party) == model_text(xgb_fed.LocalParty(X[:, N_ACTIVE:], "bank"))


def test_predictions_of_other_rows(client):
    local = xgb_fed.LocalParty(X[:, N_ACTIVE:], "bank")
    with DaskParty(client, chunked(X[:, N_ACTIVE:], (100, 200)), "bank") as party:
        model = train_quietly(PARAMS, X[:, :N_ACTIVE], Y, [party], 2)
        same = train_quietly(PARAMS, X[:, :N_ACTIVE], Y, [local], 2)
        others = X[::-3]
        with party.with_rows(chunked(others[:, N_ACTIVE:], (1, 99))) as other:
            found = model.predict(others[:, :N_ACTIVE], [other])
        expected = same.predict(others[:, :N_ACTIVE], [local.with_rows(others[:, N_ACTIVE:])])
    np.testing.assert_array_equal(found, expected)


def test_columns_of_a_model_are_known_by_name(client, tmp_path):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    names = [f"column {k}" for k in range(X.shape[1] - N_ACTIVE)]
    table = pd.DataFrame(X[:, N_ACTIVE:], columns=names)
    local = xgb_fed.LocalParty(table, "bank")
    model = train_quietly(PARAMS, X[:, :N_ACTIVE], Y, [local], 2)
    local.save_model(tmp_path)
    later = dd.from_pandas(table.assign(late=1.0)[["late", *names[::-1]]], npartitions=2)
    with DaskParty(client, later, "bank") as party:
        party.load_model(tmp_path)
        found = model.predict(X[:, :N_ACTIVE], [party])
    np.testing.assert_array_equal(found, model.predict(X[:, :N_ACTIVE], [local]))


def test_blocks_may_be_sparse(client):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    values = np.where(np.abs(X[:, N_ACTIVE:]) < 0.5, 0, np.nan_to_num(X[:, N_ACTIVE:]))
    blocks = chunked(values, (120, 180)).map_blocks(scipy_sparse.csr_matrix)
    local = xgb_fed.LocalParty(scipy_sparse.csr_matrix(values), "bank")
    with DaskParty(client, blocks, "bank") as party:
        texts = [text_of(train_quietly(PARAMS, X[:, :N_ACTIVE], Y, [p], 2)) for p in (local, party)]
    assert texts[0] == texts[1]


# Workers that are threads of this process come and go at once.
